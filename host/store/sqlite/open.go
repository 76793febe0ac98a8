package sqlite

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// Version is the format this package writes, and the newest it reads. It stands in the
// file's header (user_version) and in the meta row. A file of a format from oldest on has
// the same truth: opened for writing, it becomes one of Version, and its indexes are made
// anew.
const (
	Version = 4
	oldest  = 3
)

// applicationID marks the files of this store in their header: "AWLD".
const applicationID = 0x41574c44

const openOp = "sqlite.Open"

//go:embed schema.sql
var schema string

// Options says what to open.
type Options struct {
	Path string // of the database file; its folder must exist
	// Logf, unless nil, gets what an operator should know: failed batches, rebuilt indexes.
	Logf   func(format string, args ...any)
	Hooks  sqlstore.Hooks
	Limits Limits // of the derived indexes
}

// Store is an open store. It holds the writer lock until it is closed.
type Store struct {
	*sqlstore.Store
	db *database
}

// Path is the file's path, absolute and without symbolic links.
func (s *Store) Path() string { return s.db.path }

// Open opens the store at a path, or makes a new one where nothing is. The writer lock is
// taken first, and without waiting: if another process holds it the error is KindLocked,
// saying which. A file that is no store, or one of a newer format, is KindSchema; a
// damaged one KindIntegrity; one that may not be written KindInternal. None of these
// changes the file.
func Open(ctx context.Context, o Options) (*Store, error) {
	d, exists, err := locked(ctx, &o)
	if err == nil && !exists {
		err = d.create()
	}
	if err == nil {
		err = d.holdInode()
	}
	if err == nil {
		err = d.open(ctx)
	}
	if err != nil {
		return nil, d.giveUp(err)
	}
	return &Store{Store: sqlstore.New(d, o.Hooks, o.Logf), db: d}, nil
}

// locked takes the writer lock of the store that o names.
func locked(ctx context.Context, o *Options) (d *database, exists bool, err error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	path, exists, err := resolve(o.Path)
	if err != nil {
		return nil, false, err
	}
	if err := ctx.Err(); err != nil {
		return nil, false, world.Wrap(world.KindTimeout, openOp, context.Cause(ctx))
	}
	f, err := lock(path)
	if err != nil {
		return nil, false, err
	}
	if _, err := os.Stat(path); exists != (err == nil) {
		exists = err == nil // it came or went before the lock was ours
	}
	return newDatabase(path, o.Limits, o.Logf, func() error { return unlock(f) }), exists, nil
}

// holdInode takes the file's own lock beside the writer lock, until the store is closed.
func (d *database) holdInode() error {
	f, err := lockInode(d.path)
	if err != nil {
		return err
	}
	before := d.unlock
	d.unlock = func() error { return errors.Join(f.Close(), before()) }
	return nil
}

// giveUp closes what was opened in vain, and returns why.
func (d *database) giveUp(err error) error {
	if d != nil {
		if cerr := d.Close(); cerr != nil {
			d.index.logf("store %s: close: %v", d.path, cerr)
		}
	}
	return err
}

// resolve follows symbolic links, so that one file has one lock under all its names.
func resolve(path string) (real string, exists bool, err error) {
	bad := func(kind world.Kind, msg, hint string, err error) (string, bool, error) {
		return "", false, &world.Error{Op: openOp, Kind: kind, Subject: path, Msg: msg, Hint: hint, Err: err}
	}
	abs, err := filepath.Abs(path)
	if path == "" || err != nil {
		return bad(world.KindInternal, "a store needs a path", "", err)
	}
	info, err := os.Stat(abs)
	switch {
	case err == nil && info.IsDir():
		return bad(world.KindSchema, "is a folder, not a store", "name a file in it", nil)
	case err == nil && !info.Mode().IsRegular():
		return bad(world.KindSchema, "is not a regular file", "", nil)
	case err == nil:
		if real, err = filepath.EvalSymlinks(abs); err != nil {
			return bad(world.KindInternal, "", "", err)
		}
		return real, true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return bad(world.KindInternal, "cannot be reached", "", err)
	}
	if _, err := os.Lstat(abs); err == nil {
		return bad(world.KindInternal, "is a symbolic link to nothing", "remove it, or restore what it named", nil)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return bad(world.KindInternal, "its folder cannot be reached", "make the folder first", err)
	}
	return filepath.Join(dir, filepath.Base(abs)), false, nil
}

// open is Open under the lock, of a file that is there.
func (d *database) open(ctx context.Context) error {
	if err := d.connectChecked(); err != nil {
		return err
	}
	if err := d.checkTables(); err != nil {
		return err
	}
	return d.openIndexes(ctx)
}

// connectChecked opens the writer's connection to what is known to be a store.
func (d *database) connectChecked() (err error) {
	if err := checkHeader(d.path, true); err != nil {
		return err
	}
	if d.writer, err = d.connectWriter(); err != nil {
		return err
	}
	if err := d.checkMeta(true); err != nil {
		return err
	}
	return d.upgrade()
}

// upgrade makes a file of an older format one of Version, in one transaction. Its indexes
// are empty then, and are made anew when they are opened.
func (d *database) upgrade() error {
	if d.version == Version {
		return nil
	}
	d.index.logf("store %s: its format %d becomes %d; all that is derived is built anew", d.path, d.version, Version)
	return d.emptyIndexes(fmt.Sprintf("UPDATE meta SET version = %d, sum = %d;\nPRAGMA user_version = %d;\n",
		Version, sqlstore.SumMeta(d.id, Version), Version))
}

// Offsets in the header of an SQLite file (sqlite.org/fileformat2.html, section 1.3).
const (
	headerSize    = 100
	headerVersion = 60
	headerAppID   = 68
)

// checkHeader judges a file by its first bytes alone, before the engine, which may change
// it, opens it.
func checkHeader(path string, write bool) error {
	bad := func(kind world.Kind, msg, hint string, err error) error {
		return &world.Error{Op: openOp, Kind: kind, Subject: path, Msg: msg, Hint: hint, Err: err}
	}
	how, what := os.O_RDONLY, "cannot be opened"
	if write {
		how, what = os.O_RDWR, "cannot be opened for writing"
	}
	f, err := os.OpenFile(path, how, 0)
	if err != nil {
		return bad(world.KindInternal, what, "the file must be readable and writable by this user", err)
	}
	defer f.Close()
	var h [headerSize]byte
	n, err := io.ReadFull(f, h[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return bad(world.KindIntegrity, "is an empty file", "remove it to start a new store, or restore a copy", nil)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return bad(world.KindInternal, "cannot be read", "", err)
	case !bytes.HasPrefix(h[:n], []byte("SQLite format 3\x00")):
		return bad(world.KindSchema, "is not a store", "name another file", nil)
	case n < headerSize:
		return bad(world.KindIntegrity, "is cut short", "restore a copy", nil)
	case binary.BigEndian.Uint32(h[headerAppID:]) != applicationID:
		return bad(world.KindSchema, "is an SQLite database, but not a store", "name another file", nil)
	}
	return checkVersion(path, int64(binary.BigEndian.Uint32(h[headerVersion:])), write)
}

func checkVersion(path string, v int64, write bool) error {
	switch {
	case v >= oldest && v < Version:
		if write {
			return nil
		}
		return &world.Error{Op: openOp, Kind: world.KindSchema, Subject: path,
			Msg:  fmt.Sprintf("was written by an older version: its format is %d, this program reads %d", v, Version),
			Hint: "start its daemon with this program once, which makes it one of the new format"}
	case v > Version:
		return &world.Error{Op: openOp, Kind: world.KindSchema, Subject: path,
			Msg:  fmt.Sprintf("was written by a newer version: its format is %d, this program knows %d", v, Version),
			Hint: "run the newer program"}
	case v < oldest:
		return &world.Error{Op: openOp, Kind: world.KindSchema, Subject: path,
			Msg:  fmt.Sprintf("was written by a version before the first release: its format is %d, this program knows %d", v, Version),
			Hint: "start a new store"}
	}
	return nil
}

// create makes a new store beside the path and puts it there whole.
func (d *database) create() error {
	fail := func(err error) error {
		return &world.Error{Op: openOp, Kind: world.KindOf(err), Subject: d.path, Msg: "the store cannot be made", Err: err}
	}
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(d.path + suffix); err == nil {
			return &world.Error{Op: openOp, Kind: world.KindIntegrity, Subject: d.path, Msg: "is not there, but its log " + d.path + suffix + " is",
				Hint: "restore the database file, or remove its log to start a new store"}
		}
	}
	tmp, err := d.beside()
	if err != nil {
		return fail(err)
	}
	if err := tmp.fill(rand.Text()); err != nil {
		os.Remove(tmp.path)
		return fail(err)
	}
	if err := os.Rename(tmp.path, d.path); err != nil {
		return fail(err)
	}
	return syncFile(filepath.Dir(d.path))
}

// beside is where a new store is made before it is put in its place.
func (d *database) beside() (*database, error) {
	tmp := newDatabase(d.path+".creating", Limits{}, d.index.logf, nil)
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} { // left by a crash
		if err := os.Remove(tmp.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return tmp, nil
}

// fill writes the tables and first rows into a new file, and leaves it closed and durable.
func (d *database) fill(id string) error {
	f, err := os.OpenFile(d.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	c, err := d.connect(fmt.Sprintf("application_id = %d", applicationID), fmt.Sprintf("user_version = %d", Version), "journal_mode = WAL")
	if err != nil {
		return err
	}
	err = sqlitex.ExecScript(c.Conn, schema)
	if err == nil {
		err = c.do("INSERT INTO meta (id, store_id, version, sum) VALUES (1, ?, ?, ?)", func(p *params) {
			p.text(id).int(Version, sqlstore.SumMeta(id, Version))
		})
	}
	if err == nil {
		err = c.do("INSERT INTO head (id, batch, seq, next_index, sum) VALUES (1, 0, 0, 0, ?)", func(p *params) {
			p.int(sqlstore.HeadRow{}.Sum())
		})
	}
	if err = errors.Join(err, c.Close()); err != nil {
		return d.fail("create", err)
	}
	return syncFile(d.path)
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// checkMeta reads which store this is.
func (d *database) checkMeta(write bool) error {
	ok, err := d.writer.one("SELECT store_id, version, sum FROM meta WHERE id = 1", nil, func(k *cols) error {
		d.id, d.version = k.text(), k.int()
		return k.prove("meta", 1, k.int(), sqlstore.SumMeta(d.id, d.version))
	})
	if err == nil && !ok {
		err = sqlstore.Damaged("meta", 1, errNoRow)
	}
	switch {
	case world.KindOf(err) == world.KindIntegrity:
		return &world.Error{Op: openOp, Kind: world.KindIntegrity, Subject: d.path, Err: err}
	case err != nil && sqlite.ErrCode(err) == sqlite.ResultError: // no such table, or column
		return &world.Error{Op: openOp, Kind: world.KindSchema, Subject: d.path, Msg: "is not a store", Hint: "name another file", Err: err}
	case err != nil:
		return err
	}
	return checkVersion(d.path, d.version, write)
}
