package ailang

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
	// MaxBinary is how many bytes a binary may have.
	MaxBinary = 512 << 20
	// MaxArchived is how many binaries of earlier starts are looked for.
	MaxArchived = 256
)

// versionSuffix ends the name of the file that keeps what a binary said of its version. It
// is for people: nothing is decided by it.
const versionSuffix = ".version"

// unfinished begins the names of files that are being written into the archive.
const unfinished = ".new-"

func archivePath(dir string, ref world.Ref) string { return filepath.Join(dir, ref.Hex()) }

// openRegular opens a file that is regular and of a fit size. It does not wait for the
// other end of a pipe.
func openRegular(path string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock|flags, 0)
	if err != nil {
		return nil, nil, bare(err)
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

// bare is the reason of an I/O error without the path, which the caller names.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// RefOf is the identity that a binary would be pinned under. Errors are KindBadRequest.
func RefOf(path string) (world.Ref, error) {
	f, _, err := openRegular(path, 0)
	if err == nil {
		defer f.Close()
		sum := hashref.NewStream()
		if _, err = io.Copy(sum, io.LimitReader(f, MaxBinary+1)); err == nil {
			return sum.Ref(), nil
		}
	}
	return world.Ref{}, refused("ailang.RefOf", path, err)
}

// refused is an error about a file that cannot be pinned.
func refused(op, path string, err error) error {
	return &world.Error{Op: op, Kind: world.KindBadRequest, Err: err,
		Msg:  fmt.Sprintf("the AILANG binary %s cannot be pinned: %s", path, readable(err.Error())),
		Hint: "--ailang-bin takes an AILANG release for this machine"}
}

// archive copies a binary into the folder under its hash. A sound copy that is there is
// kept; a damaged one is replaced. The copy is on disk, under its name, when it returns.
// fresh tells that nothing was under its name before.
func archive(dir, path string) (ref world.Ref, fresh bool, err error) {
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
	tmp, err := os.CreateTemp(dir, unfinished+"*")
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
	name := archivePath(dir, ref)
	if err := (&binary{path: name, ref: ref}).hash(); err == nil {
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
		return world.Ref{}, false, errors.Join(err, forget(dir, ref, fresh))
	}
	return ref, fresh, nil
}

// forget takes a binary out of the archive that turned out to be none, if it is fresh. What
// was there before may be what transitions pin.
func forget(dir string, ref world.Ref, fresh bool) error {
	if !fresh {
		return nil
	}
	name := archivePath(dir, ref)
	if err := os.Remove(name + versionSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// writeVersion keeps a version text beside its binary.
func writeVersion(dir string, ref world.Ref, text string) error {
	name := archivePath(dir, ref) + versionSuffix
	if old, err := os.ReadFile(name); err == nil && string(old) == text {
		return nil
	}
	tmp, err := os.CreateTemp(dir, unfinished+"*")
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

func readVersion(dir string, ref world.Ref) string {
	f, err := os.Open(archivePath(dir, ref) + versionSuffix)
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

// Archived makes an engine for each binary that earlier starts archived, but for except. A
// binary is hashed when it is first needed, or by Prove. What is in the folder under
// another name than a hash is none.
func Archived(cfg Config, except world.Ref) ([]*Engine, error) {
	d, err := os.Open(cfg.Archive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	// Two files a binary, and the other things that a person may have put there.
	names, err := d.Readdirnames(4 * MaxArchived)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(names)
	var all []*Engine
	for _, name := range names {
		ref, ok := refOfName(name)
		if !ok || ref == except || len(all) == MaxArchived {
			continue
		}
		version := readVersion(cfg.Archive, ref)
		if version == "" {
			version = "unknown"
		}
		all = append(all, newEngine(cfg, ref, version, true))
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
