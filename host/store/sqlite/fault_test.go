package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

var errFault = errors.New("a fault on purpose")

// faults makes a database fail where a test says. Its fields are changed between batches
// alone.
type faults struct {
	*database
	begin     bool // Begin fails
	statement bool // the statement that adds an entry fails
	restore   bool // the savepoint cannot be gone back to
	commit    bool // Commit fails and nothing is durable
	persist   bool // Commit fails, but it is durable
	settle    int  // so often Settle does not know
}

type faultyTx struct {
	*tx
	f *faults
}

func (f *faults) Begin(*sqlstore.Needs) (sqlstore.Tx, error) {
	if f.begin {
		return nil, errFault
	}
	t, err := f.database.Begin(nil)
	if err != nil {
		return nil, err
	}
	return &faultyTx{tx: t.(*tx), f: f}, nil
}

func (f *faults) Settle() (bool, error) {
	if f.settle > 0 {
		f.settle--
		return false, errFault
	}
	return f.database.Settle()
}

func (t *faultyTx) AddEntry(r *sqlstore.EntryRow) error {
	if err := t.tx.AddEntry(r); err != nil {
		return err
	}
	if t.f.statement {
		return errFault
	}
	return nil
}

func (t *faultyTx) Restore() error {
	if t.f.restore {
		return errFault
	}
	return t.tx.Restore()
}

func (t *faultyTx) Commit() error {
	switch {
	case t.f.commit:
		t.db.doubt = doubt{batch: t.head.Batch}
		return errors.Join(errFault, t.tx.Rollback())
	case t.f.persist:
		t.db.doubt = doubt{batch: t.head.Batch}
		return errors.Join(errFault, t.tx.Commit())
	}
	return t.tx.Commit()
}

// openFaulty opens a store with a genesis whose database fails on demand.
func openFaulty(t *testing.T) (*sqlstore.Store, *faults) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "world.db")
	d := newDatabase(path, Limits{}, t.Logf, func() error { return nil })
	if err := errors.Join(d.create(), d.open(t.Context())); err != nil {
		t.Fatal(err)
	}
	f := &faults{database: d}
	s := sqlstore.New(f, sqlstore.Hooks{}, t.Logf)
	commit(t, s, storetest.Genesis())
	t.Cleanup(func() {
		storetest.CheckWhole(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		again := mustOpen(t, path, sqlstore.Hooks{})
		storetest.CheckWhole(t, again)
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, f
}

const noError world.Kind = -1

// TestFaults fails each step of a write, twice, each time once so that nothing is durable
// and, where it can be, once so that it is. Then the store must go on.
func TestFaults(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(*faults)
		kind  world.Kind // of the answer, or noError
		lands bool
	}{
		{"begin", func(f *faults) { f.begin = true }, world.KindInternal, false},
		{"statement", func(f *faults) { f.statement = true }, world.KindInternal, false},
		{"statement and savepoint", func(f *faults) { f.statement, f.restore = true, true }, world.KindInternal, false},
		{"commit, and nothing is durable", func(f *faults) { f.commit = true }, world.KindInternal, false},
		{"commit, but it is durable", func(f *faults) { f.persist = true }, noError, true},
		{"commit, nothing is durable, and that is not known", func(f *faults) { f.commit, f.settle = true, 1 }, world.KindUncertain, false},
		{"commit, it is durable, and that is not known", func(f *faults) { f.persist, f.settle = true, 1 }, world.KindUncertain, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, f := openFaulty(t)
			for i := range 2 {
				before := head(t, s)
				c.spoil(f)
				a := storetest.Call(fmt.Sprintf("faulty %d", i))
				_, err := s.Append(t.Context(), a)
				if (err == nil) != (c.kind == noError) || err != nil && world.KindOf(err) != c.kind {
					t.Fatalf("%v (kind %v), want kind %v", err, world.KindOf(err), c.kind)
				}
				*f = faults{database: f.database}
				inv, err := s.Invocation(t.Context(), a.Invocation)
				if err != nil || (inv.State == store.StateCommitted) != c.lands {
					t.Fatalf("%+v, %v", inv, err)
				}
				if _, err := s.Append(t.Context(), storetest.Call(fmt.Sprintf("after %d", i))); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Append(t.Context(), a); (err != nil) != c.lands || err != nil && world.KindOf(err) != world.KindTaskIDUsed {
					t.Fatalf("sent again: %v", err)
				}
				if got := head(t, s).Next - before.Next; got != 2 {
					t.Fatalf("%d entries", got)
				}
			}
		})
	}
	t.Run("until it knows, writes are uncertain, and reads go on", func(t *testing.T) {
		s, f := openFaulty(t)
		f.persist, f.settle = true, 3
		a := storetest.Call("first")
		for i := range 3 {
			if i > 0 {
				a = storetest.Call(fmt.Sprint("later ", i))
			}
			if _, err := s.Append(t.Context(), a); world.KindOf(err) != world.KindUncertain {
				t.Fatalf("append %d: %v", i, err)
			}
			f.persist = false
			if next := head(t, s).Next; next != 2 {
				t.Fatalf("next %d", next)
			}
		}
		if _, err := s.Append(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a rest commit that is lost frees its id with the next batch", func(t *testing.T) {
		s, f := openFaulty(t)
		c := storetest.NextCommit(head(t, s), "lost")
		c.Invocation, c.Digest = "rest:lost", hashref.SumString("lost")
		f.statement, f.restore = true, true // the intent lands, the commit does not
		if _, err := s.Commit(t.Context(), c); world.KindOf(err) != world.KindInternal {
			t.Fatal(err)
		}
		wantState(t, s, c.Invocation, store.StateUnknown)
		*f = faults{database: f.database, statement: true}
		if _, err := s.Commit(t.Context(), c); world.KindOf(err) != world.KindInternal {
			t.Fatal(err)
		}
		wantState(t, s, c.Invocation, store.StateUnknown)
		*f = faults{database: f.database}
		commit(t, s, c)
		wantState(t, s, c.Invocation, store.StateCommitted)
	})
}

func wantState(t *testing.T, s store.Reader, id world.InvocationID, want store.State) {
	t.Helper()
	if inv, err := s.Invocation(t.Context(), id); err != nil || inv.State != want {
		t.Fatalf("%+v, %v, want state %v", inv, err, want)
	}
}

func head(t testing.TB, s store.Reader) store.Head {
	t.Helper()
	h, err := s.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestOneFaultInABatch lets one of many operations of a batch lose the transaction, and
// expects the others to land all the same.
func TestOneFaultInABatch(t *testing.T) {
	s, f := openFaulty(t)
	const callers = 16
	f.statement, f.restore = true, true // every append is fatal to its transaction
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			_, err := s.Append(t.Context(), storetest.Call(fmt.Sprint(i)))
			if world.KindOf(err) != world.KindInternal || !errors.Is(err, errFault) {
				t.Errorf("append: %v", err)
			}
		})
		wg.Go(func() {
			if err := s.PutObjects(t.Context(), storetest.Call(fmt.Sprint("put ", i)).Objects); err != nil {
				t.Errorf("put: %v", err)
			}
		})
	}
	wg.Wait()
	*f = faults{database: f.database}
	if next := head(t, s).Next; next != 1 {
		t.Fatalf("next %d", next)
	}
}

// TestFull fills a store that may have so many pages, and expects that nothing that was
// acknowledged is lost, and that it goes on when there is room.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	pages := make(chan int, 1)
	var s *Store
	s = mustOpen(t, path, sqlstore.Hooks{BeforeTake: func() {
		select {
		case n := <-pages:
			if err := sqlitex.ExecuteTransient(s.db.writer.Conn, fmt.Sprintf("PRAGMA max_page_count = %d", n), nil); err != nil {
				t.Error(err)
			}
		default:
		}
	}})
	commit(t, s, storetest.Genesis())
	pages <- 60
	acked := 0
	var full error
	for full == nil {
		a := storetest.Call(fmt.Sprint(acked))
		a.Objects = append(a.Objects, world.NewObject("test", "", []byte(strings.Repeat(fmt.Sprint(acked), 3000))))
		if _, full = s.Append(t.Context(), a); full == nil {
			acked++
		}
	}
	if world.KindOf(full) != world.KindStoreFull || acked == 0 {
		t.Fatalf("after %d: %v", acked, full)
	}
	wantAll := func() {
		t.Helper()
		if all := storetest.CheckWhole(t, s); len(all) != acked+1 {
			t.Fatalf("%d entries, acknowledged %d", len(all), acked+1)
		}
	}
	wantAll()
	big := world.NewObject("test", "", make([]byte, 1<<20))
	if err := s.PutObjects(t.Context(), []world.Object{big}); world.KindOf(err) != world.KindStoreFull {
		t.Fatalf("put: %v", err)
	}
	pages <- 1 << 20
	if err := s.PutObjects(t.Context(), []world.Object{big}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), storetest.Call("there is room")); err != nil {
		t.Fatal(err)
	}
	acked++
	wantAll()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path, sqlstore.Hooks{})
	wantAll()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
