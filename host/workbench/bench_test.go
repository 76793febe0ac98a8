package workbench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/workbench"
	"ailang.dev/world/host/world"
)

// The logs whose pages are compared.
const small, large = 1_000, 200_000

// BenchmarkPages reads a page over a log of a thousand entries and one of many more, and
// tells how much longer the second takes.
func BenchmarkPages(b *testing.B) {
	var muxes [2]*http.ServeMux
	var source world.Ref
	for i, n := range []int{small, large} {
		muxes[i], source = filled(b, n)
	}
	for name, path := range map[string]func(n int) string{
		"newest": func(int) string { return "/workbench" },
		"middle": func(n int) string { return fmt.Sprintf("/workbench?from=%d", n/2) },
		"entry":  func(n int) string { return fmt.Sprintf("/workbench?entry=%d", n/2) },
		"object": func(int) string { return "/workbench?payload=1&object=" + source.String() },
		"call":   func(n int) string { return fmt.Sprintf("/workbench/calls/a2a:ep:%d", n/2) },
		"find":   func(n int) string { return fmt.Sprintf("/workbench/find?q=a2a:ep:%d", n/2) },
	} {
		b.Run(name, func(b *testing.B) {
			var took [2]time.Duration
			for b.Loop() {
				for i, n := range []int{small, large} {
					began := time.Now()
					w := httptest.NewRecorder()
					muxes[i].ServeHTTP(w, httptest.NewRequest("GET", path(n), nil))
					if took[i] += time.Since(began); w.Code >= 400 {
						b.Fatalf("%d %s", w.Code, w.Body)
					}
				}
			}
			b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "µs/small")
			b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "µs/large")
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
		})
	}
}

// TestBrokenChainIsTold: what does not hold is told on top, in the picture, and by name; and
// what is there is shown all the same.
func TestBrokenChainIsTold(t *testing.T) {
	read := func(path string, leaveOut ...string) string {
		mux, _ := filled(t, 3, leaveOut...)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	page := read("/workbench?entry=2", world.SemResult, world.SemInput)
	holds(t, page, `<p class="proof bad">✗ 2 of 12 links of this chain are broken`, "it is not in the store", `<text class="mark bad"`, `<details open><summary>12 followed, 2 broken`, ", it is broken;",
		"src/file-", "workspace-read")
	page = read("/workbench?entry=2", world.SemRecordV2)
	holds(t, page, "links of this chain are broken", "it is not in the store", "⚠ damaged")
	holds(t, read("/workbench", world.SemEffect), "Entries 0 to 3 of 4", "⚠ damaged", "does not prove itself")
}

// filled is the workbench over a new store with so many calls, all of one source.
func filled(b testing.TB, n int, leaveOut ...string) (*http.ServeMux, world.Ref) {
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	s, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "w.db"), Logf: b.Logf})
	must(err)
	b.Cleanup(func() { must(s.Close()) })
	const by = "coordinator:a2a"
	source := world.NewObject(world.SemSource, by, []byte("def main(input): return input"))
	plan := world.NewObject(world.SemPlanV1, by, []byte(`{}`))
	must(s.PutObjects(b.Context(), []world.Object{source, plan}))
	genesis := world.NewObject(world.SemGenesis, "genesis", []byte(`{"goal":"many"}`))
	h := world.EntryHeader{SemanticsEpoch: 1, TransitionFn: genesis.Hash, Interpreter: genesis.Hash, PrevEntryHash: hashref.Zero, WrittenBy: "genesis"}
	hash := world.ComputeEntryHash(h, genesis.Hash)
	_, err = s.Commit(b.Context(), store.Commit{Objects: []world.Object{genesis}, Entry: world.Entry{Header: h, EntryHash: hash, TransitionRef: genesis.Hash},
		NextWorld: world.World{Ref: world.ComputeWorldRef(0, genesis.Hash, hash), StateRoot: genesis.Hash, LogHead: hash}})
	must(err)
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(512)
	for i := range n {
		g.Go(func() error { return call(ctx, s, by, i, source.Hash, plan.Hash, leaveOut) })
	}
	must(g.Wait())
	mux := http.NewServeMux()
	workbench.New(workbench.Config{Store: s, Registry: registry.New(s, capsule.Set{}, time.Now), Approvals: &approvals.Book{Store: s, Now: time.Now}, Now: time.Now}).Mount(mux)
	return mux, source.Hash
}

// call commits a call with one effect, without its objects of some kinds.
func call(ctx context.Context, s store.Store, by string, i int, source, plan world.Ref, leaveOut []string) error {
	object := func(semantic string, v any) world.Object {
		return world.NewObject(semantic, by, hashref.MustMarshal(v))
	}
	engine := hashref.SumString("an archived binary") // which is no object of the store
	id := world.InvocationID(fmt.Sprintf("a2a:ep:%d", i))
	input := object(world.SemInput, map[string]any{"path": fmt.Sprintf("src/file-%d.go", i)})
	output := object(world.SemOutput, map[string]any{"ok": true, "n": i})
	request := object(world.SemRequest, map[string]any{"cost": 1, "effect": "Workspace.Read", "id": "e1", "invocationId": id,
		"payload": map[string]any{"op": "read", "path": fmt.Sprintf("src/file-%d.go", i)}, "scope": "worktree"})
	result := object(world.SemResult, map[string]any{"ok": true, "content": fmt.Sprintf("package p%d\n", i)})
	record := object(world.SemEffect, map[string]any{"allowed": true, "budgetAfter": 1, "budgetBefore": 2, "cost": 1, "denial": "", "effect": "Workspace.Read",
		"failed": false, "requestRef": request.Hash, "resultRef": result.Hash, "scope": "worktree"})
	rec := object(world.SemRecordV2, map[string]any{"effects": []world.Ref{record.Hash}, "episodeId": "ep", "input": input.Hash, "interpreter": engine,
		"invocationId": id, "output": output.Hash, "plan": plan, "semanticsEpoch": 1, "skillId": "workspace-read", "transitionFn": source})
	objects := slices.DeleteFunc([]world.Object{input, output, request, result, record, rec}, func(o world.Object) bool { return slices.Contains(leaveOut, o.SemanticID) })
	_, err := s.Append(ctx, store.Append{Invocation: id, Digest: input.Hash, Objects: objects,
		TransitionFn: source, Interpreter: engine, SemanticsEpoch: 1, WrittenBy: by, TransitionRef: rec.Hash, StateRoot: output.Hash})
	return err
}
