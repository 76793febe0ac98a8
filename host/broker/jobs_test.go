package broker_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
)

// TestJobsAreAccountedFor: a job is an intent from before it goes on until it has ended,
// and one that its daemon did not outlive is ended by the next.
func TestJobsAreAccountedFor(t *testing.T) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(t.TempDir(), "w.db"), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	jobs := &broker.Jobs{Store: s}
	job := func(id string) broker.Job {
		return broker.Job{ID: id, Invocation: "a2a:ep:t", Episode: "ep", Effect: "Workspace.Exec", Scope: "worktree", Payload: []byte(`{"profile":"test"}`)}
	}
	for _, id := range []string{"one", "two", "three"} {
		if err := jobs.Begin(ctx, job(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := jobs.Begin(ctx, job("one")); world.KindOf(err) != world.KindBadRequest {
		t.Fatalf("an id used again: %v", err)
	}
	if err := jobs.End(ctx, job("one"), []byte(`{"ok":true}`), ""); err != nil {
		t.Fatal(err)
	}
	if err := jobs.End(ctx, job("two"), nil, "it was cancelled"); err != nil {
		t.Fatal(err)
	}
	if err := jobs.End(ctx, job("two"), nil, "again"); world.KindOf(err) != world.KindBadRequest {
		t.Fatalf("an end told twice: %v", err)
	}
	call := store.Invocation{ID: "a2a:ep:t", Effects: []store.EffectTrace{{EffectID: "e1"}}}
	if told, err := jobs.Lost(ctx, call, s.Object); told != "" || err != nil {
		t.Fatalf("a call was ended as a job: %q, %v", told, err)
	}
	open, _, err := s.Unresolved(ctx, 0, 10)
	if err != nil || len(open) != 1 || open[0].ID != "job:three" {
		t.Fatalf("%+v, %v", open, err)
	}
	told, err := jobs.Lost(ctx, open[0], s.Object)
	if err != nil || !strings.HasPrefix(told, "job:three (Workspace.Exec) had not ended") {
		t.Fatalf("%q, %v", told, err)
	}
	for id, want := range map[string]string{"one": `{"ok":true}`, "two": `{"failed":"it was cancelled"}`,
		"three": `{"failed":"the daemon ended before the job did; its processes ended with it"}`} {
		inv, err := s.Invocation(ctx, world.InvocationID("job:"+id))
		if err != nil || len(inv.Effects) != 1 {
			t.Fatalf("%s: %+v, %v", id, inv, err)
		}
		rec, err := s.Object(ctx, inv.Effects[0].Record)
		if err != nil || rec.SemanticID != world.SemEffect {
			t.Fatalf("%s: %+v, %v", id, rec.ObjectMeta, err)
		}
		if ref := hashref.SumString(want).String(); !strings.Contains(string(rec.Payload), ref) {
			t.Errorf("%s: %s does not name its result %s", id, rec.Payload, want)
		}
	}
	if n, err := s.Spent(ctx, "ep", "Workspace.Exec", "worktree"); n != 0 || err != nil {
		t.Fatalf("spent %d, %v", n, err)
	}
}
