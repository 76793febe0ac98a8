package git

import (
	"context"
	"strconv"
	"strings"

	"ailang.dev/world/host/hashref"
)

// fileChange is one file of a diff or commit.
type fileChange struct {
	Path    string `json:"path"`
	From    string `json:"from_path,omitzero"`
	Change  string `json:"change"`
	Added   *int64 `json:"added,omitzero"`   // lines; absent for what is not text
	Deleted *int64 `json:"deleted,omitzero"` // lines
	Binary  bool   `json:"binary,omitzero"`
	Escaped bool   `json:"escaped,omitzero"`

	path string // as it is
}

// comparison is what two trees differ in.
type comparison struct {
	files     []fileChange
	patch     string
	escaped   bool
	truncated bool
}

// two is a comparison to be made.
type two struct {
	a, b    string // trees or commits
	path    string
	context int64
	work    string // the worktree whose attributes hold
	fresh   bool
}

func (t two) run(args ...string) run {
	line := append([]string{"diff-tree", "-r", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"}, args...)
	return run{args: append(append(line, t.a, t.b), only(t.path)...), work: t.work, fresh: t.fresh}
}

// compare lists the files that differ, and makes the patch.
func (c *call) compare(ctx context.Context, t two) (comparison, error) {
	var d comparison
	if err := c.listFiles(ctx, t, &d); err != nil {
		return d, err
	}
	if err := c.countLines(ctx, t, &d); err != nil {
		return d, err
	}
	out := &bounded{max: MaxDiff, stop: true}
	r := t.run("--patch", "--find-renames", "-U"+strconv.FormatInt(t.context, 10), "--src-prefix=a/", "--dst-prefix=b/")
	r.out = out
	if err := c.git(ctx, r); err != nil {
		return d, err
	}
	text := out.String()
	if out.cut {
		d.truncated = true
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	d.patch, d.escaped = escape(text)
	return d, nil
}

// listFiles reads `--raw -z`: ":modes ids LETTER[score]", a path, and for renames another.
func (c *call) listFiles(ctx context.Context, t two, d *comparison) error {
	out := &records{max: 3 * MaxEntries}
	r := t.run("--raw", "-z", "--find-renames")
	r.out = out
	if err := c.git(ctx, r); err != nil {
		return err
	}
	d.files, d.truncated = []fileChange{}, out.more
	room := MaxList
	for recs := out.all; len(recs) > 0; {
		fields := strings.Fields(recs[0])
		if len(fields) != 5 || !strings.HasPrefix(recs[0], ":") || letters[fields[4][0]] == "" {
			return errBadOutput
		}
		f := fileChange{Change: letters[fields[4][0]]}
		n := 2
		if f.Change == "renamed" || f.Change == "copied" {
			n = 3
		}
		if len(recs) < n {
			if out.more {
				break
			}
			return errBadOutput
		}
		f.path = recs[n-1]
		f.Path, f.Escaped = escape(f.path)
		if n == 3 {
			var escaped bool
			f.From, escaped = escape(recs[1])
			f.Escaped = f.Escaped || escaped
		}
		if room -= jsonSize(f.Path) + jsonSize(f.From) + 120; room < 0 || len(d.files) == MaxEntries {
			d.truncated = true
			break
		}
		d.files, recs = append(d.files, f), recs[n:]
	}
	return nil
}

// countLines reads `--numstat -z`: "added TAB deleted TAB path", or for renames an empty
// path and then two.
func (c *call) countLines(ctx context.Context, t two, d *comparison) error {
	out := &records{max: 3 * MaxEntries}
	r := t.run("--numstat", "-z", "--find-renames")
	r.out = out
	if err := c.git(ctx, r); err != nil {
		return err
	}
	recs := out.all
	for i := range d.files {
		if len(recs) == 0 {
			if out.more {
				return nil
			}
			return errBadOutput
		}
		parts := strings.SplitN(recs[0], "\t", 3)
		if len(parts) != 3 {
			return errBadOutput
		}
		name, n := parts[2], 1
		if name == "" {
			if n = 3; len(recs) < n {
				return nil
			}
			name = recs[2]
		}
		if name != d.files[i].path {
			return errBadOutput
		}
		d.files[i].count(parts[0], parts[1])
		recs = recs[n:]
	}
	return nil
}

func (f *fileChange) count(added, deleted string) {
	a, errA := strconv.ParseInt(added, 10, 64)
	b, errB := strconv.ParseInt(deleted, 10, 64)
	if f.Binary = errA != nil || errB != nil; !f.Binary {
		f.Added, f.Deleted = &a, &b
	}
}

// do answers a diff: between two commits, or from one to the worktree as it is.
func (a *diffArgs) do(ctx context.Context, c *call) ([]byte, error) {
	t := two{work: c.dir("empty")}
	var err error
	if t.context, err = lines(a.Context); err != nil {
		return nil, err
	}
	if t.path, err = cleaned(a.Path); err != nil {
		return nil, err
	}
	if t.a, err = c.resolve(ctx, a.From); err != nil {
		return nil, err
	}
	var left []leftOut
	var more bool
	to := "worktree"
	if a.To != "" {
		if t.b, err = c.resolve(ctx, a.To); err != nil {
			return nil, err
		}
		to = t.b
	} else if left, more, err = c.worktreeTree(ctx, &t); err != nil {
		return nil, err
	}
	d, err := c.compare(ctx, t)
	if err != nil {
		return nil, err
	}
	return hashref.Marshal(struct {
		OK        bool         `json:"ok"`
		From      string       `json:"from"`
		To        string       `json:"to"`
		Files     []fileChange `json:"files"`
		Diff      string       `json:"diff"`
		LeftOut   []leftOut    `json:"left_out,omitempty"`
		Escaped   bool         `json:"escaped,omitzero"`
		Truncated bool         `json:"truncated"`
		stamp
	}{true, t.a, to, d.files, d.patch, left, d.escaped, d.truncated || more, c.stamp})
}

// worktreeTree makes the second tree of a comparison out of the worktree.
func (c *call) worktreeTree(ctx context.Context, t *two) (left []leftOut, more bool, err error) {
	var paths []string
	if t.path != "" {
		paths = []string{t.path}
	}
	all, more, err := c.changes(ctx, MaxChanged, paths...)
	if err != nil {
		return nil, false, err
	}
	s, err := c.newSnapshot(MaxDiffFile, MaxDiffFiles)
	if err != nil {
		return nil, false, err
	}
	defer s.close()
	s.fresh = true
	head, err := c.headCommit(ctx)
	if err != nil {
		return nil, false, err
	}
	if t.b, err = s.take(ctx, head, all); err != nil {
		return nil, false, err
	}
	t.work, t.fresh = c.dir("tree"), true
	return s.left, more || s.more, nil
}
