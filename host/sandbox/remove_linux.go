package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// remover takes paths of a tree away, however deep they are and whatever their modes. Another
// command may be at work in the tree: every name is taken from a descriptor that is held,
// and no link is followed, so nothing but what was under the path is reached. A directory is
// made flat while it is emptied, so that its depth costs no descriptors.
type remover struct {
	ctx context.Context
	top int // the tree
}

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// remove takes one path away. What is not there any more is no error. Directories on the way
// that deny it to their owner are opened meanwhile.
func (r *remover) remove(rel string) error {
	segs := strings.Split(rel, "/")
	at, err := unix.Openat(r.top, ".", dirFlags, 0)
	if err != nil {
		return err
	}
	parent := os.NewFile(uintptr(at), ".")
	defer func() { parent.Close() }()
	for _, seg := range segs[:len(segs)-1] {
		sub, restore, err := openOwn(parent, seg)
		if err != nil {
			return gone(err)
		}
		if restore != nil {
			defer restore()
		}
		parent.Close()
		parent = sub
	}
	return r.take(parent, segs[len(segs)-1])
}

// gone passes over what is not there, or is something else by now.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// openOwn opens a directory that its owner may have shut; restore, unless nil, shuts it again.
func openOwn(parent *os.File, name string) (dir *os.File, restore func(), err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, nil, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o700 != 0o700 {
		if restore, err = unlock(parent, name); err != nil {
			return nil, nil, err
		}
	}
	fd, err := unix.Openat(int(parent.Fd()), name, dirFlags, 0)
	if err != nil {
		if restore != nil {
			restore()
		}
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), name), restore, nil
}

// take removes a name from a directory, with all below it.
func (r *remover) take(parent *os.File, name string) error {
	dir, _, err := openOwn(parent, name) // it is not shut again: it goes
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return gone(unix.Unlinkat(int(parent.Fd()), name, 0))
	}
	if err != nil {
		return gone(err)
	}
	defer dir.Close()
	// Directories that were moved up stand among the names of the next reading.
	for {
		names, err := r.names(dir)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return gone(unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR))
		}
		for _, n := range names {
			if err := r.flatten(dir, n); err != nil {
				return err
			}
		}
	}
}

// flatten removes a file of a directory, or empties a directory of it: files go, directories
// move up beside it.
func (r *remover) flatten(dir *os.File, name string) error {
	sub, _, err := openOwn(dir, name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return gone(unix.Unlinkat(int(dir.Fd()), name, 0))
	}
	if err != nil {
		return gone(err)
	}
	defer sub.Close()
	for {
		names, err := r.names(sub)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return gone(unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR))
		}
		for _, n := range names {
			if err := r.up(sub, dir, n); err != nil {
				return err
			}
		}
	}
}

// up removes a file of a directory, or moves a directory of it to another. To be moved it must
// be its owner's to write, since its parent is written in it.
func (r *remover) up(from, to *os.File, name string) error {
	inner, _, err := openOwn(from, name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return gone(unix.Unlinkat(int(from.Fd()), name, 0))
	}
	if err != nil {
		return gone(err)
	}
	inner.Close()
	return gone(unix.Renameat(int(from.Fd()), name, int(to.Fd()), "removed-"+rand.Text()))
}

// names reads some of a directory's names, from its beginning; none says that it is empty.
func (r *remover) names(dir *os.File) ([]string, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(ctxEvery)
	if err == io.EOF {
		err = nil
	}
	return names, err
}
