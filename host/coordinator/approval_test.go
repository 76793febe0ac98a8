package coordinator_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/world"
)

// TestAnEffectThatNeedsAnApproval: without one the call is a committed refusal that names
// what was asked; with one exactly that effect is done, once.
func TestAnEffectThatNeedsAnApproval(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do+"!")
	s := f.session("Test.Do=s:3")
	refused := func(task, args, want string) (id string) {
		t.Helper()
		res, err := f.call("doit", task, args, s)
		if err != nil {
			t.Fatal(err)
		}
		var out struct{ Refused, Approval string }
		if err := json.Unmarshal(res.Output, &out, json.MatchCaseInsensitiveNames(true)); err != nil || !strings.HasPrefix(out.Refused, want) {
			t.Fatalf("%s, %v; want %q", res.Output, err, want)
		}
		return out.Approval
	}
	id := refused("t1", `{"how":"ok"}`, "denied:approval: a person must approve exactly this call first; approval ")
	if again := refused("t2", `{"how":"ok"}`, "denied:approval: a person must"); again != id || id == "" {
		t.Fatalf("asked as %q and %q", id, again)
	}
	if f.spent() != 0 || len(f.doer.done) != 0 {
		t.Fatalf("spent %d, done %v", f.spent(), f.doer.done)
	}
	if _, err := f.book.Decide(t.Context(), id, approvals.Decision{Grant: true, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	refused("t3", `{"how":"refuse"}`, "denied:approval") // other arguments
	if res, err := f.call("doit", "t4", `{"how":"ok"}`, s); err != nil || !strings.Contains(string(res.Output), `"did":"it"`) {
		t.Fatalf("%s, %v", res.Output, err)
	}
	if a, err := f.book.Find(t.Context(), id); err != nil || a.State != approvals.Used || a.UsedBy != "a2a:ep:t4" {
		t.Fatalf("%+v, %v", a, err)
	}
	next := refused("t5", `{"how":"ok"}`, "denied:approval: a person must")
	if _, err := f.book.Decide(t.Context(), next, approvals.Decision{By: "ann", Note: "not today"}); err != nil {
		t.Fatal(err)
	}
	refused("t6", `{"how":"ok"}`, "denied:approval: a person said no to approval "+next+": not today")
	if f.spent() != 1 || f.doer.done[world.AgentInvocation("ep", "t4")] != 1 {
		t.Fatalf("spent %d, done %v", f.spent(), f.doer.done)
	}
	// Nobody is asked for what the budget does not cover.
	before, _ := f.book.List(t.Context())
	s = f.session("Test.Do=s:1")
	refused("t7", `{"how":"fail"}`, "denied:budget")
	if after, err := f.book.List(t.Context()); err != nil || len(after) != len(before) {
		t.Fatalf("%d approvals, then %d, %v", len(before), len(after), err)
	}
}
