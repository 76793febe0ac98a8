package worldtest

import (
	"context"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// CheckAll runs every checker over a whole store.
func CheckAll(t testing.TB, s store.Reader) {
	t.Helper()
	entries := Entries(t, s)
	CheckChain(t, s, entries)
	CheckCalls(t, s, entries)
	CheckScan(t, s)
}

// Entries reads the whole log.
func Entries(t testing.TB, s store.Reader) []world.Entry {
	t.Helper()
	var all []world.Entry
	for {
		page, err := s.Entries(context.Background(), int64(len(all)), store.MaxPage)
		if err != nil {
			t.Fatalf("log from %d: %v", len(all), err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// CheckChain is invariant I1: indexes are dense, each entry names the hash of the one
// before it, coordinator entries hash to what they say, and the head is the last one.
func CheckChain(t testing.TB, s store.Reader, entries []world.Entry) {
	t.Helper()
	for i, e := range entries {
		if e.Header.EntryIndex != int64(i) {
			t.Errorf("I1: entry at %d says index %d", i, e.Header.EntryIndex)
		}
		if i > 0 && e.Header.PrevEntryHash != entries[i-1].EntryHash {
			t.Errorf("I1: entry %d names %s as its predecessor, which is %s", i, e.Header.PrevEntryHash, entries[i-1].EntryHash)
		}
		if coordinated(e) && world.ComputeEntryHash(e.Header, e.TransitionRef) != e.EntryHash {
			t.Errorf("I1: entry %d does not hash to %s", i, e.EntryHash)
		}
	}
	head, err := s.Head(context.Background())
	if err != nil {
		if len(entries) > 0 || world.KindOf(err) != world.KindNoWorld {
			t.Errorf("I1: head: %v", err)
		}
		return
	}
	if last := entries[len(entries)-1]; head.Next != int64(len(entries)) || head.LogHead != last.EntryHash {
		t.Errorf("I1: head is %+v, last entry %d %s", head, last.Header.EntryIndex, last.EntryHash)
	}
}

func coordinated(e world.Entry) bool {
	return len(e.Header.WrittenBy) > len(world.WriterPrefix) && e.Header.WrittenBy[:len(world.WriterPrefix)] == world.WriterPrefix
}

// record is what the checkers read of an invocation record.
type record struct {
	InvocationID world.InvocationID `json:"invocationId"`
	Input        world.Ref          `json:"input"`
	Output       world.Ref          `json:"output"`
	Plan         world.Ref          `json:"plan"`
	Effects      []world.Ref        `json:"effects"`
	Rounds       []struct {
		Plan    world.Ref   `json:"plan"`
		Effects []world.Ref `json:"effects"`
	} `json:"rounds"`
}

// CheckCalls is invariants I2 and I3: everything that a coordinator entry stands on is in
// the store and hashes to its reference; no invocation is two entries, and no effect
// record belongs to two.
func CheckCalls(t testing.TB, s store.Reader, entries []world.Entry) {
	t.Helper()
	ids, records := map[world.InvocationID]int64{}, map[world.Ref]int64{}
	for _, e := range entries {
		if !coordinated(e) {
			continue
		}
		i := e.Header.EntryIndex
		var rec record
		if err := hashref.DecodeKnown(object(t, s, i, e.TransitionRef), &rec); err != nil {
			t.Errorf("I2: entry %d: record: %v", i, err)
			continue
		}
		for _, r := range rec.Rounds {
			object(t, s, i, r.Plan)
			rec.Effects = append(rec.Effects, r.Effects...)
		}
		for _, ref := range append([]world.Ref{rec.Input, rec.Output, e.Header.TransitionFn}, rec.Effects...) {
			object(t, s, i, ref)
		}
		if !rec.Plan.IsNone() {
			object(t, s, i, rec.Plan)
		}
		if first, again := ids[rec.InvocationID]; again {
			t.Errorf("I3: invocation %s is entries %d and %d", rec.InvocationID, first, i)
		}
		ids[rec.InvocationID] = i
		for _, ref := range rec.Effects {
			if first, again := records[ref]; again {
				t.Errorf("I3: effect record %s belongs to entries %d and %d", ref, first, i)
			}
			records[ref] = i
		}
	}
}

func object(t testing.TB, s store.Reader, entry int64, ref world.Ref) []byte {
	t.Helper()
	o, err := s.Object(context.Background(), ref)
	if err != nil {
		t.Errorf("I2: entry %d stands on %s: %v", entry, ref, err)
		return []byte("{}")
	}
	if hashref.Sum(o.Payload) != ref {
		t.Errorf("I2: object %s does not hash to itself", ref)
	}
	return o.Payload
}

// CheckScan is invariant I4: the store's own scan finds no hole.
func CheckScan(t testing.TB, s store.Reader) {
	t.Helper()
	done, err := s.Scan(context.Background(), 1<<30, func(h store.Hole) { t.Errorf("I4: %s: %s", h.What, h.Reason) })
	if err != nil || !done {
		t.Errorf("I4: scan: done %v, %v", done, err)
	}
}
