package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"ailang.dev/world/host/world"
)

// repository is where a worktree's history is kept. All paths are absolute and without
// links.
type repository struct {
	tree    string // the worktree
	dir     string // what belongs to this worktree alone: HEAD, index
	common  string // what all worktrees share: refs, objects
	objects string
	head    string // HEAD's text
	branch  string // the ref that HEAD stands on; "" if it is detached
}

// untrusted says why a repository is not opened. The operator reads it; an agent does not.
func untrusted(subject, format string, args ...any) error {
	return &world.Error{Op: "git.locate", Kind: world.KindNotFound, Subject: subject, Msg: fmt.Sprintf(format, args...)}
}

// realDir is a directory's path without links.
func realDir(p string) (string, error) {
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", err
	}
	fi, err := os.Stat(abs)
	if err == nil && !fi.IsDir() {
		err = syscall.ENOTDIR
	}
	return abs, err
}

// locate finds the repository of an episode's worktree. Whoever can write .git could make
// it lead anywhere, so it is believed only if the other end says the same: a folder that git
// made for exactly this worktree, outside of all worktrees, in which nothing that we use is
// a link.
func locate(root, episode string) (repository, error) {
	if err := world.CheckEpisode(episode); err != nil {
		return repository{}, untrusted(episode, "%s", err.Error())
	}
	r := repository{tree: filepath.Join(root, episode)}
	if fi, err := os.Lstat(r.tree); err != nil || !fi.IsDir() {
		return r, untrusted(episode, "episode %q has no worktree that is a real directory", episode)
	}
	dot := filepath.Join(r.tree, ".git")
	fi, err := os.Lstat(dot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, untrusted(episode, "the worktree of episode %q is no git worktree", episode)
	case err != nil:
		return r, err
	case fi.IsDir():
		r.dir, r.common = dot, dot
		if _, err := os.Lstat(filepath.Join(dot, "commondir")); err == nil {
			return r, untrusted(dot, "the repository names another as its own")
		}
	case fi.Mode().IsRegular():
		if err := r.follow(dot, root); err != nil {
			return r, err
		}
	default:
		return r, untrusted(dot, "the worktree's .git is neither a directory nor a file")
	}
	r.objects = filepath.Join(r.common, "objects")
	if err := r.checkShape(episode); err != nil {
		return r, err
	}
	return r, r.readHead()
}

// follow reads a .git file, and holds what it leads to against the worktree.
func (r *repository) follow(dot, root string) error {
	text, err := smallFile(dot, maxSmallFile)
	if err != nil {
		return err
	}
	target, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
	if !ok || target == "" {
		return untrusted(dot, "the worktree's .git is not a file that git wrote")
	}
	if r.dir, err = realDir(from(r.tree, target)); err != nil {
		return untrusted(dot, "the worktree's repository is gone; if it was moved: git worktree repair")
	}
	if within(r.dir, root) {
		return untrusted(dot, "the worktree's .git leads to %s, inside a worktree", r.dir)
	}
	r.common = filepath.Dir(filepath.Dir(r.dir))
	back, err := smallFile(filepath.Join(r.dir, "gitdir"), maxSmallFile)
	if err != nil {
		return untrusted(r.dir, "%s is not a worktree's folder in a repository", r.dir)
	}
	at := from(r.dir, strings.TrimRight(back, "\r\n"))
	tree, err := realDir(filepath.Dir(at))
	if err != nil || filepath.Base(at) != ".git" || tree != r.tree || filepath.Base(filepath.Dir(r.dir)) != "worktrees" {
		return untrusted(r.dir, "%s belongs to another worktree", r.dir)
	}
	shared, err := smallFile(filepath.Join(r.dir, "commondir"), maxSmallFile)
	if err != nil {
		return untrusted(r.dir, "%s is not a worktree's folder in a repository", r.dir)
	}
	if common, err := realDir(from(r.dir, strings.TrimRight(shared, "\r\n"))); err != nil || common != r.common {
		return untrusted(r.dir, "%s names another repository than the one it is in", r.dir)
	}
	return nil
}

// checkShape demands that what git is going to read or write by name is what it is called:
// a link in its place would let git read, or append to, something else.
func (r *repository) checkShape(episode string) error {
	if strings.ContainsAny(r.common+r.tree, "\n\"") {
		return untrusted(r.common, "the path of the repository holds a line end or a quote")
	}
	dirs := []string{"objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/heads/world", "refs/tags", "refs/remotes",
		"info", "logs", "logs/refs", "logs/refs/heads", "logs/refs/heads/world"}
	files := []string{"config", "packed-refs", "shallow", "info/exclude", "info/attributes",
		"refs/heads/world/" + episode, "logs/refs/heads/world/" + episode}
	for _, name := range dirs {
		if fi, err := os.Lstat(filepath.Join(r.common, name)); err == nil && !fi.IsDir() {
			return untrusted(r.common, "%s in the repository is not a real directory", name)
		}
	}
	for _, name := range files {
		if err := regular(r.common, name); err != nil {
			return err
		}
	}
	for _, name := range []string{"HEAD", "index", "logs/HEAD"} {
		if err := regular(r.dir, name); err != nil {
			return err
		}
	}
	for _, name := range []string{"objects/info/alternates", "objects/info/http-alternates"} {
		if fi, err := os.Lstat(filepath.Join(r.common, name)); err == nil && (!fi.Mode().IsRegular() || fi.Size() > 0) {
			return &world.Error{Op: "git.locate", Kind: world.KindNotFound, Subject: r.common, Msg: "the repository borrows objects from another one",
				Hint: "make it whole: git repack -a -d, then remove " + name}
		}
	}
	if fi, err := os.Stat(filepath.Join(r.common, "refs")); err != nil || !fi.IsDir() {
		return untrusted(r.common, "the repository has no refs")
	}
	return nil
}

// regular demands a regular file, or none at all.
func regular(dir, name string) error {
	fi, err := os.Lstat(filepath.Join(dir, name))
	if err == nil && !fi.Mode().IsRegular() {
		return untrusted(dir, "%s in the repository is not a regular file", name)
	}
	return nil
}

// maxRef bounds the name of a branch. It is no part of the pattern, since a count that large
// makes one that takes milliseconds to compile.
const maxRef = 1000

var headRef = regexp.MustCompile(`^ref: (refs/heads/[^\x00-\x20\x7f]+)$|^([0-9a-f]{40}|[0-9a-f]{64})$`)

// readHead reads where the worktree stands.
func (r *repository) readHead() error {
	text, err := smallFile(filepath.Join(r.dir, "HEAD"), maxSmallFile)
	if err != nil {
		return untrusted(r.dir, "the repository has no HEAD that can be read")
	}
	m := headRef.FindStringSubmatch(strings.TrimRight(text, "\n"))
	if m == nil || strings.Contains(m[1], "..") || len(m[1]) > maxRef {
		return untrusted(r.dir, "HEAD of the worktree is neither on a branch nor a commit")
	}
	r.head, r.branch = m[0]+"\n", m[1]
	return nil
}

// states are the files that tell of an operation that was begun and not ended.
var states = []struct{ name, what string }{
	{"MERGE_HEAD", "a merge"}, {"CHERRY_PICK_HEAD", "a cherry-pick"}, {"REVERT_HEAD", "a revert"},
	{"rebase-merge", "a rebase"}, {"rebase-apply", "a rebase"}, {"sequencer", "a sequence of picks"}, {"BISECT_LOG", "a bisection"},
}

// underWay is the operation that was begun in the worktree, or "".
func (r *repository) underWay() string {
	for _, s := range states {
		if _, err := os.Lstat(filepath.Join(r.dir, s.name)); err == nil {
			return s.what
		}
	}
	return ""
}

// from is a path that may be relative to a folder.
func from(dir, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(dir, p)
}

// within tells whether p is dir or lies below it.
func within(p, dir string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// smallFile reads a regular file of at most max bytes; a link in its place is not followed.
func smallFile(path string, max int64) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > max {
		return "", untrusted(path, "%s in the repository is not a file of at most %d bytes", filepath.Base(path), max)
	}
	b, err := io.ReadAll(io.LimitReader(f, max))
	return string(b), err
}
