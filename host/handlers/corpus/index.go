package corpus

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// An index comes into being whole, in a folder beside it, and then is given its name: nobody
// sees one without its tables, whenever a process is killed.

// open opens the index of a corpus to be changed, and makes one that was never there. One that
// is lost, of which the list is left, is a matter for a rebuild: an empty one in its place
// would say that there are no documents.
func (w *Writer) open() error {
	path := indexPath(w.dir, w.name)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if there(w.dir, w.name) {
			return damaged("corpus.OpenWriter", w.name, err)
		}
		if err := newIndex(w.dir, w.name); err != nil {
			return err
		}
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenWAL)
	if err != nil {
		return err
	}
	w.conn = c
	if _, err = readMeta(c, w.name); err != nil {
		return err
	}
	return w.keepList()
}

// keepList writes the list of an index that has lost it.
func (w *Writer) keepList() error {
	if _, err := os.Stat(listPath(w.dir, w.name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	lines, err := listedIn(w.conn)
	if err != nil || len(lines) == 0 {
		return err
	}
	text, err := listText(lines)
	if err != nil {
		return err
	}
	return replaceFile(listPath(w.dir, w.name), text)
}

// listedIn are the lines of the documents that an index has.
func listedIn(c *sqlite.Conn) ([]listed, error) {
	var all []listed
	err := exec(c, "SELECT id, origin, path, original, options, ref FROM documents ORDER BY seq", func(st *sqlite.Stmt) error {
		l := listed{ID: st.ColumnText(0), Origin: st.ColumnText(1), Path: st.ColumnText(2), Options: st.ColumnText(4)}
		var err1, err2 error
		l.Original, err1 = hashref.Parse(st.ColumnText(3))
		l.Ref, err2 = hashref.Parse(st.ColumnText(5))
		all = append(all, l)
		return errors.Join(err1, err2)
	})
	return all, err
}

// scratch makes an empty folder beside an index; one that a killed process left goes. It is
// for who has the lock of the corpus.
func scratch(dir, name string) (string, error) {
	path := filepath.Join(dir, "."+name+".new")
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	return path, os.Mkdir(path, 0o700)
}

func newIndex(dir, name string) error {
	tmp, err := scratch(dir, name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	path := indexPath(tmp, name)
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		return err
	}
	if err := errors.Join(create(c), c.Close(), os.Chmod(path, 0o600)); err != nil {
		return err
	}
	return moveTo(path, indexPath(dir, name))
}

func create(c *sqlite.Conn) (err error) {
	defer sqlitex.Save(c)(&err)
	if err := sqlitex.ExecuteScript(c, schema, nil); err != nil {
		return err
	}
	return exec(c, "INSERT INTO meta VALUES (1, ?, ?, 0, 0, 0)", nil, format, rand.Text())
}

// moveTo gives a file that is on the disk another name, durably.
func moveTo(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// syncDir sees the names in a folder to the disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// overwrite gives an index the content of another. SQLite does it as one transaction, so that
// readers, and whoever comes after a crash, find one or the other. An index that SQLite
// cannot write goes first, since nobody can read it either; a crash in between leaves the
// list, out of which the next rebuild makes it.
func overwrite(path, with string) error {
	err := copyIndex(path, with)
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultCantOpen, sqlite.ResultError:
	default:
		return err
	}
	if err := errors.Join(discard(path+"-wal"), discard(path+"-shm"), discard(path)); err != nil {
		return err
	}
	return moveTo(with, path)
}

func copyIndex(path, with string) (err error) {
	src, err := sqlite.OpenConn(with, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenWAL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	b, err := sqlite.NewBackup(dst, "main", src, "main")
	if err != nil {
		return err
	}
	_, err = b.Step(-1)
	return errors.Join(err, b.Close())
}

// discard removes a file that may not be there.
func discard(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Drop removes a whole corpus: its index and its list. The documents' objects stay.
func Drop(ctx context.Context, dir, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if !there(dir, name) {
		return notThere("corpus.Drop", dir, name)
	}
	w, err := lockCorpus(ctx, dir, name)
	if err != nil {
		return err
	}
	defer w.Close()
	// The list goes last: as long as it is there, what a crash left can be made whole or removed.
	path := indexPath(dir, name)
	if err := errors.Join(discard(path+"-wal"), discard(path+"-shm"), discard(path), discard(listPath(dir, name))); err != nil {
		return world.Wrap(world.KindInternal, "corpus.Drop", err)
	}
	return nil
}

// there tells whether anything of a corpus is.
func there(dir, name string) bool {
	for _, path := range []string{indexPath(dir, name), listPath(dir, name)} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// notThere says which corpus is missing, what there is, and how to add one.
func notThere(op, dir, name string) error {
	msg := "there is no corpus " + name
	if all, err := Names(dir); err == nil && len(all) > 0 {
		msg += "; there are " + cut(strings.Join(all, ", "), maxField)
	}
	return &world.Error{Op: op, Kind: world.KindNotFound, Subject: name, Msg: msg,
		Hint: "`ailang-worldd corpus add " + name + " PATH…` adds documents; `corpus add library --starter` adds those that ship"}
}
