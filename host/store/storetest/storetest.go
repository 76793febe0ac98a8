// Package storetest states every promise of store.Store as a test. Each backend runs it
// from a test of ten lines:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Opener { return &opener{path: …} })
//	}
//
// It owns no store and knows no backend; what a backend alone can do, such as damaging a
// row behind the store's back, it asks for by the optional interfaces beside Opener.
// Answers spec/02-store.md.
package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// Opener opens one store, which the first call makes and later calls find again. The
// store opened before is closed by then.
type Opener interface {
	Open(t testing.TB) store.Store
}

// Hooked is an Opener whose writer can be paused.
type Hooked interface {
	OpenHooked(t testing.TB, hooks sqlstore.Hooks) store.Store
}

// Damage names a row, or a column of it, that Corrupter changes: always of the newest row
// of its kind, and never its checksum; or an index that is derived from rows, all of it.
type Damage string

// The damages.
const (
	DamageHead       Damage = "head"
	DamageObject     Damage = "object metadata"
	DamagePayload    Damage = "object payload"
	DamageObjectLost Damage = "object lost"
	DamageEntry      Damage = "entry"
	DamageEntryHash  Damage = "entry with another prevEntryHash, checksum made to fit"
	DamageEntryLost  Damage = "entry lost"
	DamageJournal    Damage = "journal"
	DamageRegistry   Damage = "registry"
	DamageSession    Damage = "session"
	DamageSpend      Damage = "spend"
	DamageRefs       Damage = "reference"
	DamageRefsLost   Damage = "references index lost"
	DamageNames      Damage = "semantic id index"
	DamageNamesLost  Damage = "semantic id index lost"
	DamageEpisodes   Damage = "episode index"
	DamageHashes     Damage = "hash index"
	DamageCalls      Damage = "invocation index"
)

// Corrupter is an Opener that can change rows of the open store behind its back.
type Corrupter interface {
	Corrupt(t testing.TB, d Damage)
}

// suite is the promises, by name.
var suite = []struct {
	name string
	run  func(*testing.T, func(*testing.T) Opener)
}{
	{"objects", one(testObjects)},
	{"semantic ids", one(testSemanticIDs)},
	{"bounds", one(testBounds)},
	{"append", one(testAppend)},
	{"log", one(testLog)},
	{"chain laws", one(testChainLaws)},
	{"rest commits", one(testREST)},
	{"effects", one(testEffects)},
	{"outcomes brought", one(testOutcomesBrought)},
	{"unresolved", one(testUnresolved)},
	{"registry", one(testRegistry)},
	{"sessions", one(testSessions)},
	{"kept", one(testKept)},
	{"kept bounds", one(testKeptBounds)},
	{"kept race", one(testKeptRace)},
	{"referrers", one(testReferrers)},
	{"episodes", one(testEpisodes)},
	{"concurrent", one(testConcurrent)},
	{"contexts", one(testContexts)},
	{"closing", one(testClosing)},
	{"integrity", testIntegrity},
	{"scan", one(testScan)},
}

// one makes a test of one store.
func one(f func(*testing.T, Opener)) func(*testing.T, func(*testing.T) Opener) {
	return func(t *testing.T, fresh func(*testing.T) Opener) { f(t, fresh(t)) }
}

// Run runs the suite. Each call of fresh gives a new, empty store.
func Run(t *testing.T, fresh func(t *testing.T) Opener) {
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh) })
	}
}

// opened is the open store of a test.
type opened struct {
	store.Store
	opener Opener
}

// open opens a store that is checked as a whole and closed at the end of the test.
func open(t *testing.T, o Opener) *opened {
	t.Helper()
	s := &opened{Store: o.Open(t), opener: o}
	t.Cleanup(func() {
		CheckWhole(t, s)
		s.close(t)
	})
	return s
}

// reopen closes the store and opens it again.
func (s *opened) reopen(t testing.TB) {
	t.Helper()
	s.close(t)
	s.Store = s.opener.Open(t)
}

func (s *opened) close(t testing.TB) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// must gives a value whose error is none.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// wantKind fails the test unless err is a *world.Error of a kind.
func wantKind(t testing.TB, err error, kind world.Kind) {
	t.Helper()
	var e *world.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("error %v (kind %d), want kind %d", err, world.KindOf(err), kind)
	}
}

// wantConflict fails the test unless err is a HeadConflictError between two heads.
func wantConflict(t testing.TB, err error, observed, selected world.Ref) {
	t.Helper()
	wantKind(t, err, world.KindHeadConflict)
	var c *world.HeadConflictError
	if !errors.As(err, &c) {
		t.Fatalf("error %v is no HeadConflictError", err)
	}
	if want := (world.HeadConflictError{Observed: observed, Selected: selected}); *c != want {
		t.Fatalf("conflict %+v, want %+v", *c, want)
	}
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b world.Ref) bool { return a == b })); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// CheckLog reads the whole log and checks that its indexes are dense, its hashes chained,
// its worlds there, and the head at its end. It returns the entries.
func CheckLog(t testing.TB, s store.Reader) []world.Entry {
	t.Helper()
	ctx := context.Background()
	var all []world.Entry
	for {
		page := must(s.Entries(ctx, int64(len(all)), store.MaxPage))(t)
		all = append(all, page...)
		if len(page) < store.MaxPage {
			break
		}
	}
	for i, e := range all {
		if e.Header.EntryIndex != int64(i) {
			t.Fatalf("entry at %d has index %d", i, e.Header.EntryIndex)
		}
		if i > 0 && e.Header.PrevEntryHash != all[i-1].EntryHash {
			t.Fatalf("entry %d does not follow from the one before it", i)
		}
	}
	head, err := s.Head(ctx)
	if len(all) == 0 {
		wantKind(t, err, world.KindNoWorld)
		return nil
	}
	ok(t, err)
	last := all[len(all)-1]
	if head.Next != int64(len(all)) || head.LogHead != last.EntryHash {
		t.Fatalf("head %+v, but the log ends with entry %d, %s", head, last.Header.EntryIndex, last.EntryHash)
	}
	w := must(s.World(ctx, head.World))(t)
	if w.LogHead != last.EntryHash || w.Revision != last.Header.EntryIndex {
		t.Fatalf("selected world %+v is not that of the last entry %+v", w, last)
	}
	return all
}

// CheckWhole is CheckLog, and scans the whole store for holes.
func CheckWhole(t testing.TB, s store.Reader) []world.Entry {
	t.Helper()
	all := CheckLog(t, s)
	done, err := s.Scan(context.Background(), len(all), func(h store.Hole) { t.Errorf("hole: %s: %s", h.What, h.Reason) })
	if err != nil || !done {
		t.Fatalf("Scan: done %v, %v", done, err)
	}
	return all
}
