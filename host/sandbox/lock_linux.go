package sandbox

import (
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Bits of PR_SET_SECUREBITS, from linux/securebits.h: being user 0 means nothing, and none
// of this can be undone.
const (
	secNoRoot         = 1<<0 | 1<<1
	secNoSetuidFixup  = 1<<2 | 1<<3
	secKeepCapsLocked = 1 << 5
	secNoAmbientRaise = 1<<6 | 1<<7
)

// maxCap is more than the number of the last capability of any kernel.
const maxCap = 63

// giveUp takes from the calling thread, and from what it starts, every capability, the way
// to any privilege, what Landlock can take, and the system calls that nothing needs.
func (b *box) giveUp() error {
	for c := uintptr(0); c <= maxCap; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break // the kernel knows no more of them
		} else if err != nil {
			return step("capabilities", fmt.Errorf("bounding set: %w", err))
		}
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, secNoRoot|secNoSetuidFixup|secKeepCapsLocked|secNoAmbientRaise, 0, 0, 0); err != nil {
		return step("capabilities", fmt.Errorf("securebits: %w", err))
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return step("capabilities", fmt.Errorf("ambient: %w", err))
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return step("no_new_privs", err)
	}
	if err := b.secondWall(); err != nil {
		return step("landlock", err)
	}
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return step("capabilities", err)
	}
	return step("seccomp", filterCalls(b.order.Walled))
}

// secondWall says again, to Landlock, what the mounts say: everything may be read, and few
// places be written. It also keeps signals, abstract sockets, and sockets that others made,
// out of reach. A kernel without it has the mounts alone.
func (b *box) secondWall() error {
	v, err := ll.LandlockGetABIVersion()
	if err != nil || v < 1 {
		return nil
	}
	write := []string{"/tmp", "/dev/shm"}
	if b.order.Tree != "" && !b.order.TreeReadOnly {
		write = append(write, b.order.Tree)
	}
	fd, _, err := landlock.V9.BestEffort().NewRulesetFD(
		landlock.RODirs("/"), landlock.RWDirs(write...).WithRefer(), landlock.RWFiles(devices()...).WithIoctlDev())
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	b.landlock = v
	return ll.LandlockRestrictSelf(fd, 0)
}
