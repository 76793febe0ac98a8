// Package archive keeps programs in a folder, each under its hash, and proves that what is
// executed is what was archived. It owns the folder's names, the copy, the proof, and the
// sealed memory that is executed in place of a file. It starts nothing, and knows nothing of
// what the programs are. Answers spec/04-capsule.md and spec/16-ailang-tools.md.
package archive

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of an archive.
const (
	// MaxBinary is how many bytes a program may have.
	MaxBinary = 512 << 20
	// MaxVersion is how many bytes of a program's version text are kept.
	MaxVersion = 4 << 10
)

// VersionSuffix ends the name of the file that keeps what a program said of its version. It
// is for people: nothing is decided by it.
const VersionSuffix = ".version"

// Unfinished begins the names of files that are being written into an archive.
const Unfinished = ".new-"

// Path is where a program stands in an archive.
func Path(dir string, ref world.Ref) string { return filepath.Join(dir, ref.Hex()) }

// New is a program of an archive, which is not looked at yet. name says in messages to logf
// what it is.
func New(dir string, ref world.Ref, name string, logf func(format string, args ...any)) *Binary {
	return &Binary{path: Path(dir, ref), ref: ref, name: name, logf: logf, seal: newImage}
}

// openRegular opens a file that is regular and of a fit size. It does not wait for the
// other end of a pipe.
func openRegular(path string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock|flags, 0)
	if err != nil {
		return nil, nil, Bare(err)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = errors.New("is a folder")
	case !st.Mode().IsRegular():
		err = errors.New("is not a regular file")
	case st.Size() == 0:
		err = errors.New("is empty")
	case st.Size() > MaxBinary:
		err = fmt.Errorf("has more than %d bytes", MaxBinary)
	default:
		return f, st, nil
	}
	f.Close()
	return nil, nil, err
}

// Bare is the reason of an I/O error without the path, which the caller names.
func Bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// RefOf is the hash that a program would be archived under.
func RefOf(path string) (world.Ref, error) {
	f, _, err := openRegular(path, 0)
	if err != nil {
		return world.Ref{}, err
	}
	defer f.Close()
	sum := hashref.NewStream()
	if _, err = io.Copy(sum, io.LimitReader(f, MaxBinary+1)); err != nil {
		return world.Ref{}, err
	}
	return sum.Ref(), nil
}

// Add copies a program into the folder under its hash. A sound copy that is there is kept; a
// damaged one is replaced. The copy is on disk, under its name, when it returns. fresh tells
// that nothing was under its name before. An error says what is wrong with the file, and
// does not name it.
func Add(dir, path string) (ref world.Ref, fresh bool, err error) {
	f, st, err := openRegular(path, 0)
	if err != nil {
		return world.Ref{}, false, err
	}
	defer f.Close()
	if st.Mode()&0o111 == 0 {
		return world.Ref{}, false, errors.New("is not executable")
	}
	var start [2]byte
	if _, err := f.ReadAt(start[:], 0); err == nil && string(start[:]) == "#!" {
		return world.Ref{}, false, errors.New("is a script, whose hash says nothing of what it starts; name that program")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return world.Ref{}, false, err
	}
	tmp, err := os.CreateTemp(dir, Unfinished+"*")
	if err != nil {
		return world.Ref{}, false, err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	sum := hashref.NewStream()
	n, err := io.Copy(io.MultiWriter(tmp, sum), io.LimitReader(f, MaxBinary+1))
	if err == nil && n > MaxBinary {
		err = fmt.Errorf("has more than %d bytes", MaxBinary)
	}
	if err != nil {
		return world.Ref{}, false, err
	}
	ref = sum.Ref()
	name := Path(dir, ref)
	if err := (&Binary{path: name, ref: ref}).hash(); err == nil {
		return ref, false, nil
	}
	_, err = os.Lstat(name)
	fresh = errors.Is(err, fs.ErrNotExist)
	if err := errors.Join(tmp.Chmod(0o500), tmp.Sync(), tmp.Close()); err != nil {
		return world.Ref{}, false, err
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return world.Ref{}, false, err
	}
	if err := syncFolder(dir); err != nil {
		return world.Ref{}, false, errors.Join(err, Forget(dir, ref, fresh))
	}
	return ref, fresh, nil
}

// Forget takes a program out of the archive that turned out to be none, if it is fresh. What
// was there before may be what something in the store names.
func Forget(dir string, ref world.Ref, fresh bool) error {
	if !fresh {
		return nil
	}
	name := Path(dir, ref)
	if err := os.Remove(name + VersionSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(name)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// WriteVersion keeps a version text beside its program.
func WriteVersion(dir string, ref world.Ref, text string) error {
	name := Path(dir, ref) + VersionSuffix
	if old, err := os.ReadFile(name); err == nil && string(old) == text {
		return nil
	}
	tmp, err := os.CreateTemp(dir, Unfinished+"*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Chmod(0o400), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}

// ReadVersion is what WriteVersion kept, or "".
func ReadVersion(dir string, ref world.Ref) string {
	f, err := os.Open(Path(dir, ref) + VersionSuffix)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxVersion))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

// Refs are the programs of an archive, in order, looked for among its first entries. What is
// in the folder under another name than a hash is none; a folder that is not there is empty.
func Refs(dir string, entries int) ([]world.Ref, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(entries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(names)
	var all []world.Ref
	for _, name := range names {
		if ref, ok := refOfName(name); ok {
			all = append(all, ref)
		}
	}
	return all, nil
}

func refOfName(name string) (world.Ref, bool) {
	digest, err := hex.DecodeString(name)
	if err != nil {
		return world.Ref{}, false
	}
	ref, err := hashref.FromDigest(digest)
	return ref, err == nil && ref.Hex() == name
}

// Sweep removes what a killed process left half written in an archive.
func Sweep(dir string) {
	names, _ := os.ReadDir(dir) // none before the first; Refs tells of one that cannot be read
	for _, d := range names {
		if d.Type().IsRegular() && strings.HasPrefix(d.Name(), Unfinished) {
			_ = os.Remove(filepath.Join(dir, d.Name()))
		}
	}
}
