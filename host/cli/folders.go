package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"ailang.dev/world/host/cli/shell"
)

// dataHome is the folder of `up`: --home, or ailang-world under the XDG data folder.
func (a *app) dataHome(flag string) (string, error) {
	if flag != "" {
		return a.path(flag), nil
	}
	if d := a.env.Get("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "ailang-world"), nil
	}
	if h := a.env.Get("HOME"); filepath.IsAbs(h) {
		return filepath.Join(h, ".local", "share", "ailang-world"), nil
	}
	return "", failf("there is no place for the store: neither XDG_DATA_HOME nor HOME is set").hinted("name a folder with --home")
}

// runtimeDir is a folder of this user alone for admin sockets whose store's path is too
// long to stand beside it. A daemon and the commands that look for it find the same one.
func (a *app) runtimeDir() (string, error) {
	uid := strconv.Itoa(os.Geteuid())
	for _, d := range []string{a.env.Get("XDG_RUNTIME_DIR"), "/run/user/" + uid} {
		if filepath.IsAbs(d) && ownFolder(d) == nil {
			return d, nil
		}
	}
	tmp := a.env.Get("TMPDIR")
	if !filepath.IsAbs(tmp) {
		tmp = "/tmp"
	}
	d := filepath.Join(tmp, "ailang-world-"+uid)
	if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", failf("no folder for the admin socket: %v", err).hinted("set XDG_RUNTIME_DIR")
	}
	if err := ownFolder(d); err != nil {
		return "", failf("no folder for the admin socket: %v", err).hinted("set XDG_RUNTIME_DIR")
	}
	return d, nil
}

// ownFolder tells why a folder is not this user's alone.
func ownFolder(d string) error {
	st, err := os.Lstat(d)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return fmt.Errorf("%s is no folder", d)
	case ok && int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("%s is another user's", d)
	case st.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to other users", d)
	}
	return nil
}

// privateFolder makes a folder, and those above it, for this user alone. One that is there
// and open to others is closed to them if it is empty; what others may be using is refused.
func privateFolder(d string) error {
	if err := os.MkdirAll(d, 0o700); err != nil {
		return failf("cannot make the folder %s: %v", d, bareIO(err))
	}
	st, err := os.Stat(d)
	if err != nil {
		return failf("cannot use the folder %s: %v", d, bareIO(err))
	}
	if st.Mode().Perm()&0o077 != 0 {
		if !emptyFolder(d) {
			return failf("the folder %s is open to other users, and there is something in it", d).
				hinted("name a folder of its own with --home; or, if nobody else uses this one: chmod 700 %s", shell.Word(d))
		}
		if err := os.Chmod(d, 0o700); err != nil {
			return failf("the folder %s is open to other users: %v", d, bareIO(err)).hinted("chmod 700 %s", shell.Word(d))
		}
	}
	return nil
}

// emptyFolder tells whether a folder is known to hold nothing.
func emptyFolder(d string) bool {
	f, err := os.Open(d)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// bareIO takes operation and path off an error of package os.
func bareIO(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}
