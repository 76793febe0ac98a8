package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/world"
)

const (
	nonblock = unix.O_NONBLOCK
	nofollow = unix.O_NOFOLLOW
)

// image is a copy of a binary in memory that nobody can change any more. Where such memory
// cannot be had it is the archived file itself, and between its proof and its execution lies
// a moment in which its owner could change it.
type image struct {
	path     string
	file     *os.File // open while it may be executed; nil for the archived file
	unsealed error    // why it is the archived file; nil if it is not
}

// lasting tells whether there is no use in another attempt to seal: the kernel does not know
// such memory, or a policy forbids to make or to execute it. Anything else may pass.
func lasting(why error) bool {
	return slices.ContainsFunc([]error{unix.ENOSYS, unix.EACCES, unix.EPERM, unix.EINVAL}, func(e error) bool { return errors.Is(why, e) })
}

func (i *image) close() {
	if i.file != nil {
		i.file.Close()
	}
}

// newImage copies the file into sealed memory, and proves the copy. Where it cannot be
// sealed the image is the archived file.
func newImage(path string, ref world.Ref) (*image, error) {
	f, _, err := openRegular(path, nofollow)
	if err != nil {
		return nil, fmt.Errorf("the archived binary %s %w", path, err)
	}
	defer f.Close()
	mem, err := seal(f, ref)
	switch {
	case errors.Is(err, errOther):
		return nil, fmt.Errorf("the archived binary %s %w", path, err)
	case err != nil:
		return &image{path: path, unsealed: err}, nil
	}
	return &image{path: fmt.Sprintf("/proc/self/fd/%d", mem.Fd()), file: mem}, nil
}

// seal holds off forks: a child that is between fork and exec has the memory open for
// writing, and the kernel executes nothing that somebody may write.
func seal(f *os.File, ref world.Ref) (*os.File, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // a kernel before 6.3 has no such flag, and makes it executable
		fd, err = unix.MemfdCreate("program", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, err
	}
	mem := os.NewFile(uintptr(fd), "program")
	defer mem.Close()
	if err := fits(mem, f, ref); err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(mem.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// sameFile tells whether nothing that a change leaves behind differs.
func sameFile(a, b fs.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, also := b.Sys().(*syscall.Stat_t)
	return ok && also && x.Dev == y.Dev && x.Ino == y.Ino && x.Size == y.Size && x.Mode == y.Mode && x.Mtim == y.Mtim && x.Ctim == y.Ctim
}
