package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/provenance"
	store "ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// longRun is a store that an agent's day has left.
func longRun(t *testing.T) *worldtest.World {
	w := worldtest.Start(t, worldtest.Options{})
	w.Worktree("ep1", map[string]string{"a.txt": "one\ntwo\n"})
	a := &actor{t, w, w.Mint("ep1", worldtest.Coding(50)...)}
	for i := range 5 {
		a.send(fmt.Sprint("r", i), "workspace-read", map[string]any{"path": "a.txt"})
		a.send(fmt.Sprint("w", i), "workspace-write", map[string]any{"path": fmt.Sprint("f", i), "content": strings.Repeat("x", i+1)})
	}
	a.send("ap", "workspace-apply", map[string]any{"edits": []any{
		map[string]any{"path": "a.txt", "old_text": "one", "new_text": "1"}, map[string]any{"path": "a.txt", "old_text": "none", "new_text": ""}}})
	a.send("no", "workspace-read", map[string]any{"path": "../x"})
	return w
}

func TestResolve(t *testing.T) {
	w := longRun(t)
	ctx := context.Background()
	s := w.Core.Store
	c, err := provenance.Explain(ctx, s, 11) // the apply
	if err != nil || c.Broken > 0 || len(c.Rounds) != 2 || c.Session == nil || c.Session.Episode != "ep1" || c.Tool != "workspace-apply" {
		t.Fatalf("%+v, %v", c, err)
	}
	e := c.Rounds[1].Effects[0]
	for name, ref := range map[string]string{
		"index": "11", "call": "a2a:ep1:ap", "entry": c.Entry.EntryHash.String(), "world": c.World.Ref.String(), "record": c.Entry.TransitionRef.String(),
		"plan": c.Rounds[0].Plan.String(), "effect record": e.Record.String(), "request": e.Request.String(), "result": e.Result.String(),
	} {
		if f, err := provenance.Resolve(ctx, s, ref, 0); err != nil || !slices.Equal(f.Entries, []int64{11}) {
			t.Errorf("%s %s: %+v, %v", name, ref, f, err)
		}
	}
	read, err := provenance.Explain(ctx, s, 1)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := provenance.Resolve(ctx, s, read.Source.String(), 0); err != nil || !slices.Equal(f.Entries, []int64{1, 3, 5, 7, 9, 12}) {
		t.Errorf("a source: %+v, %v", f, err)
	}
	if f, err := provenance.Resolve(ctx, s, read.Source.String(), 2); err != nil || !slices.Equal(f.Entries, []int64{1, 3}) || !f.More {
		t.Errorf("two of a source: %+v, %v", f, err)
	}
	if _, err := provenance.Resolve(ctx, s, hashref.Zero.String(), 0); world.KindOf(err) != world.KindNotFound {
		t.Errorf("the zero reference: %v", err)
	}
	if f, err := provenance.Resolve(ctx, s, "head", 0); err != nil || !slices.Equal(f.Entries, []int64{12}) {
		t.Errorf("head: %+v, %v", f, err)
	}
	for query, kind := range map[string]world.Kind{
		"13": world.KindNotFound, "-1": world.KindBadRequest, "x": world.KindBadRequest, "": world.KindBadRequest, "sha256:zz": world.KindBadRequest,
		"a2a:ep1:never": world.KindNotFound, "sha256:" + strings.Repeat("0", 63) + "1": world.KindNotFound,
	} {
		if f, err := provenance.Resolve(ctx, s, query, 0); world.KindOf(err) != kind || err == nil {
			t.Errorf("%q: %+v, %v", query, f, err)
		}
	}
}

// TestBrokenLinksAreNamed alters what is stored, one thing at a time, and expects verify to
// name the entry and the link.
func TestBrokenLinksAreNamed(t *testing.T) {
	w := longRun(t)
	ctx := context.Background()
	db, err := sqlite.OpenConn(w.DB, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(sql string) {
		t.Helper()
		if err := sqlitex.ExecuteTransient(db, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	c, err := provenance.Explain(ctx, w.Core.Store, 4)
	if err != nil {
		t.Fatal(err)
	}
	hex := func(r world.Ref) string { return "x'" + r.Hex() + "'" }
	e := c.Rounds[0].Effects[0]
	for name, x := range map[string]struct{ alter, restore, what string }{
		"a result": {"UPDATE objects SET payload = payload || ' ' WHERE hash = " + hex(e.Result),
			"UPDATE objects SET payload = substr(payload, 1, length(payload) - 1) WHERE hash = " + hex(e.Result), "result"},
		"a request that is gone": {"UPDATE objects SET hash = zeroblob(32) WHERE hash = " + hex(e.Request),
			"UPDATE objects SET hash = " + hex(e.Request) + " WHERE hash = zeroblob(32)", "request"},
		"an entry": {"UPDATE entries SET semantics_epoch = semantics_epoch + 1 WHERE entry_index = 4",
			"UPDATE entries SET semantics_epoch = semantics_epoch - 1 WHERE entry_index = 4", "entry"},
	} {
		exec(x.alter)
		s, err := store.OpenReadOnly(ctx, store.Options{Path: w.DB})
		if err != nil {
			t.Fatal(err)
		}
		report, err := provenance.Verify(ctx, s, provenance.Scope{To: -1})
		if err != nil || report.Broken == 0 || report.Holds > 4 || !slices.ContainsFunc(report.Breaks, func(b provenance.Break) bool { return b.Index == 4 && b.What == x.what }) {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		// What does not touch it still holds.
		if report, err := provenance.Verify(ctx, s, provenance.Scope{From: 6, To: 8}); err != nil || report.Broken > 0 || report.Entries != 3 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		exec(x.restore)
	}
	if report, err := provenance.Verify(ctx, w.Core.Store, provenance.Scope{To: -1, Deep: true}); err != nil || report.Broken > 0 {
		t.Errorf("after all was put back: %+v, %v", report, err)
	}
}
