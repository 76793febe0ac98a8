package corpus

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	next      map[string]int  // the number that was last given to an id, by its name
	reserved  map[string]bool // ids that none gets anew
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
			return &Writer{dir: dir, name: name, lock: f, stem: newStemmer(), next: map[string]int{}, reserved: map[string]bool{}}, nil
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
	if len(entries) == 0 {
		return nil
	}
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
	undo, err := appendList(w.dir, w.name, lines)
	if err != nil {
		return err
	}
	if err := w.write(entries); err != nil {
		return errors.Join(err, undo())
	}
	return nil
}

// Removed are the origins of documents that were there and were taken out.
func (w *Writer) Removed() (map[string]bool, error) {
	l, err := readList(w.dir, w.name)
	return l.gone, wrap(context.Background(), "corpus.Removed", w.name, err)
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
