package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// errStop ends a walk whose caller has enough.
var errStop = errors.New("stop")

// found is one name that a walk came by.
type found struct {
	dir  *os.Root
	name string
	rel  string // from where the walk began
	kind fs.FileMode
}

// walker goes through a directory and all that is below, in the bytewise order of whole
// paths. It passes over .git and the handler's own temporary files, and follows no link.
type walker struct {
	visit    func(found) error // for all that is no directory
	maxDepth int               // directories below the first that are looked into
	left     int               // names that may still be looked at
	cut      bool              // something was left out
}

// pressed says that a walk has to come to its end: with an error if ctx has ended, with
// errStop if so little of it is left that what was found had better be answered now.
func pressed(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < answerGrace {
		return errStop
	}
	return nil
}

func (w *walker) walk(ctx context.Context, dir *os.Root, rel string, depth int) error {
	if err := w.pressed(ctx); err != nil {
		return err
	}
	entries, cut, err := readNames(dir, min(w.left, MaxDirEntries))
	w.cut = w.cut || cut
	w.left -= len(entries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name == ".git" {
			continue
		}
		at := path.Join(rel, name)
		if !e.IsDir() {
			if err := w.pressed(ctx); err != nil {
				return err
			}
			if err := w.visit(found{dir, name, at, e.Type()}); err != nil {
				return err
			}
			continue
		}
		if err := w.enter(ctx, dir, name, at, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) pressed(ctx context.Context) error {
	err := pressed(ctx)
	w.cut = w.cut || errors.Is(err, errStop)
	return err
}

// enter walks a directory below. One that cannot be opened, or is gone, is left out.
func (w *walker) enter(ctx context.Context, in *os.Root, name, rel string, depth int) error {
	if depth >= w.maxDepth {
		w.cut = w.cut || w.maxDepth == MaxDepth
		return nil
	}
	sub, err := openDir(in, name, nil)
	if err != nil {
		w.cut = w.cut || !errors.Is(err, fs.ErrNotExist)
		return nil
	}
	defer sub.Close()
	return w.walk(ctx, sub, rel, depth+1)
}

// run walks from dir. It tells whether something was left out: a bound was reached, or a
// directory could not be read.
func (w *walker) run(ctx context.Context, dir *os.Root) (cut bool, err error) {
	w.left = MaxWalk
	err = w.walk(ctx, dir, "", 0)
	if errors.Is(err, errStop) {
		err = nil
	}
	return w.cut, err
}

// readNames reads up to max entries of a directory and sorts them so that a walk in this
// order meets whole paths bytewise. The handler's own temporary files are left out.
func readNames(dir *os.Root, max int) (entries []fs.DirEntry, cut bool, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	for {
		if len(entries) >= max {
			more, _ := f.ReadDir(1)
			cut = len(more) > 0
			break
		}
		some, err := f.ReadDir(min(1024, max-len(entries)))
		for _, e := range some {
			if !strings.HasPrefix(e.Name(), tempPrefix) {
				entries = append(entries, e)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	return entries, cut, nil
}

func sortKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}
