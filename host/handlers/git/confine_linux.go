package git

import "golang.org/x/sys/unix"

// confine bounds the heap of a git that was just started, and lets it write no core. A git
// that has ended meanwhile is no matter.
func confine(pid int) {
	heap := unix.Rlimit{Cur: maxMemory, Max: maxMemory}
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &heap, nil)
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}
