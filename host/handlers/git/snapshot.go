package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// leftOut is a change that a commit or diff does not take, and why.
type leftOut struct {
	Path    string `json:"path"`
	Reason  string `json:"reason"`
	Escaped bool   `json:"escaped,omitzero"`
}

// snapshot is the worktree's changes as a tree. Git never reads a file of the worktree for
// it: a program in the worktree could put a link in a directory's place between git's
// looking and its reading. What changed is copied through os.Root, which no link leads out
// of, and git reads the copies.
type snapshot struct {
	c       *call
	top     *os.Root // the worktree
	copies  *os.Root // tree/
	maxFile int64
	room    int64
	fresh   bool // its objects go with the call
	deny    func(segs []string) string
	taken   []string // paths that are in the tree as they are in the worktree
	gone    []string // those that are not in the tree, since they are not in the worktree
	left    []leftOut
	more    bool            // not all that was left out is told
	real    map[string]bool // directories that were looked at, and whether they are ones
}

// newSnapshot opens both ends. The caller closes it.
func (c *call) newSnapshot(maxFile, maxAll int64) (*snapshot, error) {
	s := &snapshot{c: c, maxFile: maxFile, room: maxAll, real: map[string]bool{".": true}, deny: func([]string) string { return "" }}
	var err error
	if s.top, err = os.OpenRoot(c.repo.tree); err != nil {
		return nil, err
	}
	if s.copies, err = os.OpenRoot(c.dir("tree")); err != nil {
		s.top.Close()
		return nil, err
	}
	return s, nil
}

func (s *snapshot) close() {
	s.top.Close()
	s.copies.Close()
}

func (s *snapshot) leave(p, format string, args ...any) {
	if len(s.left) == maxLeftOut {
		s.more = true
		return
	}
	l := leftOut{Reason: fmt.Sprintf(format, args...)}
	l.Path, l.Escaped = escape(p)
	s.left = append(s.left, l)
}

// take makes the tree of base with the changes in it.
func (s *snapshot) take(ctx context.Context, base string, all []change) (string, error) {
	if s.c.h.hooks.listed != nil {
		s.c.h.hooks.listed()
	}
	var paths []string
	for _, ch := range all {
		segs := strings.Split(strings.TrimSuffix(ch.path, "/"), "/")
		switch pat := s.deny(segs); {
		case pat != "":
			s.leave(ch.path, "protected: %s is read-only", pat)
		case strings.HasSuffix(ch.path, "/"), ch.submodule:
			s.leave(ch.path, "it is a repository of its own")
		default:
			paths = append(paths, ch.path)
		}
	}
	paths, err := s.unfiltered(ctx, paths)
	if err != nil {
		return "", err
	}
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		why, err := s.copy(p)
		switch {
		case errors.Is(err, errGone):
			s.gone, err = append(s.gone, p), nil
		case why != "":
			s.leave(p, "%s", why)
		case err == nil:
			s.taken = append(s.taken, p)
		}
		if err != nil {
			return "", err
		}
	}
	return s.write(ctx, base)
}

// index is where the snapshot's index is: HEAD's, with the changes.
func (s *snapshot) index() string { return s.c.dir("git", "snapshot-index") }

// write adds the copies to base, and removes what is in base and has no copy.
func (s *snapshot) write(ctx context.Context, base string) (string, error) {
	r := run{work: s.c.dir("tree"), index: s.index(), fresh: s.fresh}
	r.args = []string{"read-tree", base}
	if _, err := s.c.ask(ctx, r); err != nil {
		return "", err
	}
	for _, step := range []struct {
		paths []string
		how   []string
	}{{s.gone, []string{"--force-remove"}}, {s.taken, []string{"--add", "--replace"}}} {
		if len(step.paths) == 0 {
			continue
		}
		r.args = append(append([]string{"update-index"}, step.how...), "-z", "--stdin")
		r.stdin = nulled(step.paths)
		if _, err := s.c.ask(ctx, r); err != nil {
			return "", err
		}
	}
	r.args, r.stdin = []string{"write-tree"}, nil
	return s.c.line(ctx, r)
}

func nulled(paths []string) io.Reader { return strings.NewReader(strings.Join(paths, "\x00") + "\x00") }

// unfiltered leaves out what a filter should have turned into what is stored: none is run
// here, and to store the file as it is would be wrong.
func (s *snapshot) unfiltered(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if err := s.copyAttributes(paths); err != nil {
		return nil, err
	}
	text, err := s.c.ask(ctx, run{args: []string{"check-attr", "-z", "--stdin", "filter"}, work: s.c.dir("tree"), stdin: nulled(paths)})
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	if len(fields) != 3*len(paths) {
		return nil, errBadOutput
	}
	var free []string
	for i, p := range paths {
		if fields[3*i] != p {
			return nil, errBadOutput
		}
		switch v := fields[3*i+2]; v {
		case "unspecified", "unset", "set":
			free = append(free, p)
		default:
			s.leave(p, "its attributes put it through the filter %s, and no filter is run here", quoted(v))
		}
	}
	return free, nil
}

// copyAttributes copies the .gitattributes that hold for the paths: they say how line ends
// are stored.
func (s *snapshot) copyAttributes(paths []string) error {
	seen := map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			name := path.Join(dir, ".gitattributes")
			if !s.isDir(dir) {
				continue
			}
			fi, err := s.top.Lstat(name)
			if err != nil || !fi.Mode().IsRegular() || fi.Size() > MaxAttributes {
				continue
			}
			room := int64(MaxAttributes)
			if _, err := s.copyFile(name, &room, MaxAttributes); err != nil {
				return err
			}
		}
	}
	return nil
}

// errGone says that a path is no longer in the worktree, which is a change too.
var errGone = errors.New("the path is gone")

// copy copies one path. why is the reason not to take it.
func (s *snapshot) copy(p string) (why string, err error) {
	if !s.isDir(path.Dir(p)) {
		return "", errGone // what a link in a directory's place leads to is not p
	}
	fi, err := s.top.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && fi.IsDir():
		return "", errGone
	case err != nil:
		return "it cannot be read", nil
	case fi.Mode().Type() == fs.ModeSymlink:
		return s.copyLink(p)
	case !fi.Mode().IsRegular():
		return "it is neither a file nor a link", nil
	}
	return s.copyFile(p, &s.room, s.maxFile)
}

// isDir tells whether a path is a directory, with no link on the way to it.
func (s *snapshot) isDir(p string) bool {
	is, known := s.real[p]
	if !known {
		if is = s.isDir(path.Dir(p)); is {
			fi, err := s.top.Lstat(p)
			is = err == nil && fi.IsDir()
		}
		s.real[p] = is
	}
	return is
}

func (s *snapshot) copyLink(p string) (why string, err error) {
	target, err := s.top.Readlink(p)
	if err != nil {
		return "it changed meanwhile", nil
	}
	if err := s.room4(p); err != nil {
		return "", err
	}
	return "", s.copies.Symlink(target, p)
}

// room4 makes the directories of a copy, and its place free.
func (s *snapshot) room4(p string) error {
	if err := s.copies.MkdirAll(path.Dir(p), 0o700); err != nil {
		return err
	}
	if err := s.copies.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// copyFile copies a regular file. It never waits for a FIFO that was put in its place.
func (s *snapshot) copyFile(p string, room *int64, max int64) (why string, err error) {
	in, err := s.top.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "it cannot be read", nil
	}
	defer in.Close()
	fi, err := in.Stat()
	switch {
	case err != nil:
		return "", err
	case !fi.Mode().IsRegular():
		return "it is neither a file nor a link", nil
	case fi.Size() > max:
		return fmt.Sprintf("it is too large: %d bytes, at most %d", fi.Size(), max), nil
	case fi.Size() > *room:
		return "it is one too many: all together would be too large", nil
	}
	if err := s.room4(p); err != nil {
		return "", err
	}
	out, err := s.copies.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600|fi.Mode()&0o100)
	if err != nil {
		return "", err
	}
	defer out.Close()
	n, err := io.Copy(out, io.LimitReader(in, fi.Size())) // what is appended meanwhile is not taken
	*room -= n
	if err != nil {
		return "", err
	}
	return "", out.Close()
}
