package corpus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Suffix makes the name of the folder of indexes out of the store's, which is its file's
// without symbolic links.
const Suffix = ".corpora"

// format is the version of an index; another is not read, and made anew by a rebuild.
const format = 1

// schema is an index. The words are kept as stems, without their text: what is shown is in
// passages, and each row that is shown proves itself by its sum. Passages are of much the same
// length, so that SQLite keeps no lengths (columnsize): looking them up was two thirds of a
// search, and what it finds is ranked again with them.
const schema = `
CREATE TABLE meta (            -- one row
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  format     INTEGER NOT NULL, -- of this schema
  key        TEXT NOT NULL,    -- random; cursors are bound to it
  generation INTEGER NOT NULL, -- counts changes
  passages   INTEGER NOT NULL, -- how many there are
  words      INTEGER NOT NULL  -- how many they have together
);
CREATE TABLE documents (
  seq      INTEGER PRIMARY KEY,
  id       TEXT NOT NULL UNIQUE,   -- what people call it
  origin   TEXT NOT NULL UNIQUE,   -- what it was made of: a path, of JSON Lines with the line's name
  path     TEXT NOT NULL,          -- the file; several documents may come of one
  original TEXT NOT NULL,          -- reference of the bytes it was made of
  options  TEXT NOT NULL,          -- what it was given when it was added
  ref      TEXT NOT NULL,          -- of its object
  title    TEXT NOT NULL,
  author   TEXT NOT NULL,
  date     TEXT NOT NULL,          -- YYYY[-MM[-DD]], or free text
  kind     TEXT NOT NULL,
  link     TEXT NOT NULL,
  folded   TEXT NOT NULL,          -- title, line end, author, without case and diacritics
  passages INTEGER NOT NULL,
  bytes    INTEGER NOT NULL,       -- of its object
  sum      TEXT NOT NULL           -- over the columns that are shown
);
CREATE INDEX documents_path ON documents (path);
CREATE TABLE passages (
  id      INTEGER PRIMARY KEY,     -- the words' rowid
  doc     INTEGER NOT NULL,        -- documents.seq
  section TEXT NOT NULL,
  heading TEXT NOT NULL,
  start   INTEGER NOT NULL,        -- byte of the section's text where it begins
  length  INTEGER NOT NULL,        -- its words
  text    TEXT NOT NULL,
  sum     TEXT NOT NULL            -- over section, heading and text
);
CREATE INDEX passages_doc ON passages (doc);
CREATE TABLE terms (               -- in how many passages each stem is
  term TEXT PRIMARY KEY,
  n    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(title, heading, body, content='', columnsize=0,
  tokenize="unicode61 remove_diacritics 2");
`

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// CheckName tells whether a text may name a corpus.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return world.Errorf(world.KindBadRequest, "corpus.CheckName", "corpus %.80q must be 1 to 64 of a-z 0-9 -, beginning with a letter or digit", name)
	}
	return nil
}

// Dir is the folder of a store's indexes; db is the store's path.
func Dir(db string) string {
	if abs, err := filepath.Abs(db); err == nil {
		db = abs
	}
	if real, err := filepath.EvalSymlinks(db); err == nil {
		db = real
	}
	return db + Suffix
}

func indexPath(dir, name string) string { return filepath.Join(dir, name+".db") }

// Names lists the corpora of a folder, in order.
func Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, world.Wrap(world.KindInternal, "corpus.Names", err)
	}
	all := map[string]bool{} // also those whose index is lost
	for _, e := range entries {
		for _, suffix := range []string{".db", ".list"} {
			if name, ok := strings.CutSuffix(e.Name(), suffix); ok && CheckName(name) == nil {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// sum is what a row proves itself by.
func sum(cols ...string) string {
	s := hashref.NewSummer()
	for _, c := range cols {
		fmt.Fprintf(s, "%d:%s;", len(c), c)
	}
	return s.Ref().Hex()[:16]
}

// wrap gives an error of SQLite its kind, and tells what to do about a damaged index.
func wrap(ctx context.Context, op, name string, err error) error {
	var own *world.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	e := &world.Error{Op: op, Kind: world.KindInternal, Subject: name, Err: err}
	switch code := sqlite.ErrCode(err).ToPrimary(); {
	case ctx.Err() != nil || code == sqlite.ResultInterrupt:
		e.Kind, e.Msg = world.KindDeadline, "the search took too long"
	case code == sqlite.ResultCorrupt || code == sqlite.ResultNotADB || code == sqlite.ResultError:
		return damaged(op, name, err)
	case code == sqlite.ResultFull:
		e.Kind, e.Msg = world.KindStoreFull, "the disk of the corpus is full"
	case code == sqlite.ResultBusy || code == sqlite.ResultLocked:
		e.Kind, e.Msg = world.KindLocked, "corpus "+name+" is being changed by another process"
	}
	return e
}

func damaged(op, name string, err error) error {
	return &world.Error{Op: op, Kind: world.KindIntegrity, Subject: name, Err: err,
		Msg:  "the index of corpus " + name + " is damaged",
		Hint: "ailang-worldd corpus rebuild " + name}
}

// exec runs a statement with arguments, and row with each of its rows.
func exec(c *sqlite.Conn, sql string, row func(st *sqlite.Stmt) error, args ...any) error {
	return sqlitex.Execute(c, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: row})
}

// meta is the one row of its table.
type meta struct {
	key                         string
	generation, passages, words int64
}

func readMeta(c *sqlite.Conn, name string) (m meta, err error) {
	found := false
	err = exec(c, "SELECT format, key, generation, passages, words FROM meta", func(st *sqlite.Stmt) error {
		found = true
		if v := st.ColumnInt(0); v != format {
			return &world.Error{Op: "corpus.readMeta", Kind: world.KindSchema, Subject: name,
				Msg:  fmt.Sprintf("the index of corpus %s has format %d, and this program reads %d", name, v, format),
				Hint: "ailang-worldd corpus rebuild " + name}
		}
		m = meta{key: st.ColumnText(1), generation: st.ColumnInt64(2), passages: st.ColumnInt64(3), words: st.ColumnInt64(4)}
		return nil
	})
	if err == nil && !found {
		err = damaged("corpus.readMeta", name, errors.New("meta has no row"))
	}
	return m, err
}
