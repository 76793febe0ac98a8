package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// TestReadOnlySeesOneMoment: what is opened to be read stays as it was, while another
// writes on, merges runs and drops old ones; and it writes nothing.
func TestReadOnlySeesOneMoment(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "world.db")
	if _, err := OpenReadOnly(ctx, Options{Path: path}); world.KindOf(err) != world.KindNotFound {
		t.Fatalf("nothing there: %v", err)
	}
	w, err := Open(ctx, Options{Path: path, Logf: t.Logf, Limits: tiny})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Commit(ctx, benchGenesis()); err != nil {
		t.Fatal(err)
	}
	calls := int64(0)
	more := func(n int64) {
		t.Helper()
		for range n {
			calls++
			if _, err := w.Append(ctx, benchCall(calls)); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(r *Store, entries int64) {
		t.Helper()
		head, err := r.Head(ctx)
		if err != nil || head.Next != entries+1 {
			t.Fatalf("%+v, %v; want %d entries", head, err, entries+1)
		}
		for i := range entries {
			c := benchCall(i + 1)
			inv, err := r.Invocation(ctx, c.Invocation)
			if err != nil || inv.State != store.StateCommitted || inv.EntryIndex != i+1 {
				t.Fatalf("call %d: %+v, %v", i+1, inv, err)
			}
			if _, err := r.Object(ctx, c.TransitionRef); err != nil {
				t.Fatal(err)
			}
			if refs, err := r.Referrers(ctx, c.TransitionRef, 0, 10); err != nil || len(refs) != 1 || refs[0].Index != i+1 {
				t.Fatalf("%+v, %v", refs, err)
			}
		}
		if _, err := r.Object(ctx, benchCall(entries+1).TransitionRef); world.KindOf(err) != world.KindNotFound {
			t.Fatalf("a later object: %v", err)
		}
	}
	more(300)
	r, err := OpenReadOnly(ctx, Options{Path: path, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	more(300)
	check(r, 300)
	if done, err := r.Scan(ctx, 1000, func(h store.Hole) { t.Errorf("%+v", h) }); !done || err != nil {
		t.Fatalf("%v, %v", done, err)
	}
	if _, err := r.Append(ctx, benchCall(9999)); err == nil {
		t.Fatal("it wrote")
	}
	later, err := OpenReadOnly(ctx, Options{Path: path, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	check(later, 600)
	check(r, 300)
	for _, s := range []*Store{r, later} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Head(ctx); world.KindOf(err) != world.KindTimeout {
			t.Fatalf("read after it was closed: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Also where nobody has it open, and only reading is allowed.
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	last, err := OpenReadOnly(ctx, Options{Path: path, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	check(last, 600)
}
