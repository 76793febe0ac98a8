package ailang

import "golang.org/x/sys/unix"

// leave ends the process at once. With the race detector os.Exit takes a second, and each
// sandbox ends with its first process.
func leave(code int) { unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(code), 0, 0) }
