package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// TestALongMergeLetsNoRunsPileUp: while runs of a high level are merged, those of the lower
// ones are too, so that at no moment a lookup has more than a few runs of each level.
func TestALongMergeLetsNoRunsPileUp(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "world.db"), Limits: Limits{Rows: 16, Slice: 1, Fan: 4}, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commit(t, s, storetest.Genesis())
	most, levels := 0, 0
	for i := range 1500 {
		appendCalls(t, s, fmt.Sprintf("c%d-", i), 1)
		runs := s.db.index.cur.Load().runs.runs
		most, levels = max(most, len(runs)), max(levels, runs0level(runs)+1)
	}
	if levels < 5 {
		t.Fatalf("only %d levels: the test sees nothing", levels)
	}
	if bound := levels * 2 * 4; most > bound {
		t.Errorf("%d runs at once at %d levels, at most %d", most, levels, bound)
	}
}

func runs0level(runs []*run) int {
	if len(runs) == 0 {
		return 0
	}
	return runs[0].level
}

// fill commits index rows alone, so many in one transaction.
func fill(d *database, rows int) error {
	begun, err := d.Begin(nil)
	if err != nil {
		return err
	}
	x := begun.(*tx)
	h, err := x.Head()
	if err != nil {
		return err
	}
	for range rows {
		h.Seq++
		ref := hashref.SumString(fmt.Sprint(h.Seq))
		x.seen.draft.point(byObject, key(ref.Digest()[:8]), h.Seq)
	}
	h.Batch++
	if err := x.SetHead(&h); err != nil {
		return err
	}
	return x.Commit()
}

// TestAFullDiskWritesTheRunAlone: with memory full and little room on the disk, the run
// that empties memory is written, and no merge, which takes more room, with it.
func TestAFullDiskWritesTheRunAlone(t *testing.T) {
	d := newDatabase(filepath.Join(t.TempDir(), "world.db"), Limits{Rows: 4096, Bytes: 1 << 30, Slice: 1, Fan: 7}, t.Logf, func() error { return nil })
	if err := errors.Join(d.create(), d.open(t.Context())); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for len(d.index.cur.Load().runs.runs) < 6 {
		if err := fill(d, 512); err != nil {
			t.Fatal(err)
		}
	}
	d.index.rest = 1 << 30 // the indexes' work is off, as it is after faults
	for !d.index.full() {
		if err := fill(d, 512); err != nil {
			t.Fatal(err)
		}
	}
	d.index.failing = true
	d.index.limits.Fan = 6 // so that a merge is due with the run
	var pages int64
	if _, err := d.writer.one("PRAGMA page_count", nil, func(k *cols) error { pages = k.int(); return nil }); err != nil {
		t.Fatal(err)
	}
	const room = 170 // pages: enough for the run alone
	if err := d.writer.do(fmt.Sprintf("PRAGMA max_page_count = %d", pages+room), nil); err != nil {
		t.Fatal(err)
	}
	if err := fill(d, 1); err != nil {
		t.Fatalf("a write with room for the run: %v", err)
	}
	if n := len(d.index.cur.Load().mem); n > 1 {
		t.Fatalf("%d segments in memory after the run was written", n)
	}
}

// TestADamagedEntryHidesNoOther: a rebuild that meets an entry that does not prove itself
// goes on with those after it.
func TestADamagedEntryHidesNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	appendCalls(t, s, "c", 40)
	worlds := make([]world.Ref, 40)
	for i := range worlds {
		inv, err := s.Invocation(t.Context(), storetest.Call(fmt.Sprint("c", i)).Invocation)
		if err != nil {
			t.Fatal(err)
		}
		worlds[i] = inv.World
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	script(t, path, "UPDATE entries SET seq = seq + 100000 WHERE entry_index = 5; DELETE FROM index_runs; DELETE FROM index_parts; DELETE FROM index_blocks;")
	s = openTiny(t, path, nil)
	defer s.Close()
	for i, ref := range worlds {
		_, err := s.World(t.Context(), ref)
		if damaged := i == 4; damaged != (err != nil) {
			t.Errorf("the world of entry %d: %v", i+1, err)
		}
		if err != nil && world.KindOf(err) != world.KindIntegrity {
			t.Errorf("the world of the damaged entry: %v, want KindIntegrity", err)
		}
	}
}

// TestFiltersStayWithinTheirBound: runs past the bound keep their filters on disk alone, and
// every lookup still finds its row.
func TestFiltersStayWithinTheirBound(t *testing.T) {
	const bound = 2 << 10
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "world.db"), Limits: Limits{Rows: 150, Slice: 25, Fan: 3, Filters: bound}, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commit(t, s, storetest.Genesis())
	bare := 0
	for i := range 200 {
		appendCalls(t, s, fmt.Sprintf("c%d-", i), 1)
		size := int64(0)
		for _, r := range s.db.index.cur.Load().runs.runs {
			for p, part := range r.parts {
				size += part.filterBytes()
				if part.filter == nil && p < int(points) {
					bare++
				}
			}
		}
		if size > bound {
			t.Fatalf("filters take %d bytes, at most %d", size, bound)
		}
	}
	if bare == 0 {
		t.Fatal("no run was left without a filter: the test sees nothing")
	}
	for i := range 200 {
		if inv, err := s.Invocation(t.Context(), storetest.Call(fmt.Sprintf("c%d-0", i)).Invocation); err != nil || inv.State != store.StateCommitted {
			t.Fatalf("call %d: %+v, %v", i, inv, err)
		}
	}
}
