package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/world"
)

// LockSuffix makes the name of the writer lock of a store's file name.
const LockSuffix = ".writer.lock"

// maxHolder bounds what is read of a lock file to tell who holds it.
const maxHolder = 256

// lock takes the writer lock of a store, without waiting. The file is never removed:
// another process may be about to lock it.
func lock(path string) (*os.File, error) {
	name := path + LockSuffix
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &world.Error{Op: openOp, Kind: world.KindInternal, Subject: name, Err: err,
			Hint: "the folder of the store must exist and be writable by this user"}
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_ = sign(f) // on a full disk the lock holds, and only its holder's name is missing
		return f, nil
	}
	holder := readHolder(f)
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &world.Error{Op: openOp, Kind: world.KindLocked, Subject: path, Err: err,
			Msg: "the store is open in " + holder, Hint: "stop that process, or use another store"}
	}
	return nil, &world.Error{Op: openOp, Kind: world.KindInternal, Subject: name, Err: fmt.Errorf("flock: %w", err)}
}

// lockInode locks the store's file itself, so that a hard link to it is no second store. The
// descriptor must stay open as long as any connection: closing it would release the locks
// that the engine has on the file.
func lockInode(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &world.Error{Op: openOp, Kind: world.KindInternal, Subject: path, Msg: "cannot be opened", Err: err}
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &world.Error{Op: openOp, Kind: world.KindLocked, Subject: path, Err: err,
			Msg: "the store is open in another process under another name: this file is a hard link to it", Hint: "stop that process, or copy the store in place of linking it"}
	}
	return nil, &world.Error{Op: openOp, Kind: world.KindInternal, Subject: path, Err: fmt.Errorf("flock: %w", err)}
}

// sign writes who holds the lock.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%d %s\n", os.Getpid(), filepath.Base(exe)), 0)
	return err
}

func readHolder(f *os.File) string {
	b, _ := io.ReadAll(io.NewSectionReader(f, 0, maxHolder))
	pid, name, ok := strings.Cut(strings.TrimSpace(string(b)), " ")
	if !ok {
		return "another process"
	}
	return fmt.Sprintf("process %s (%s)", pid, name)
}

func unlock(f *os.File) error {
	_ = f.Truncate(0)
	return f.Close()
}
