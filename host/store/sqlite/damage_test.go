package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// readAll reads a store by every index, and gives the first error.
func readAll(s *Store) error {
	ctx := context.Background()
	var holes []error
	done, err := s.Scan(ctx, sqlstore.MaxScan, func(h store.Hole) { holes = append(holes, fmt.Errorf("%s: %s", h.What, h.Reason)) })
	if err := errors.Join(append(holes, err)...); err != nil || !done {
		return world.Wrap(world.KindIntegrity, "scan", err)
	}
	head, err := s.Head(ctx)
	if world.KindOf(err) == world.KindNoWorld {
		return nil
	}
	for i := int64(0); i < head.Next && err == nil; i++ {
		var e world.Entry
		if e, err = s.Entry(ctx, i); err == nil {
			_, err = s.Referrers(ctx, e.TransitionRef, 0, 10)
		}
	}
	for _, id := range []string{world.SemInput, world.SemRecordV1} {
		if err == nil {
			_, err = s.ObjectsBySemanticID(ctx, id, hashref.None, store.MaxPage)
		}
	}
	return err
}

// TestCutAnywhere cuts a store at every page, and in the middle of them, and expects to be
// told.
func TestCutAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	appendCalls(t, s, "c", 40)
	s.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for size := info.Size(); size > 0; size -= page {
		for _, less := range []int64{1, page / 2, page} {
			copied := filepath.Join(t.TempDir(), "cut.db")
			copyStore(t, path, copied)
			cut(t, copied, size-less)
			s, err := Open(t.Context(), Options{Path: copied, Limits: tiny})
			if err == nil {
				err = readAll(s)
				s.Close()
			}
			if k := world.KindOf(err); err == nil || k != world.KindIntegrity && k != world.KindSchema && k != world.KindIndexMissing {
				t.Errorf("cut from %d to %d bytes: %v (%v)", info.Size(), size-less, err, k)
			}
		}
	}
}

// TestLogLost opens what a crash left without its write-ahead log, or with that of another
// store. It may be refused, or be an older state, but never one that is not whole.
func TestLogLost(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "world.db")
	other := filepath.Join(dir, "other.db")
	for _, p := range []string{path, other} {
		s := openTiny(t, p, nil)
		commit(t, s, storetest.Genesis())
		appendCalls(t, s, filepath.Base(p), 30)
		s.Close()
		s = openTiny(t, p, nil) // what is written now is in the log alone
		defer s.Close()
		appendCalls(t, s, "more of "+filepath.Base(p), 30)
	}
	for name, log := range map[string]string{"lost": "", "foreign": other + "-wal", "zeroes": "zeroes", "cut": path + "-wal"} {
		t.Run(name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "world.db")
			copyStore(t, path, copied)
			var text []byte
			var err error
			switch name {
			case "lost":
				err = os.Remove(copied + "-wal")
			case "zeroes":
				text = make([]byte, 100_000)
			default:
				text, err = os.ReadFile(log)
			}
			if err != nil {
				t.Fatal(err)
			}
			if name == "cut" {
				text = text[:len(text)/2]
			}
			if text != nil {
				write(t, copied+"-wal", string(text))
			}
			s, err := Open(t.Context(), Options{Path: copied, Limits: tiny, Logf: t.Logf})
			if err != nil {
				if k := world.KindOf(err); k != world.KindIntegrity && k != world.KindSchema {
					t.Fatalf("%v (%v)", err, k)
				}
				t.Logf("refused: %v", err)
				return
			}
			defer s.Close()
			n := head(t, s).Next
			t.Logf("%d entries", n)
			if err := readAll(s); err != nil && world.KindOf(err) != world.KindIntegrity {
				t.Fatal(err)
			} else if err != nil {
				t.Logf("told when read: %v", err)
			}
		})
	}
}

// TestFileBehindItsRows gives a store an older head row.
func TestFileBehindItsRows(t *testing.T) {
	build := func(t *testing.T) (string, *conn, sqlstore.HeadRow) {
		path := filepath.Join(t.TempDir(), "world.db")
		s := openTiny(t, path, nil)
		commit(t, s, storetest.Genesis())
		appendCalls(t, s, "c", 40)
		s.Close()
		c := connection(t, path)
		h, err := c.Head()
		if err != nil {
			t.Fatal(err)
		}
		return path, c, h
	}
	for name, c := range map[string]struct {
		says string
		do   func(*conn, sqlstore.HeadRow) error
	}{
		"a row past the head": {"journal row", func(c *conn, h sqlstore.HeadRow) error {
			h.Seq--
			return c.setHead(&h)
		}},
		"an entry past the head": {"entries row 40", func(c *conn, h sqlstore.HeadRow) error {
			h.Next--
			return c.setHead(&h)
		}},
		"an index past the head": {"index_runs row", func(c *conn, h sqlstore.HeadRow) error {
			h.Seq, h.Next = 20, 2
			err := c.setHead(&h)
			for _, sql := range []string{"DELETE FROM objects WHERE seq > 20", "DELETE FROM journal WHERE seq > 20", "DELETE FROM entries WHERE entry_index > 1"} {
				err = errors.Join(err, c.do(sql, nil))
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path, conn, h := build(t)
			if err := c.do(conn, h); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			_, err := Open(t.Context(), Options{Path: path, Logf: t.Logf})
			if world.KindOf(err) != world.KindIntegrity || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %s", err, c.says)
			}
		})
	}
}

// TestWritesAreSequential sees that nothing but the ends of tables is written with a call.
func TestWritesAreSequential(t *testing.T) {
	c := connection(t, made(t))
	err := c.each("SELECT tbl_name, name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL", nil, func(k *cols) error {
		switch table := k.text(); table {
		case "registry", "sessions":
		case "kept": // ends: its indexes do not grow with the log
		default:
			t.Errorf("table %s has the index %s", table, k.text())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rawTx runs f in a write transaction of a store, past all laws.
func rawTx(t *testing.T, d *database, f func(*tx) error) {
	t.Helper()
	begun, err := d.Begin(nil)
	if err != nil {
		t.Fatal(err)
	}
	x := begun.(*tx)
	h, err := x.Head()
	if err == nil {
		err = f(x)
	}
	if err == nil {
		h.Seq, h.Batch = max(h.Seq, 1000), h.Batch+1
		err = errors.Join(x.SetHead(&h), x.Commit())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rawDatabase(t *testing.T) *database {
	t.Helper()
	d := newDatabase(filepath.Join(t.TempDir(), "world.db"), tiny, t.Logf, func() error { return nil })
	if err := errors.Join(d.create(), d.open(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// like is a reference whose first bytes are those of another.
func like(r world.Ref, tail byte) world.Ref {
	b := r.Digest()
	b[hashref.Size-1] = tail
	out, err := hashref.FromDigest(b)
	if err != nil {
		panic(err)
	}
	return out
}

// TestKeysThatCollide stores hashes that begin alike.
func TestKeysThatCollide(t *testing.T) {
	d := rawDatabase(t)
	base := hashref.SumString("base")
	const n = 5
	rawTx(t, d, func(x *tx) error {
		for i := range n {
			hash := like(base, byte(n-i))
			added, err := x.PutObject(&sqlstore.ObjectRow{Seq: int64(i + 1), Meta: world.ObjectMeta{Hash: hash, SemanticID: "same"}})
			if err != nil || !added {
				t.Errorf("%s: added %v, %v", hash, added, err)
			}
			if again, err := x.PutObject(&sqlstore.ObjectRow{Seq: 99, Meta: world.ObjectMeta{Hash: hash}}); err != nil || again {
				t.Errorf("%s: added again %v, %v", hash, again, err)
			}
		}
		return nil
	})
	err := d.Read(t.Context(), func(r sqlstore.Rows) error {
		for i := range n {
			if row, ok, err := r.Object(like(base, byte(n-i)), false); err != nil || !ok || row.Seq != int64(i+1) {
				t.Errorf("object %d: %+v, %v, %v", i, row, ok, err)
			}
		}
		if _, ok, err := r.Object(like(base, 200), false); ok || err != nil {
			t.Errorf("one that is not there: %v, %v", ok, err)
		}
		for after := range n + 1 {
			rows, err := r.ObjectsBySemanticID("same", like(base, byte(after)), 100)
			if err != nil || len(rows) != n-after {
				t.Errorf("after %d: %d rows, %v", after, len(rows), err)
			}
			for i, row := range rows {
				if row.Meta.Hash != like(base, byte(after+1+i)) {
					t.Errorf("after %d: row %d is %s", after, i, row.Meta.Hash)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeysAtTheEdges looks up the first and the last key that there is, each with more rows
// than a block holds, in memory and in runs, newest first and no more than asked for.
func TestKeysAtTheEdges(t *testing.T) {
	const n = 3 * blockSize / (keySize + placeSize)
	for _, k := range []key{{}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {1}} {
		for _, neighbours := range []bool{false, true} {
			t.Run(fmt.Sprintf("%x neighbours %v", k, neighbours), func(t *testing.T) {
				d := rawDatabase(t)
				rawTx(t, d, func(x *tx) error {
					for i := range int64(n) {
						x.seen.draft.point(byCall, k, i+1)
						if other, ok := k.next(); ok && neighbours {
							x.seen.draft.point(byCall, other, i+1)
						}
						if neighbours && k[0] > 0 {
							x.seen.draft.point(byCall, key{0, byte(i)}, i+1)
						}
					}
					return nil
				})
				look := func(limit int) {
					t.Helper()
					var got []int64
					err := d.Read(t.Context(), func(r sqlstore.Rows) error {
						_, err := r.(*conn).find(byCall, k, func(at int64) (bool, error) {
							got = append(got, at)
							return len(got) == limit, nil
						})
						return err
					})
					if err != nil || len(got) != min(limit, n) {
						t.Fatalf("%d places, want %d; %v", len(got), min(limit, n), err)
					}
					for i, at := range got {
						if at != int64(n-i) {
							t.Fatalf("place %d is %d, want %d", i, at, n-i)
						}
					}
				}
				look(7)
				look(2 * n)
				d.index.beginFlush(d.index.cur.Load())
				if err := d.drive(t.Context(), true); err != nil {
					t.Fatal(err)
				}
				if s := d.index.cur.Load(); len(s.mem) != 0 || len(s.runs.runs) != 1 {
					t.Fatalf("%d segments, %d runs", len(s.mem), len(s.runs.runs))
				}
				look(7)
				look(2 * n)
			})
		}
	}
}

// TestPlacesThatLie has each index lead to a row that is another, or is not there.
func TestPlacesThatLie(t *testing.T) {
	asked := hashref.SumString("asked")
	point := func(p part) func(*draft, int64) {
		return func(d *draft, at int64) { d.point(p, keyOf(asked), at) }
	}
	for _, c := range []struct {
		name string
		kind world.Kind
		lie  func(*draft, int64)
		read func(sqlstore.Rows) error
	}{
		{"objects by hash", world.KindIntegrity, point(byObject), func(r sqlstore.Rows) error { _, _, err := r.Object(asked, false); return err }},
		{"entries by hash", world.KindIntegrity, point(byEntry), func(r sqlstore.Rows) error { _, _, err := r.EntryByHash(asked); return err }},
		{"entries by world", world.KindIntegrity, point(byWorld), func(r sqlstore.Rows) error { _, _, err := r.EntryByWorld(asked); return err }},
		{"journal by invocation", world.KindIntegrity, func(d *draft, at int64) { d.point(byCall, keyOfText("asked"), at) },
			func(r sqlstore.Rows) error { _, err := r.Journal("asked", 10); return err }},
		{"objects by semantic id", world.KindIndexMissing, func(d *draft, at int64) { d.rows[byName] = appendName(d.rows[byName], "asked", asked, at) },
			func(r sqlstore.Rows) error { _, err := r.ObjectsBySemanticID("asked", hashref.None, 10); return err }},
	} {
		for what, at := range map[string]int64{"another row": 1, "no row": 77} {
			t.Run(c.name+" leads to "+what, func(t *testing.T) {
				d := rawDatabase(t)
				rawTx(t, d, func(x *tx) error {
					_, err := x.PutObject(&sqlstore.ObjectRow{Seq: 1, Meta: world.ObjectMeta{Hash: hashref.SumString("other"), SemanticID: "other"}})
					err = errors.Join(err, x.AddEntry(&sqlstore.EntryRow{Seq: 2, Entry: world.Entry{Header: world.EntryHeader{EntryIndex: 1}, EntryHash: hashref.SumString("e")}, World: world.World{Ref: hashref.SumString("w")}}))
					err = errors.Join(err, x.AddJournal(&sqlstore.JournalRow{Seq: 1, Kind: sqlstore.KindCommitted, Invocation: "other"}))
					c.lie(x.seen.draft, at)
					return err
				})
				err := d.Read(t.Context(), c.read)
				if world.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), "store reindex") {
					t.Fatalf("%v (%v)", err, world.KindOf(err))
				}
			})
		}
	}
	t.Run("refs", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "world.db")
		s := openTiny(t, path, nil)
		defer s.Close()
		commit(t, s, storetest.Genesis())
		for i, lie := range []sqlstore.RefRow{{Seq: 1, Kind: sqlstore.RefEntry, Place: 0}, {Seq: 2, Kind: sqlstore.RefObject, Place: 1}, {Seq: 3, Kind: sqlstore.RefObject, Place: 99}} {
			lie.Target = hashref.SumString(fmt.Sprint("lie ", i))
			s.db.index.draft.refs([]sqlstore.RefRow{lie}) // goes with the next batch
			appendCalls(t, s, fmt.Sprint("c", i), 1)
			if _, err := s.Referrers(t.Context(), lie.Target, 0, 10); world.KindOf(err) != world.KindIntegrity || !strings.Contains(err.Error(), "refs row") {
				t.Fatalf("lie %d: %v", i, err)
			}
		}
	})
}

// TestIndexFaults keeps runs from being written, and expects writes to go on while memory
// has room, to be refused when it has none, and to go on when runs can be written again.
func TestIndexFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	script(t, path, "CREATE TRIGGER refuse BEFORE INSERT ON index_blocks BEGIN SELECT raise(ABORT, 'on purpose'); END;")
	n := 0
	var err error
	for ; n < 1000; n++ {
		if _, err = s.Append(t.Context(), storetest.Call(fmt.Sprint("c", n))); err != nil {
			break
		}
	}
	if want := memFactor * tiny.Rows / 18; n < want || n > 2*want || !strings.Contains(fmt.Sprint(err), "on purpose") {
		t.Fatalf("%d calls, want about %d; %v", n, want, err)
	}
	lookUp(t, s, "c", n)
	storetest.CheckWhole(t, s)
	script(t, path, "DROP TRIGGER refuse;")
	for i := range 200 {
		if _, err := s.Append(t.Context(), storetest.Call(fmt.Sprint("c", n+i))); err != nil {
			t.Fatal(err)
		}
	}
	lookUp(t, s, "c", n+200)
	wantMemory(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkBlocks(t, path)
}

// wantMemory sees that no more is in memory than two runs, and what some batches bring.
func wantMemory(t *testing.T, s *Store) {
	t.Helper()
	n := 0
	for _, m := range s.db.index.cur.Load().mem {
		n += m.count()
	}
	if n > 3*tiny.Rows {
		t.Errorf("%d index rows in memory", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	for i := range 100 {
		appendCalls(t, s, fmt.Sprint(i, "-"), 1)
		wantMemory(t, s)
	}
	if err := s.PutObjects(t.Context(), filler(0, 20*tiny.Rows)); err != nil { // one batch that is larger
		t.Fatal(err)
	}
	appendCalls(t, s, "after", 100)
	wantMemory(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTiny(t, path, nil)
	wantMemory(t, s)
	s.Close()
}
