package git

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockMark is what our index.lock holds. No git writes such a text, and whoever wrote it
// holds the file locked while they live: so a lock that a crash left is surely ours.
const lockMark = "ailang-worldd index lock\n"

// indexTemp begins the names of indexes that are not yet in place.
const indexTemp = "ailang-worldd-index-"

// indexLock keeps every git out of a worktree's index, as git's own lock does.
type indexLock struct {
	dir  string
	file *os.File
}

// lockIndex takes the lock of a worktree's index. Nobody is waited for. The lock comes to its
// name with the mark in it: a crash at any time leaves none that the next call does not know.
func lockIndex(dir string) (*indexLock, error) {
	path := filepath.Join(dir, "index.lock")
	f, err := os.CreateTemp(dir, indexTemp)
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		_, err = f.WriteString(lockMark)
	}
	if err == nil {
		if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) && abandoned(path) {
			err = os.Link(f.Name(), path)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist): // one that has the lock sweeps what is not yet in place
		f.Close()
		return nil, refuse("another git is at work in this worktree (it has an index.lock); try again when it has ended")
	case err != nil:
		f.Close()
		return nil, err
	}
	sweepIndexes(dir)
	return &indexLock{dir: dir, file: f}, nil
}

// abandoned removes a lock that a crash of ours left, and tells whether it did.
func abandoned(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(lockMark)+1)
	n, err := io.ReadFull(f, head)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(head[:n]) != lockMark || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	mine, err := f.Stat()
	now, nerr := os.Lstat(path)
	return err == nil && nerr == nil && os.SameFile(mine, now) && os.Remove(path) == nil
}

// sweepIndexes removes what a crash left half written. The lock is held.
func sweepIndexes(dir string) {
	old, err := filepath.Glob(filepath.Join(escapeGlob(dir), indexTemp+"*"))
	if err != nil {
		return
	}
	for _, p := range old {
		if strings.HasPrefix(filepath.Base(p), indexTemp) {
			os.Remove(p)
		}
	}
}

// replace puts an index in the place of the worktree's, whole or not at all.
func (l *indexLock) replace(src string) error {
	tmp, err := os.CreateTemp(l.dir, indexTemp)
	if err != nil {
		return err
	}
	name := tmp.Name()
	tmp.Close()
	os.Remove(name)
	place := filepath.Join(l.dir, "index")
	mode := fs.FileMode(0o644)
	if fi, err := os.Lstat(place); err == nil {
		mode = fi.Mode().Perm()
	}
	if err := copyWhole(src, name, MaxIndex); err != nil {
		os.Remove(name)
		return err
	}
	err = os.Chmod(name, mode)
	if err == nil {
		err = syncFile(name)
	}
	if err == nil {
		err = os.Rename(name, place)
	}
	if err != nil {
		os.Remove(name)
	}
	return err
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (l *indexLock) release() {
	os.Remove(filepath.Join(l.dir, "index.lock"))
	l.file.Close()
}
