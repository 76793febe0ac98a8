package postgres

import (
	"errors"
	"fmt"
	"testing"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// TestLoadIsWholeOrNothing moves a world from one schema to another: as it is, or, where the
// reading ends early or finds damage, not at all.
func TestLoadIsWholeOrNothing(t *testing.T) {
	database := cluster.Database(t)
	url := func(schema string) string { return cluster.URL(database) + "?schema=" + schema }
	s := openStore(t, url("from"), sqlstore.Hooks{})
	if _, err := s.Commit(ctx, storetest.Genesis()); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := s.Append(ctx, storetest.Call(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	in := storetest.Intent("a2a:ep:open", "e", 1, 100)
	if _, err := s.IntendEffect(ctx, in); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Keep(ctx, store.Kept{Kind: "k", Key: in.Request.Hash, Body: []byte("kept")}, false); err != nil {
		t.Fatal(err)
	}
	errStop := errors.New("stop")
	dump := func(stopAt int) func(func(sqlstore.HeadRow) error, *sqlstore.Visitor) error {
		return func(head func(sqlstore.HeadRow) error, v *sqlstore.Visitor) error {
			seen := *v
			seen.Journal = func(r *sqlstore.JournalRow, err error) error {
				if stopAt--; stopAt == 0 {
					return errStop
				}
				return v.Journal(r, err)
			}
			return s.Dump(ctx, head, &seen)
		}
	}
	if err := Load(ctx, Options{URL: url("too")}, s.ID(), dump(20)); !errors.Is(err, errStop) {
		t.Fatalf("%v", err)
	}
	empty := openStore(t, url("too"), sqlstore.Hooks{})
	if _, err := empty.Head(ctx); world.KindOf(err) != world.KindNoWorld || empty.ID() == s.ID() {
		t.Fatalf("after a copy that ended early: %v", err)
	}
	if done := whole(t, empty); done.Rows != 0 {
		t.Fatalf("%+v", done)
	}
	if err := Load(ctx, Options{URL: url("too")}, s.ID(), dump(0)); world.KindOf(err) != world.KindLocked {
		t.Fatalf("under a daemon: %v", err)
	}
	empty.Close()
	if err := Load(ctx, Options{URL: url("too")}, s.ID(), dump(0)); err != nil {
		t.Fatal(err)
	}
	moved := openStore(t, url("too"), sqlstore.Hooks{})
	if got, want := whole(t, moved), whole(t, s); got != want || moved.ID() != s.ID() {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if open, _, err := moved.Adopt(ctx, 10); err != nil || len(open) != 1 || open[0].ID != in.Invocation {
		t.Fatalf("%+v, %v", open, err)
	}
	if _, err := moved.Append(ctx, storetest.Call("it goes on")); err != nil {
		t.Fatal(err)
	}
	if err := Load(ctx, Options{URL: url("too")}, s.ID(), dump(0)); world.KindOf(err) != world.KindBadRequest {
		t.Fatalf("over another world: %v", err)
	}
	if err := cluster.Exec(database, `UPDATE "from".entries SET semantics_epoch = 7 WHERE entry_index = 30`); err != nil {
		t.Fatal(err)
	}
	if err := Load(ctx, Options{URL: url("three")}, s.ID(), dump(0)); world.KindOf(err) != world.KindIntegrity {
		t.Fatalf("of a damaged world: %v", err)
	}
}
