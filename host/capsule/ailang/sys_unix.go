//go:build unix

package ailang

import (
	"errors"
	"syscall"
)

// kill ends a process and its group. The process must not have been waited for.
func kill(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// cannotRun tells whether an error of a start is the binary's, and no passing want of
// something.
func cannotRun(err error) bool {
	for _, e := range []error{syscall.ENOEXEC, syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
