package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/cli/shell"
)

// maxSessionFile bounds, in bytes, what is read of a session file.
const maxSessionFile = 4 << 10

// hexRun is what may be a credential, or a piece of one. A text that holds it is never
// shown.
var hexRun = regexp.MustCompile(`[0-9a-fA-F]{32}`)

// session finds the credential that --session or WORLD_SESSION stands for: 64 digits, or
// the file that holds them. It is "" if neither is given.
func (a *app) session(flag string) (string, error) {
	from, v := "--session", flag
	if v == "" {
		from, v = "WORLD_SESSION", a.env.Get("WORLD_SESSION")
	}
	if v == "" {
		return "", nil
	}
	if _, ok := authority.CredentialID(v); ok {
		return v, nil
	}
	token, err := a.readSession(a.path(v))
	if err == nil {
		return token, nil
	}
	if hexRun.MatchString(v) && !strings.ContainsRune(v, '/') {
		return "", failf("%s is neither a credential, which has 64 hexadecimal digits, nor a session file", from)
	}
	return "", failf("%s: cannot read the session file %s: %v", from, v, err).
		hinted("`ailang-worldd session mint --out FILE` makes one; so does `ailang-worldd up`")
}

// readSession reads a session file. Its errors show nothing of what is in it.
func (a *app) readSession(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not be waited for
	if err != nil {
		return "", bareIO(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", bareIO(err)
	}
	if st.IsDir() {
		return "", errors.New("it is a folder")
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSessionFile))
	if err != nil {
		return "", bareIO(err)
	}
	token := strings.TrimSpace(string(raw))
	if _, ok := authority.CredentialID(token); !ok {
		return "", errors.New("it does not hold a credential of 64 hexadecimal digits")
	}
	if st.Mode().IsRegular() && st.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(a.stderr, "warning: other users may read the session file %s; chmod 600 %s\n", path, shell.Word(path))
	}
	return token, nil
}

// sessionFile is a file that a credential is about to be written to. It is prepared before
// minting, so that no session is made whose credential cannot be kept.
type sessionFile struct {
	path string
	temp *os.File // in the same folder, for this user alone
	over bool     // a file that is there may be replaced
}

// newSessionFile prepares to write path.
func newSessionFile(path string, over bool) (*sessionFile, error) {
	if st, err := os.Lstat(path); err == nil {
		switch {
		case !st.Mode().IsRegular():
			return nil, failf("%s is not a regular file", path).hinted("name another file")
		case !over:
			return nil, failf("%s is there already", path).hinted("name another file, or replace it with --force")
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, failf("cannot write %s: %v", path, bareIO(err))
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".session-*") // mode 0600
	if err != nil {
		return nil, failf("cannot write %s: %v", path, bareIO(err))
	}
	return &sessionFile{path: path, temp: temp, over: over}, nil
}

// write puts the credential in its place, whole or not at all.
func (s *sessionFile) write(credential string) error {
	_, err := s.temp.WriteString(credential + "\n")
	if err == nil {
		err = s.temp.Sync()
	}
	if err == nil && s.over {
		err = os.Rename(s.temp.Name(), s.path)
	} else if err == nil {
		err = os.Link(s.temp.Name(), s.path) // fails if somebody made it meanwhile
	}
	if err != nil {
		return failf("cannot write %s: %v", s.path, bareIO(err))
	}
	return nil
}

// discard removes what was not put in its place.
func (s *sessionFile) discard() {
	s.temp.Close()
	os.Remove(s.temp.Name())
}
