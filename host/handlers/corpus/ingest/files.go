package ingest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// file is one that may be read.
type file struct {
	path string // absolute, or what stands for that of a file that ships
	rel  string // below what was named
	read func() ([]byte, error)
}

// Failure is a file that was not taken.
type Failure struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// walker finds the files of paths that were named.
type walker struct {
	files   []file
	failed  []Failure
	skipped int // files of folders that are of no kind that is taken
	seen    map[string]bool
}

func (w *walker) fail(path string, err error) {
	w.failed = append(w.failed, failure(path, err))
}

// failure tells of a file; a name that is no text is made one.
func failure(path string, err error) Failure {
	return Failure{strings.ToValidUTF8(path, "\ufffd"), strings.ToValidUTF8(whyNot(err), "\ufffd")}
}

// whyNot is an error's reason without the path, which is told beside it.
func whyNot(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// walk finds the files of a path: itself, or all below it that are of a kind that is taken.
// Hidden ones are not looked at, links are told and not followed.
func (w *walker) walk(ctx context.Context, path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		w.fail(path, err)
		return nil
	}
	if !st.IsDir() {
		w.take(path, filepath.Base(path), st.Mode())
		return nil
	}
	base := path
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(w.files) > MaxFiles:
			return reason("there are more than %d files", MaxFiles)
		case err != nil:
			w.fail(path, err)
			return nil
		case path != base && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.Count(rel, string(filepath.Separator)) >= MaxDepth {
				w.fail(path, reason("it is more than %d folders deep", MaxDepth))
				return fs.SkipDir
			}
			return nil
		}
		if byEnding[strings.ToLower(filepath.Ext(path))] == "" {
			w.skipped++
			return nil
		}
		w.take(path, filepath.ToSlash(rel), d.Type())
		return nil
	})
}

// take takes a file that is a regular one.
func (w *walker) take(path, rel string, mode fs.FileMode) {
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	switch {
	case w.seen[path]:
		return
	case mode&fs.ModeSymlink != 0:
		w.fail(path, reason("it is a symbolic link, which is not followed; name the file it leads to"))
		return
	case !mode.IsRegular():
		w.fail(path, reason("it is %s and no file", special(mode)))
		return
	case !utf8.ValidString(path):
		w.fail(path, reason("its name is not valid UTF-8"))
		return
	}
	w.seen[path] = true
	w.files = append(w.files, file{path, rel, func() ([]byte, error) { return readFile(path) }})
}

func special(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something special"
}

// readFile reads a regular file of at most MaxFile bytes. It follows no link and waits for
// no pipe, also if one took the file's place a moment ago.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, reason("it is %s and no file", special(st.Mode()))
	}
	return readBounded(f)
}

func readBounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err == nil && len(b) > MaxFile {
		err = reason("it is larger than %d MB", MaxFile>>20)
	}
	return b, err
}

// walkFS finds the files of a file system that ships. prefix stands for its place.
func (w *walker) walkFS(fsys fs.FS, prefix string) error {
	return fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || byEnding[strings.ToLower(filepath.Ext(path))] == "" {
			return err
		}
		w.files = append(w.files, file{prefix + path, path, func() ([]byte, error) {
			f, err := fsys.Open(path)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return readBounded(f)
		}})
		return nil
	})
}
