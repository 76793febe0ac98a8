//go:build unix

package cli

import "golang.org/x/sys/unix"

// freeSpace is how many bytes this user may still write where a folder is.
func freeSpace(dir string) (int64, bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
