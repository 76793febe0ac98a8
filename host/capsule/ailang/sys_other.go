//go:build darwin

package ailang

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"unsafe"
)

// walls are a process group and no more: this system has no process namespaces, and sets no
// limits on another process.
type walls struct{}

func (walls) start(command func() *exec.Cmd) (*exec.Cmd, error) {
	cmd := command()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd, nil
}

func (walls) hunt(string) {}

func (walls) unconfined() error { return errors.ErrUnsupported }

func (walls) networked() error { return errors.ErrUnsupported }

// MemoryFolder is "": there is none.
func MemoryFolder() string { return "" }

// keepDescriptors marks all descriptors as closed by exec; see sys_linux.go.
func keepDescriptors() {
	entries, _ := os.ReadDir("/dev/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

func privilegesEnd() {}

// awaitEnd returns when a child has ended, and leaves it to be waited for: until then its
// number, and its group's, are nobody else's.
func awaitEnd(pid int) {
	const pPID, wExited, wNoWait = 1, 0x4, 0x20
	for {
		var info [128]byte
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if err != syscall.EINTR {
			return
		}
	}
}
