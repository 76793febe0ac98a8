package load

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// unseen makes the closing of a connection send nothing, as when a machine loses its power:
// the other end learns nothing. It needs the right to repair connections.
func unseen(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = raw.Control(func(fd uintptr) { serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, 1) })
	return errors.Join(err, serr)
}
