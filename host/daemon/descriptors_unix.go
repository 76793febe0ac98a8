//go:build unix

package daemon

import "syscall"

// descriptorLimit is how many descriptors this process may have; 0 if that is not known.
func descriptorLimit() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return uint64(r.Cur)
}
