package git

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
)

// Trailer is what ties a commit to the log. Its value is
// "store=<store> episode=<episode> entries=<first>-<last>".
const Trailer = "World-Provenance"

var (
	ownTrailer = regexp.MustCompile(`(?im)^[\s\p{Zs}]*world-provenance[\s\p{Zs}]*[:=]`)
	trailerOf  = regexp.MustCompile(`^store=([!-~]{1,200}) episode=([a-z0-9-]{1,64}) entries=([0-9]{1,16})-([0-9]{1,16})$`)
)

// do makes a commit on the episode's branch.
func (a *commitArgs) do(ctx context.Context, c *call) ([]byte, error) {
	message, err := checkMessage(a.Message)
	if err != nil {
		return nil, err
	}
	paths, err := c.checkPaths(a.Paths)
	if err != nil {
		return nil, err
	}
	if err := c.mayCommit(ctx); err != nil {
		return nil, err
	}
	lock, err := lockIndex(c.repo.dir)
	if err != nil {
		return nil, err
	}
	defer lock.release()
	if c.h.hooks.locked != nil {
		c.h.hooks.locked()
	}
	// What was copied before the lock was had may be old.
	if err := os.Remove(c.dir("git", "index")); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if err := copyWhole(c.repo.dir+"/index", c.dir("git", "index"), MaxIndex); err != nil {
		return nil, err
	}
	return c.commit(ctx, lock, message, paths)
}

// checkMessage refuses a message that cannot be one, and gives it as it will stand.
func checkMessage(m string) (string, error) {
	m = strings.ReplaceAll(m, "\r\n", "\n")
	rows := strings.Split(m, "\n")
	for i, r := range rows {
		rows[i] = strings.TrimRight(r, " \t\r")
	}
	m = strings.Trim(strings.Join(rows, "\n"), "\n")
	switch {
	case strings.TrimSpace(m) == "":
		return "", refuse("message is empty")
	case len(m) > MaxMessage:
		return "", refuse("message is too long: %d bytes, at most %d", len(m), MaxMessage)
	case !utf8.ValidString(m) || strings.ContainsFunc(m, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return "", refuse("message holds what is not text, or control characters")
	case ownTrailer.MatchString(m):
		return "", refuse("message must not hold the trailer %s: it is added here", Trailer)
	}
	return m + "\n", nil
}

// checkPaths refuses paths of bad shape, and those that the policy protects.
func (c *call) checkPaths(asked []string) ([]string, error) {
	if asked != nil && len(asked) == 0 {
		return nil, refuse("paths is empty: leave it out to commit every change")
	}
	if len(asked) > MaxPaths {
		return nil, refuse("paths names %d paths; at most %d", len(asked), MaxPaths)
	}
	var paths []string
	for _, p := range asked {
		if p == "" {
			return nil, refuse("path %s is empty", quoted(p))
		}
		clean, err := cleaned(p)
		if err != nil {
			return nil, err
		}
		if clean == "" {
			return nil, nil // the whole worktree
		}
		if pat := c.policy.Denies(strings.Split(clean, "/")); pat != "" {
			return nil, refuse("path %s is protected: %s is read-only", quoted(p), pat)
		}
		paths = append(paths, clean)
	}
	return paths, nil
}

// mayCommit refuses a worktree that stands anywhere but on the episode's branch, or in the
// midst of something.
func (c *call) mayCommit(ctx context.Context) error {
	own := "refs/heads/" + BranchOf(c.episode)
	switch what := c.repo.underWay(); {
	case c.repo.branch == "":
		return refuse("HEAD of the worktree is detached; commits are made on the branch %s only", strings.TrimPrefix(own, "refs/heads/"))
	case c.repo.branch != own:
		return refuse("the worktree is on the branch %s; commits are made on %s only", quoted(c.branchName()), strings.TrimPrefix(own, "refs/heads/"))
	case what != "":
		return refuse("%s is under way in the worktree; a person has to end it", what)
	}
	target, err := c.line(ctx, run{args: []string{"symbolic-ref", "--quiet", own}})
	var none *failure
	switch {
	case err == nil:
		name, _ := escape(target)
		return refuse("the branch %s is another name of %s; commits are made on a branch of its own", strings.TrimPrefix(own, "refs/heads/"), quoted(name))
	case !asFailure(err, &none):
		return err
	}
	return nil
}

// made is a commit that is about to be the branch's.
type made struct {
	id, tree, parent string
	value            string // of the trailer
	first, last      int64
}

// commit makes the objects, then writes the index and moves the branch. The lock is held.
func (c *call) commit(ctx context.Context, lock *indexLock, message string, paths []string) ([]byte, error) {
	parent, err := c.headCommit(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.chosen(ctx, paths)
	if err != nil {
		return nil, err
	}
	s, err := c.newSnapshot(MaxFile, MaxSnapshot)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.deny = c.policy.Denies
	m := made{parent: parent}
	if m.tree, err = s.take(ctx, parent, all); err != nil {
		return nil, err
	}
	if err := c.someChange(ctx, m, s); err != nil {
		return nil, err
	}
	if err := c.write(ctx, &m, message); err != nil {
		return nil, err
	}
	var d comparison
	if err := c.listFiles(ctx, two{a: parent, b: m.id}, &d); err != nil {
		return nil, err
	}
	if err := c.stage(ctx, m, append(s.gone, s.taken...)); err != nil {
		return nil, err
	}
	if err := c.move(ctx, lock, m, message); err != nil {
		return nil, err
	}
	return hashref.Marshal(struct {
		OK         bool         `json:"ok"`
		Commit     string       `json:"commit"`
		Parent     string       `json:"parent"`
		Branch     string       `json:"branch"`
		Files      []fileChange `json:"files"`
		LeftOut    []leftOut    `json:"left_out,omitempty"`
		Truncated  bool         `json:"truncated"`
		Provenance string       `json:"provenance"`
		stamp
	}{true, m.id, parent, c.branchName(), d.files, s.left, d.truncated || s.more, m.value, c.stamp})
}

// chosen is the changes that are asked for.
func (c *call) chosen(ctx context.Context, paths []string) ([]change, error) {
	all, more, err := c.changes(ctx, MaxChanged, paths...)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, refuse("more than %d paths changed: name some of them in paths", MaxChanged)
	}
	for _, ch := range all {
		if ch.conflict {
			return nil, refuse("path %s has a conflict that is not resolved", quoted(ch.path))
		}
	}
	for _, p := range paths {
		if !slices.ContainsFunc(all, func(ch change) bool { return ch.path == p || strings.HasPrefix(ch.path, p+"/") }) {
			return nil, refuse("nothing changed at path %s", quoted(p))
		}
	}
	return all, nil
}

// someChange refuses a commit of nothing.
func (c *call) someChange(ctx context.Context, m made, s *snapshot) error {
	tree, err := c.line(ctx, run{args: []string{"rev-parse", "--verify", "--quiet", m.parent + "^{tree}"}})
	switch {
	case err != nil:
		return err
	case tree != m.tree:
		return nil
	case len(s.left) > 0:
		return refuse("nothing to commit: %s was left out: %s", strconv.Quote(s.left[0].Path), s.left[0].Reason)
	}
	return refuse("nothing to commit: nothing changed since the last commit")
}

// write makes the commit object.
func (c *call) write(ctx context.Context, m *made, message string) error {
	var err error
	if m.first, m.last, err = c.entries(ctx); err != nil {
		return err
	}
	m.value = fmt.Sprintf("store=%s episode=%s entries=%d-%d", c.h.cfg.Store, c.episode, m.first, m.last)
	message, err = c.ask(ctx, run{args: []string{"interpret-trailers", "--no-divider", "--where", "end", "--if-exists", "add", "--if-missing", "add",
		"--trailer", Trailer + ": " + m.value}, stdin: strings.NewReader(message)})
	if err != nil {
		return err
	}
	m.id, err = c.line(ctx, run{args: []string{"commit-tree", m.tree, "-p", m.parent}, stdin: strings.NewReader(message), env: c.author()})
	return err
}

// author names the episode as who wrote and who committed.
func (c *call) author() []string {
	date := fmt.Sprintf("@%d +0000", c.h.cfg.Now().Unix())
	var env []string
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME=World episode "+c.episode, "GIT_"+who+"_EMAIL="+c.episode+"@world.invalid", "GIT_"+who+"_DATE="+date)
	}
	return env
}

// entries is the part of the log between which all that the episode did for this commit
// lies: from after what its last commit on the branch named to the newest entry. The store
// keeps no list of entries by episode, so entries of others may lie between them.
func (c *call) entries(ctx context.Context) (first, last int64, err error) {
	if last, err = c.h.cfg.LogEnd(ctx); err != nil {
		return 0, 0, err
	}
	text, err := c.ask(ctx, run{args: []string{"log", "-z", "--first-parent", "--no-show-signature", "--no-mailmap", "--no-notes", "--no-patch",
		fmt.Sprintf("--max-count=%d", maxTrailers), "--format=tformat:" + trailerFormat, "HEAD"}})
	if err != nil {
		return 0, 0, err
	}
	for value := range strings.SplitSeq(text, "\x00") {
		m := trailerOf.FindStringSubmatch(value)
		if m == nil || m[1] != c.h.cfg.Store || m[2] != c.episode {
			continue
		}
		if b, err := strconv.ParseInt(m[4], 10, 64); err == nil {
			return min(b+1, last), last, nil
		}
	}
	return 0, last, nil
}

// stage brings what is committed into the copy of the index, so that the worktree's files
// and HEAD agree when it is put in place. What was staged of other paths stays so.
func (c *call) stage(ctx context.Context, m made, taken []string) error {
	text, err := c.ask(ctx, run{args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", m.parent, m.tree}})
	if err != nil {
		return err
	}
	var lines strings.Builder
	recs := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	for i := 0; i+1 < len(recs); i += 2 {
		f := strings.Fields(recs[i])
		if len(f) != 5 {
			return errBadOutput
		}
		fmt.Fprintf(&lines, "%s %s\t%s\x00", f[1], f[3], recs[i+1])
	}
	r := run{args: []string{"update-index", "--replace", "-z", "--index-info"}, stdin: strings.NewReader(lines.String())}
	if _, err := c.ask(ctx, r); err != nil {
		return err
	}
	if err := c.restore(ctx, m, taken, recs); err != nil {
		return err
	}
	// Files that it cannot vouch for are no failure: the next status looks at them.
	err = c.git(ctx, run{args: []string{"update-index", "-q", "--refresh"}, work: c.repo.tree})
	var none *failure
	if asFailure(err, &none) {
		return nil
	}
	return err
}

// restore brings paths into line that were staged otherwise than they are now in the
// worktree, which is as HEAD has them.
func (c *call) restore(ctx context.Context, m made, taken, changed []string) error {
	in := map[string]bool{}
	for i := 1; i < len(changed); i += 2 {
		in[changed[i]] = true
	}
	var lines strings.Builder
	var rest []string
	for _, p := range taken {
		if !in[p] {
			rest = append(rest, p)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	text, err := c.ask(ctx, run{args: []string{"ls-tree", "-r", "-z", "--full-tree", m.tree}})
	if err != nil {
		return err
	}
	have := map[string]string{}
	for rec := range strings.SplitSeq(text, "\x00") {
		if meta, name, ok := strings.Cut(rec, "\t"); ok {
			have[name] = meta
		}
	}
	for _, p := range rest {
		meta, ok := have[p]
		if !ok {
			meta = "0 " + strings.Repeat("0", len(m.tree))
		}
		fmt.Fprintf(&lines, "%s\t%s\x00", meta, p)
	}
	_, err = c.ask(ctx, run{args: []string{"update-index", "--replace", "-z", "--index-info"}, stdin: strings.NewReader(lines.String())})
	return err
}

// move writes the index, then moves the branch if it still is where it was. It is not
// ended by the caller's context, so that it is done whole. A crash between the two leaves
// the changes staged and the branch as it was.
func (c *call) move(ctx context.Context, lock *indexLock, m made, message string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := deadline(ctx, moveTimeout)
	defer cancel()
	if err := os.Rename(c.dir("git", "index"), c.dir("new-index")); err != nil {
		return err
	}
	before := c.dir("old-index")
	if err := copyWhole(c.repo.dir+"/index", before, MaxIndex); err != nil {
		return err
	}
	if err := lock.replace(c.dir("new-index")); err != nil {
		return err
	}
	if c.h.hooks.indexed != nil {
		c.h.hooks.indexed()
	}
	subject, _, _ := strings.Cut(message, "\n")
	subject, _ = clip(subject, maxNameInText)
	err := c.git(ctx, run{args: []string{"update-ref", "--no-deref", "-m", "commit: " + subject, c.repo.branch, m.id, m.parent}, env: c.author()})
	if err == nil {
		return nil
	}
	if now, aerr := c.line(ctx, run{args: []string{"rev-parse", "--verify", "--quiet", c.repo.branch}}); aerr != nil || now == m.id {
		return aerr
	}
	if rerr := lock.replace(before); rerr != nil {
		return rerr
	}
	var none *failure
	if asFailure(err, &none) {
		return refuse("the branch was moved by somebody else meanwhile, or is locked; nothing was committed: try again")
	}
	return err
}
