package sqlite

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"

	"ailang.dev/world/host/world"
)

// roomLeft is how many free bytes a disk must have for an I/O error not to be taken as
// one of a full disk: less is not enough to extend any of the store's files.
const roomLeft = 64 << 10

// fail gives an error of the engine its kind.
func (d *database) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	var typed *world.Error
	if errors.As(err, &typed) {
		return err
	}
	e := &world.Error{Op: "sqlite." + what, Kind: world.KindInternal, Subject: d.path, Err: err}
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultFull:
		e.Kind = world.KindStoreFull
	case sqlite.ResultIOErr, sqlite.ResultCantOpen:
		if diskFull(d.path) {
			e.Kind = world.KindStoreFull
		}
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		e.Kind = world.KindIntegrity
		e.Hint = "the file is damaged; restore a copy"
	case sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultAuth:
		e.Hint = "the file and its folder must be writable by this user"
	case sqlite.ResultError:
		if s := err.Error(); strings.Contains(s, "no such table: "+indexPrefix) {
			e.Kind = world.KindIndexMissing
			e.Hint = "open the store anew to have the indexes rebuilt"
		}
	}
	if e.Kind == world.KindStoreFull {
		d.full.Store(true)
		e.Hint = "free some space; the store goes on by itself"
	}
	return e
}

func diskFull(path string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false
	}
	return st.Bavail*uint64(st.Bsize) < roomLeft
}
