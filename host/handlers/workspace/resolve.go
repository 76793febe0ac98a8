package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// refusal is what the file system, or the policy, says no to: an answer, not a failure.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// errChanged says that a name was no longer what it had just been.
var errChanged = errors.New("a name changed between being looked at and being opened")

func escapes(p string) error { return refuse("path %s escapes the worktree", quoted(p)) }

func missing(p string) error { return refuse("path %s does not exist", quoted(p)) }

// place is where a path really leads, with no link left in it: a chain of opened
// directories from the worktree down, and a name in the last of them.
type place struct {
	asked string     // the path as it was given
	clean []string   // its segments, cleaned, links and all
	dirs  []*os.Root // opened; the first is the worktree and not owned
	names []string   // names[i] is dirs[i+1] within dirs[i]
	// rest is what does not exist below the last directory, outermost first; empty if the
	// path exists.
	rest []string
	// file is the name in the last directory of what is no directory, and info what was seen
	// there; info is nil if the path is a directory or does not exist.
	file string
	info fs.FileInfo
}

// dir is the innermost directory that exists.
func (p *place) dir() *os.Root { return p.dirs[len(p.dirs)-1] }

// isDir tells whether the path is a directory.
func (p *place) isDir() bool { return len(p.rest) == 0 && p.info == nil }

// real is the segments of the path that is meant in the end.
func (p *place) real() []string {
	segs := append(append([]string(nil), p.names...), p.rest...)
	if p.info != nil {
		segs = append(segs, p.file)
	}
	return segs
}

// close closes all that resolve opened.
func (p *place) close() {
	for _, d := range p.dirs[1:] {
		d.Close()
	}
	p.dirs = p.dirs[:1]
}

// push opens a directory that was seen in the last one.
func (p *place) push(name string, seen fs.FileInfo) error {
	if len(p.names) == MaxDepth {
		return refuse("path %s leads through more than %d directories", quoted(p.asked), MaxDepth)
	}
	sub, err := openDir(p.dir(), name, seen)
	if err != nil {
		return err
	}
	p.dirs, p.names = append(p.dirs, sub), append(p.names, name)
	return nil
}

// pop goes to the parent; false at the top of the worktree.
func (p *place) pop() bool {
	n := len(p.names)
	if n == 0 {
		return false
	}
	p.dir().Close()
	p.dirs, p.names = p.dirs[:n], p.names[:n-1]
	return true
}

// cleaned checks the shape of a path and splits it; the worktree itself is no segment.
func cleaned(asked string) ([]string, error) {
	switch {
	case asked == "":
		return nil, refuse("path %q is empty", asked)
	case len(asked) > MaxPath:
		return nil, refuse("path %s is too long: %d bytes, at most %d", quoted(asked), len(asked), MaxPath)
	case strings.ContainsRune(asked, 0):
		return nil, refuse("path %s holds a NUL", quoted(asked))
	}
	p := path.Clean(asked)
	if p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
		return nil, escapes(asked)
	}
	if p == "." {
		return nil, nil
	}
	return strings.Split(p, "/"), nil
}

// resolve walks a path from the top of the worktree. Links are read and followed here, so
// that each step stays inside and the real path is known; what does not exist is no error.
// The caller closes the place.
func (c *call) resolve(asked string) (*place, error) {
	clean, err := cleaned(asked)
	if err != nil {
		return nil, err
	}
	p := &place{asked: asked, clean: clean, dirs: []*os.Root{c.top}}
	if err := p.walk(clean); err != nil {
		p.close()
		return nil, pathError(asked, "opened", err)
	}
	if c.h.hooks.resolved != nil {
		c.h.hooks.resolved()
	}
	return p, nil
}

func (p *place) walk(todo []string) error {
	for links := 0; len(todo) > 0; {
		seg := todo[0]
		todo = todo[1:]
		switch {
		case seg == "" || seg == ".":
			continue
		case seg == ".." && len(p.rest) > 0:
			return missing(p.asked)
		case seg == "..":
			if !p.pop() {
				return escapes(p.asked)
			}
			continue
		case len(p.rest) > 0:
			p.rest = append(p.rest, seg)
			continue
		}
		fi, err := p.dir().Lstat(seg)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			p.rest = []string{seg}
		case err != nil:
			return err
		case fi.Mode().Type() == fs.ModeSymlink:
			target, err := p.dir().Readlink(seg)
			if err != nil {
				return err
			}
			if links++; links > MaxLinks {
				return refuse("path %s leads through too many symbolic links", quoted(p.asked))
			}
			if strings.HasPrefix(target, "/") {
				return escapes(p.asked)
			}
			todo = append(strings.Split(target, "/"), todo...)
		case fi.IsDir():
			if err := p.push(seg, fi); err != nil {
				return err
			}
		case len(todo) > 0:
			at := strings.Join(append(append([]string(nil), p.names...), seg), "/")
			return refuse("path %s does not exist: %s is not a directory", quoted(p.asked), quoted(at))
		default:
			p.file, p.info = seg, fi
		}
	}
	return nil
}

// openDir opens the directory of a name as a root of its own, and demands that it is the
// one that was seen. "name/." makes the kernel demand a directory, so that a FIFO put
// there meanwhile cannot hold the call up.
func openDir(in *os.Root, name string, seen fs.FileInfo) (*os.Root, error) {
	sub, err := in.OpenRoot(name + "/.")
	if err != nil {
		return nil, ifChanged(in, name, seen, err)
	}
	fi, err := sub.Stat(".")
	if err == nil && seen != nil && !os.SameFile(fi, seen) {
		err = errChanged
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// ifChanged is errChanged if a name that could not be opened is no longer what was seen,
// else the error that opening it gave.
func ifChanged(in *os.Root, name string, seen fs.FileInfo, err error) error {
	if seen == nil {
		return err
	}
	now, gone := in.Lstat(name)
	if gone != nil || now.Mode().Type() != seen.Mode().Type() || !os.SameFile(now, seen) {
		return errChanged
	}
	return err
}

// openFile opens the regular file at a place for reading, and demands that it is the one
// that was seen. The file is never waited for.
func (p *place) openFile() (*os.File, fs.FileInfo, error) {
	switch {
	case len(p.rest) > 0:
		return nil, nil, missing(p.asked)
	case p.isDir():
		return nil, nil, refuse("path %s is a directory", quoted(p.asked))
	case strings.HasSuffix(p.asked, "/"):
		return nil, nil, refuse("path %s ends in a slash, but is not a directory", quoted(p.asked))
	case !p.info.Mode().IsRegular():
		return nil, nil, refuse("path %s is %s, not a file", quoted(p.asked), special(p.info.Mode()))
	}
	f, err := p.dir().OpenFile(p.file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, pathError(p.asked, "read", ifChanged(p.dir(), p.file, p.info, err))
	}
	fi, err := f.Stat()
	if err == nil && (!fi.Mode().IsRegular() || !os.SameFile(fi, p.info)) { // numbers are re-used
		err = errChanged
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// special names what is neither a file nor a directory.
func special(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// pathError makes refusals of what the file system says of a path; anything else stays a
// failure.
func pathError(asked, what string, err error) error {
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refuse("path %s is too long: a name in it is longer than the file system allows", quoted(asked))
	case errors.Is(err, fs.ErrPermission):
		return refuse("path %s cannot be %s: permission denied", quoted(asked), what)
	case errors.Is(err, syscall.ELOOP):
		return refuse("path %s leads through too many symbolic links", quoted(asked))
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EILSEQ):
		return refuse("path %s cannot be %s: the file system does not allow such a name", quoted(asked), what)
	}
	return err
}
