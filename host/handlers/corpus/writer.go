package corpus

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of changing an index.
const (
	lockPatience = 10 * time.Second // for another process that changes the corpus
	lockEvery    = 100 * time.Millisecond
	maxID        = 64 // bytes of a document's id
)

// Writer changes one corpus. There is one at a time, held to by a lock file; readers go on
// beside it. It is for one goroutine.
type Writer struct {
	dir, name string
	lock      *os.File
	conn      *sqlite.Conn
	stem      *stemmer
	next      map[string]int // the number that was last given to an id, by its name
}

// OpenWriter opens a corpus to be changed, and makes one that is not there. While another
// process changes it this waits, and then is KindLocked.
func OpenWriter(ctx context.Context, dir, name string) (*Writer, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	w, err := lockCorpus(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	if err := w.open(); err != nil {
		w.Close()
		return nil, wrap(ctx, "corpus.OpenWriter", name, err)
	}
	return w, nil
}

// lockCorpus waits for the lock of a corpus.
func lockCorpus(ctx context.Context, dir, name string) (*Writer, error) {
	const op = "corpus.OpenWriter"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, world.Wrap(world.KindInternal, op, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, world.Wrap(world.KindInternal, op, err)
	}
	until := time.Now().Add(lockPatience)
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &Writer{dir: dir, name: name, lock: f, stem: newStemmer(), next: map[string]int{}}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || ctx.Err() != nil || time.Now().After(until) {
			f.Close()
			return nil, &world.Error{Op: op, Kind: world.KindLocked, Err: err,
				Msg: "corpus " + name + " is being changed by another process", Hint: "wait until it has ended, and try again"}
		}
		select {
		case <-time.After(lockEvery):
		case <-ctx.Done():
		}
	}
}

func (w *Writer) open() error {
	path := indexPath(w.dir, w.name)
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
	if err != nil {
		return err
	}
	w.conn = c
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	there := false
	if err := exec(c, "SELECT 1 FROM sqlite_schema WHERE name = 'meta'", func(*sqlite.Stmt) error { there = true; return nil }); err != nil {
		return err
	}
	if there {
		_, err = readMeta(c, w.name)
		return err
	}
	return w.create()
}

func (w *Writer) create() (err error) {
	defer sqlitex.Save(w.conn)(&err)
	if err := sqlitex.ExecuteScript(w.conn, schema, nil); err != nil {
		return err
	}
	return exec(w.conn, "INSERT INTO meta VALUES (1, ?, ?, 0, 0, 0)", nil, format, rand.Text())
}

// Close gives up the corpus.
func (w *Writer) Close() error {
	var err error
	if w.conn != nil {
		err = w.conn.Close()
		w.conn = nil
	}
	return errors.Join(err, w.lock.Close())
}

// Origin is what is known of a thing that was added.
type Origin struct {
	ID       string
	Ref      world.Ref
	Original world.Ref
	Options  string
}

// Origins are those documents that came of a file, by what each was made of.
func (w *Writer) Origins(path string) (map[string]Origin, error) {
	all := map[string]Origin{}
	err := exec(w.conn, "SELECT origin, id, ref, original, options FROM documents WHERE path = ?", func(st *sqlite.Stmt) error {
		ref, err1 := hashref.Parse(st.ColumnText(2))
		orig, err2 := hashref.Parse(st.ColumnText(3))
		all[st.ColumnText(0)] = Origin{ID: st.ColumnText(1), Ref: ref, Original: orig, Options: st.ColumnText(4)}
		return errors.Join(err1, err2)
	}, path)
	return all, wrap(context.Background(), "corpus.Origins", w.name, err)
}

// Entry is a document to be put into a corpus, or, with Gone, to be taken out.
type Entry struct {
	Name     string // of the file, which the id is made of
	Origin   string
	Path     string
	Original world.Ref
	Options  string
	Doc      *Document
	Object   world.Object // of Doc; it must be in the store already
	Gone     bool

	id string // of a rebuild
}

// Apply makes changes, all or none. A document whose origin is there takes its place and
// keeps its id.
func (w *Writer) Apply(ctx context.Context, entries []Entry) (err error) {
	defer func() { err = wrap(ctx, "corpus.Apply", w.name, err) }()
	w.conn.SetInterrupt(ctx.Done())
	defer w.conn.SetInterrupt(nil)
	lines := make([]listed, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.id, err = w.idFor(e, entries[:i]); err != nil {
			return err
		}
		l := listed{ID: e.id, Origin: e.Origin, Path: e.Path, Original: e.Original, Options: e.Options, Gone: e.Gone}
		if !e.Gone {
			l.Ref = e.Object.Hash
		}
		lines = append(lines, l)
	}
	if err := appendList(w.dir, w.name, lines); err != nil {
		return err
	}
	return w.write(entries)
}

func (w *Writer) write(entries []Entry) (err error) {
	end, err := sqlitex.ImmediateTransaction(w.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	t := &tally{terms: map[string]int64{}}
	for i := range entries {
		if err := w.drop(t, "origin = ?", entries[i].Origin); err != nil {
			return err
		}
		if !entries[i].Gone {
			if err := w.put(t, &entries[i]); err != nil {
				return err
			}
		}
	}
	return w.settle(t)
}

// tally is what a transaction changes of the counts.
type tally struct {
	passages, words int64
	terms           map[string]int64
}

func (w *Writer) settle(t *tally) error {
	for term, n := range t.terms {
		if n == 0 {
			continue
		}
		if err := exec(w.conn, "INSERT INTO terms VALUES (?, ?) ON CONFLICT (term) DO UPDATE SET n = n + excluded.n", nil, term, n); err != nil {
			return err
		}
	}
	return exec(w.conn, "UPDATE meta SET generation = generation + 1, passages = passages + ?, words = words + ?", nil, t.passages, t.words)
}

// idFor is the id of an entry: the one it has, or one made of its name that nothing else
// has.
func (w *Writer) idFor(e *Entry, before []Entry) (string, error) {
	if e.id != "" {
		return e.id, nil
	}
	id := ""
	err := exec(w.conn, "SELECT id FROM documents WHERE origin = ?", func(st *sqlite.Stmt) error { id = st.ColumnText(0); return nil }, e.Origin)
	if err != nil || id != "" || e.Gone {
		return id, err
	}
	base := DocumentID(e.Name)
	// Of one name there may be thousands: the search goes on where the last one ended.
	for n := max(w.next[base], 1); ; n++ {
		id = base
		if n > 1 {
			suffix := "-" + itoa(n)
			id = strings.TrimRight(cut(base, maxID-len(suffix)), "-") + suffix
		}
		taken := false
		for i := range before {
			taken = taken || before[i].id == id && !before[i].Gone
		}
		if err := exec(w.conn, "SELECT 1 FROM documents WHERE id = ?", func(*sqlite.Stmt) error { taken = true; return nil }, id); err != nil || !taken {
			w.next[base] = n
			return id, err
		}
	}
}

// DocumentID is what a file's name, without its ending, gives for an id.
func DocumentID(name string) string {
	var b strings.Builder
	for _, r := range foldLine(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && s[len(s)-1] != '-' {
			b.WriteByte('-')
		}
	}
	id := strings.Trim(cut(strings.Trim(b.String(), "-"), maxID), "-")
	if id == "" {
		return "document"
	}
	return id
}

// drop takes out documents with their passages and words.
func (w *Writer) drop(t *tally, where string, arg any) error {
	type passage struct {
		id                   int64
		title, heading, text string
	}
	var gone []passage
	err := exec(w.conn, "SELECT p.id, d.title, p.heading, p.text FROM passages p JOIN documents d ON d.seq = p.doc WHERE d."+where, func(st *sqlite.Stmt) error {
		gone = append(gone, passage{st.ColumnInt64(0), st.ColumnText(1), st.ColumnText(2), st.ColumnText(3)})
		return nil
	}, arg)
	if err != nil {
		return err
	}
	for _, p := range gone {
		v := w.index(p.title, p.heading, p.text)
		if err := exec(w.conn, "INSERT INTO words (words, rowid, title, heading, body) VALUES ('delete',?,?,?,?)", nil, p.id, v.cols[0], v.cols[1], v.cols[2]); err != nil {
			return err
		}
		if err := exec(w.conn, "DELETE FROM passages WHERE id = ?", nil, p.id); err != nil {
			return err
		}
		t.count(v, -1)
	}
	return exec(w.conn, "DELETE FROM documents WHERE "+where, nil, arg)
}

// indexed is a passage's columns as stems, and its distinct ones.
type indexed struct {
	cols  [3]string
	words int64
	terms map[string]bool
}

func (w *Writer) index(cols ...string) indexed {
	v := indexed{terms: map[string]bool{}}
	for i, text := range cols {
		var b strings.Builder
		w.stem.words(text, func(wd word) {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(wd.stem)
			v.terms[wd.stem] = true
			if i == 2 {
				v.words++
			}
		})
		v.cols[i] = b.String()
	}
	return v
}

func (t *tally) count(v indexed, sign int64) {
	t.passages += sign
	t.words += sign * v.words
	for term := range v.terms {
		t.terms[term] += sign
	}
}

// put adds a document.
func (w *Writer) put(t *tally, e *Entry) error {
	d := e.Doc
	var pieces int64
	err := exec(w.conn, "INSERT INTO documents (id, origin, path, original, options, ref, title, author, date, kind, link, folded, passages, bytes, sum) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,0,?,?)", nil,
		e.id, e.Origin, e.Path, e.Original.String(), e.Options, e.Object.Hash.String(), d.Title, d.Author, d.Date, d.Kind, d.Link,
		foldLine(d.Title)+"\n"+foldLine(d.Author), int64(len(e.Object.Payload)),
		sum(e.id, e.Object.Hash.String(), d.Title, d.Author, d.Date, d.Kind, d.Link))
	if err != nil {
		return err
	}
	seq := w.conn.LastInsertRowID()
	for _, s := range d.Sections {
		for _, p := range chunk(s.Text) {
			v := w.index(d.Title, s.Heading, p.text)
			err := exec(w.conn, "INSERT INTO passages (doc, section, heading, start, length, text, sum) VALUES (?,?,?,?,?,?,?)", nil,
				seq, s.Section, s.Heading, p.start, v.words, p.text, sum(s.Section, s.Heading, p.text))
			if err != nil {
				return err
			}
			id := w.conn.LastInsertRowID()
			if err := exec(w.conn, "INSERT INTO words (rowid, title, heading, body) VALUES (?,?,?,?)", nil, id, v.cols[0], v.cols[1], v.cols[2]); err != nil {
				return err
			}
			t.count(v, 1)
			pieces++
		}
	}
	return exec(w.conn, "UPDATE documents SET passages = ? WHERE seq = ?", nil, pieces, seq)
}

// Remove takes documents out by their ids; an id that is not there is KindNotFound, and
// nothing is taken out.
func (w *Writer) Remove(ctx context.Context, ids []string) error {
	var entries []Entry
	for _, id := range ids {
		found := false
		err := exec(w.conn, "SELECT origin, path FROM documents WHERE id = ?", func(st *sqlite.Stmt) error {
			found = true
			entries = append(entries, Entry{Origin: st.ColumnText(0), Path: st.ColumnText(1), Gone: true})
			return nil
		}, id)
		if err != nil {
			return wrap(ctx, "corpus.Remove", w.name, err)
		}
		if !found {
			return world.Errorf(world.KindNotFound, "corpus.Remove", "corpus %s has no document %.80q; `corpus list %s` shows those there are", w.name, id, w.name)
		}
	}
	return w.Apply(ctx, entries)
}

// Finish puts an index in order after many changes.
func (w *Writer) Finish(ctx context.Context) error {
	w.conn.SetInterrupt(ctx.Done())
	defer w.conn.SetInterrupt(nil)
	for _, sql := range []string{"DELETE FROM terms WHERE n <= 0", "INSERT INTO words (words) VALUES ('optimize')", "PRAGMA optimize"} {
		if err := exec(w.conn, sql, nil); err != nil {
			return wrap(ctx, "corpus.Finish", w.name, err)
		}
	}
	if err := w.tidyList(); err != nil {
		return world.Wrap(world.KindInternal, "corpus.Finish", err)
	}
	return wrap(ctx, "corpus.Finish", w.name, sqlitex.ExecuteTransient(w.conn, "PRAGMA wal_checkpoint(PASSIVE)", nil))
}

// tidyList writes the list anew once it holds much that is over.
func (w *Writer) tidyList() error {
	st, err := os.Stat(listPath(w.dir, w.name))
	if err != nil {
		return err
	}
	live, err := readList(w.dir, w.name)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, l := range live {
		text, err := hashref.Marshal(l)
		if err != nil {
			return err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	if st.Size() < 2*int64(b.Len())+4096 {
		return nil
	}
	return replaceFile(listPath(w.dir, w.name), b.String())
}

// replaceFile puts a file's content in its place, whole or not at all.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".list-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
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
	for _, path := range []string{indexPath(dir, name) + "-wal", indexPath(dir, name) + "-shm", indexPath(dir, name), listPath(dir, name)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return world.Wrap(world.KindInternal, "corpus.Drop", err)
		}
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
