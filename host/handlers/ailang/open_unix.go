//go:build unix

package ailang

import "golang.org/x/sys/unix"

// nonblock keeps an open from waiting for the other end of a pipe.
const nonblock = unix.O_NONBLOCK
