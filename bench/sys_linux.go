package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flush makes what was written durable, as SQLite does it.
func flush(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// diskType names the file system of a folder.
func diskType(folder string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return "unknown"
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs (in memory: a flush costs nothing here)"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case 0x2fc12fc1:
		return "zfs"
	}
	return fmt.Sprintf("type %#x", int64(st.Type))
}
