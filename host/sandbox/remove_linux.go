package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// binPrefix begins the name of the folder, at a tree's top, in which what is taken away is
// taken apart.
const binPrefix = ".ailang-worldd-removed-"

// remover takes paths of a tree away, however deep they are and whatever their modes: what
// is a directory is moved into a folder at the top, and so is each directory found in it, so
// that nothing is ever reached by a long way.
type remover struct {
	ctx  context.Context
	root *os.Root
	bin  string // "" until it is needed
	n    int
}

// remove takes one path away. Directories on the way that deny it are opened meanwhile.
func (r *remover) remove(rel string) error {
	fi, err := r.root.Lstat(rel)
	var restore []func()
	if errors.Is(err, fs.ErrPermission) || err == nil {
		restore = r.open(path.Dir(rel))
		fi, err = r.root.Lstat(rel)
	}
	defer func() {
		for i := len(restore) - 1; i >= 0; i-- {
			restore[i]()
		}
	}()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.IsDir():
		return r.root.Remove(rel)
	}
	at, err := r.toBin(rel)
	if err != nil {
		return err
	}
	return r.takeApart(at)
}

// open gives their owner every right to the directories down to one, from the top.
func (r *remover) open(dir string) (restore []func()) {
	if dir == "." {
		return nil
	}
	at := ""
	for _, seg := range strings.Split(dir, "/") {
		at = path.Join(at, seg)
		name := at
		fi, err := r.root.Lstat(name)
		if err != nil || !fi.IsDir() || fi.Mode().Perm()&0o700 == 0o700 {
			continue
		}
		if r.root.Chmod(name, 0o700) == nil {
			restore = append(restore, func() { _ = r.root.Chmod(name, fi.Mode().Perm()) }) // if it is gone, so be it
		}
	}
	return restore
}

// toBin moves a directory into the folder at the top. To be moved it must be its owner's to
// write, since its parent is written in it.
func (r *remover) toBin(rel string) (string, error) {
	if r.bin == "" {
		name := binPrefix + rand.Text()
		if err := r.root.Mkdir(name, 0o700); err != nil {
			return "", err
		}
		r.bin = name
	}
	if err := r.root.Chmod(rel, 0o700); err != nil {
		return "", err
	}
	r.n++
	at := fmt.Sprintf("%s/%d", r.bin, r.n)
	return at, r.root.Rename(rel, at)
}

// takeApart empties and removes a directory of the bin, and those it held.
func (r *remover) takeApart(first string) error {
	for queue := []string{first}; len(queue) > 0; {
		dir := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		more, err := r.emptyOne(dir)
		if err == nil {
			err = r.root.Remove(dir)
		}
		if err != nil {
			return err
		}
		queue = append(queue, more...)
	}
	return nil
}

// emptyOne removes the files of a directory, and moves its directories out.
func (r *remover) emptyOne(dir string) (moved []string, err error) {
	f, err := r.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		some, err := f.ReadDir(ctxEvery)
		for _, e := range some {
			name := dir + "/" + e.Name()
			if !e.IsDir() {
				if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return moved, err
				}
				continue
			}
			at, err := r.toBin(name)
			if err != nil {
				return moved, err
			}
			moved = append(moved, at)
		}
		switch {
		case r.ctx.Err() != nil:
			return moved, r.ctx.Err()
		case err == io.EOF || err == nil && len(some) == 0:
			return moved, nil
		case err != nil:
			return moved, err
		}
	}
}

// empty removes the folder at the top, if there is one.
func (r *remover) empty() error {
	if r.bin == "" {
		return nil
	}
	return r.root.Remove(r.bin)
}
