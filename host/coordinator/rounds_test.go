package coordinator_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// scripted is a transition whose plans and result are texts in its arguments, a phase
// after another; "tell" is a result that tells what the finish phase was given.
const scripted = `
def main(text):
    call = json.decode(text)
    out = call["args"]["phases"][call.get("round", 0)]
    if out == "tell":
        return json.encode({"round": call["round"], "results": call["results"]})
    return out
`

// v2 is a plan of effects named by id and how they end, as "a:ok b:fail".
func v2(finish bool, effects string) string {
	all := []any{}
	for _, e := range strings.Fields(effects) {
		id, how, _ := strings.Cut(e, ":")
		cost := 1
		if how == "dear" {
			cost = 5
		}
		all = append(all, map[string]any{"id": id, "effect": "Test.Do", "scope": "s", "cost": cost, "payload": map[string]any{"how": how}})
	}
	return string(hashref.MustMarshal(map[string]any{"plan": world.SemPlanV2, "effects": all, "finish": finish, "result": nil}))
}

// told is an output as these tests read it.
type told struct {
	OK      bool
	Refused string
	Did     string
	Round   int
	Results []struct {
		ID, Status, Denial string
		Output             *struct{ Did string }
		Record             *world.Ref
		Omitted            bool
	}
	World struct {
		Plan    world.Ref
		Effects []toldEffect
		Rounds  []struct {
			Plan    world.Ref
			Effects []toldEffect
		}
	}
}

type toldEffect struct {
	ID, Status string
	Record     *world.Ref
}

func statuses(effects []toldEffect) string {
	var b strings.Builder
	for _, e := range effects {
		fmt.Fprintf(&b, " %s:%s", e.ID, e.Status)
	}
	return strings.TrimPrefix(b.String(), " ")
}

func scriptedFixture(t *testing.T) (*fixture, func(phases ...string) (told, error)) {
	f := newFixture(t)
	f.genesis()
	f.publish("s", scripted, do, do, "Test.Do=s:5")
	n := 0
	return f, func(phases ...string) (told, error) {
		f.t.Helper()
		n++
		args := hashref.MustMarshal(map[string]any{"phases": phases})
		res, err := f.call("s", fmt.Sprint("t", n), string(args), f.session("Test.Do=s:100"))
		var out told
		if err == nil {
			if uerr := json.Unmarshal(res.Output, &out, json.MatchCaseInsensitiveNames(true)); uerr != nil {
				f.t.Fatal(uerr)
			}
			f.provesRecord(res, out)
		}
		return out, err
	}
}

// provesRecord holds the record of an entry to what the output says of it.
func (f *fixture) provesRecord(res coordinator.Result, out told) {
	f.t.Helper()
	ctx := context.Background()
	e, err := f.store.Entry(ctx, res.Entry)
	if err != nil {
		f.t.Fatal(err)
	}
	o, err := f.store.Object(ctx, e.TransitionRef)
	if err != nil {
		f.t.Fatal(err)
	}
	var rec struct {
		Rounds []struct {
			Plan    world.Ref
			Effects []world.Ref
		}
		Plan *world.Ref
	}
	if err := json.Unmarshal(o.Payload, &rec, json.MatchCaseInsensitiveNames(true)); err != nil {
		f.t.Fatal(err)
	}
	if o.SemanticID != world.SemRecordV3 || rec.Plan != nil || len(rec.Rounds) == 0 || rec.Rounds[0].Plan != out.World.Plan {
		f.t.Fatalf("%s %s", o.SemanticID, o.Payload)
	}
	var named, recorded []world.Ref
	for _, r := range rec.Rounds {
		recorded = append(recorded, r.Effects...)
		if p, err := f.store.Object(ctx, r.Plan); err != nil || p.SemanticID != world.SemPlanV2 {
			f.t.Fatalf("%+v, %v", p.ObjectMeta, err)
		}
	}
	for _, w := range out.World.Effects {
		if (w.Record == nil) != (w.Status == "skipped") {
			f.t.Fatalf("%+v", w)
		}
		if w.Record != nil {
			named = append(named, *w.Record)
			if p, err := f.store.Object(ctx, *w.Record); err != nil || p.SemanticID != world.SemEffect {
				f.t.Fatalf("%+v, %v", p.ObjectMeta, err)
			}
		}
	}
	if fmt.Sprint(named) != fmt.Sprint(recorded) {
		f.t.Fatalf("the output names %v, the record %v", named, recorded)
	}
	inv, err := f.store.Invocation(ctx, res.Invocation)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, tr := range inv.Effects {
		if tr.Record.IsNone() {
			f.t.Fatalf("%s has no outcome", tr.EffectID)
		}
	}
}

func TestEffectsInOrder(t *testing.T) {
	f, call := scriptedFixture(t)
	var order []string
	f.doer.act = func(_ context.Context, r broker.Request) { order = append(order, r.EffectID) }
	out, err := call(v2(false, "c:ok a:ok b:ok h:ok g:ok f:ok e:ok d:ok"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "cabhgfed" || statuses(out.World.Effects) != "c:ok a:ok b:ok h:ok g:ok f:ok e:ok d:ok" ||
		out.World.Rounds != nil || out.Did != "it" || f.spent() != 8 {
		t.Fatalf("%s %+v, spent %d", got, out, f.spent())
	}
}

func TestWhatIsSkipped(t *testing.T) {
	for _, c := range []struct{ effects, want, refused string }{
		{"a:ok b:fail c:ok", "a:ok b:failed c:skipped", "effect failed: internal failure"},
		{"a:panic b:ok", "a:failed b:skipped", "effect failed: internal failure"},
		{"a:refuse b:ok", "a:ok b:ok", ""}, // a handler's no is an answer
		{"a:ok b:tell c:ok d:ok", "a:ok b:failed c:skipped d:skipped", "effect failed: the disk is full"},
	} {
		f, call := scriptedFixture(t)
		out, err := call(v2(false, c.effects))
		if err != nil || statuses(out.World.Effects) != c.want || out.Refused != c.refused {
			t.Fatalf("%s: %+v, %v", c.effects, out, err)
		}
		if done := int64(strings.Count(c.want, ":ok") + strings.Count(c.want, ":failed")); f.spent() != done {
			t.Fatalf("%s: spent %d, want %d", c.effects, f.spent(), done)
		}
		if out, err = call(v2(true, c.effects), "tell"); err != nil || out.Round != 1 || len(out.Results) != len(out.World.Effects) {
			t.Fatalf("%s: %+v, %v", c.effects, out, err)
		}
		for _, r := range out.Results {
			if (r.Output != nil) != (r.Status == "ok") || (r.Record == nil) != (r.Status == "skipped") || (r.Denial != "") != (r.Status == "failed") {
				t.Fatalf("%s: %+v", c.effects, r)
			}
		}
	}
	// A denial skips too, and what was done before it is recorded with the entry.
	f := newFixture(t)
	f.genesis()
	f.publish("s", scripted, do, do, "Test.Do=s:5")
	args := hashref.MustMarshal(map[string]any{"phases": []string{v2(false, "a:ok b:dear c:ok")}})
	res, err := f.call("s", "t", string(args), f.session("Test.Do=s:4"))
	if err != nil || !strings.Contains(string(res.Output), `"refused":"denied:budget"`) || f.spent() != 1 {
		t.Fatalf("%s, %v, spent %d", res.Output, err, f.spent())
	}
	var out told
	if err := json.Unmarshal(res.Output, &out, json.MatchCaseInsensitiveNames(true)); err != nil || statuses(out.World.Effects) != "a:ok b:denied c:skipped" {
		t.Fatalf("%+v, %v", out, err)
	}
	f.provesRecord(res, out)
}

func TestRounds(t *testing.T) {
	_, call := scriptedFixture(t)
	out, err := call(v2(true, "a:ok b:ok"), v2(true, "c:ok"), "tell")
	if err != nil || out.Round != 2 || len(out.Results) != 3 || out.Results[2].ID != "c" || len(out.World.Rounds) != 2 ||
		statuses(out.World.Effects) != "a:ok b:ok c:ok" || statuses(out.World.Rounds[0].Effects) != "a:ok b:ok" ||
		statuses(out.World.Rounds[1].Effects) != "c:ok" || out.World.Rounds[0].Plan != out.World.Plan {
		t.Fatalf("%+v, %v", out, err)
	}
	// Eight rounds, the last of which says how it ends.
	phases := []string{}
	for i := range coordinator.MaxRounds - 1 {
		phases = append(phases, v2(true, fmt.Sprintf("e%d:ok", i)))
	}
	last := `{"plan":"` + world.SemPlanV2 + `","effects":[],"finish":false,"result":{"ok":true,"did":"all"}}`
	if out, err = call(append(phases, last)...); err != nil || !out.OK || out.Did != "all" || len(out.World.Rounds) != coordinator.MaxRounds {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err = call(append(phases, v2(false, "last:ok"))...); err != nil || out.Did != "it" || len(out.World.Rounds) != coordinator.MaxRounds {
		t.Fatalf("%+v, %v", out, err)
	}
}

// TestBrokenRounds: past an effect a broken law names what was done.
func TestBrokenRounds(t *testing.T) {
	nine := []string{}
	for i := range coordinator.MaxRounds + 1 {
		nine = append(nine, v2(true, fmt.Sprintf("e%d:ok", i)))
	}
	for name, c := range map[string]struct {
		phases []string
		done   int
	}{
		"an id used again":       {[]string{v2(true, "a:ok"), v2(true, "a:ok")}, 1},
		"not declared":           {[]string{v2(true, "a:ok"), strings.Replace(v2(true, "b:ok"), `"cost":1`, `"cost":2`, 1)}, 1},
		"nine rounds":            {nine, coordinator.MaxRounds},
		"a result that is none":  {[]string{v2(true, "a:ok"), `{"world":1}`}, 1},
		"too many in a round":    {[]string{v2(true, "a:ok"), v2(true, "b:ok c:ok d:ok e:ok f:ok g:ok h:ok i:ok j:ok")}, 1},
		"a plan that is no plan": {[]string{v2(true, "a:ok b:ok"), `{"plan":"` + world.SemPlanV2 + `"}`}, 2},
	} {
		f, call := scriptedFixture(t)
		_, err := call(c.phases...)
		u := wantUnrecorded(t, err)
		if len(u.Refs) != c.done || f.spent() != int64(c.done) {
			t.Fatalf("%s: %v, spent %d", name, u.Refs, f.spent())
		}
		for _, r := range u.Refs {
			if o, err := f.store.Object(context.Background(), r); err != nil || o.SemanticID != world.SemEffect {
				t.Fatalf("%s: %s is %q, %v", name, r, o.SemanticID, err)
			}
		}
	}
}

// TestFaultBetweenEffects: an intent that fails or is not certain names what was done
// before it, by record, and itself by request.
func TestFaultBetweenEffects(t *testing.T) {
	for _, uncertain := range []bool{false, true} {
		f, call := scriptedFixture(t)
		n := 0
		f.events.intend = func(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
			if n++; n < 3 {
				return f.store.IntendEffect(ctx, i)
			}
			if uncertain {
				return store.Debit{}, errUncertain
			}
			return store.Debit{}, &world.Error{Op: "test", Kind: world.KindStoreFull}
		}
		_, err := call(v2(false, "a:ok b:ok c:ok"))
		u := wantUnrecorded(t, err)
		want := 2
		if uncertain {
			want = 3
		}
		if len(u.Refs) != want || f.doer.done["a2a:ep:t1"] != 2 {
			t.Fatalf("%v, %v", u.Refs, f.doer.done)
		}
		for _, r := range u.Refs[:2] {
			if o, err := f.store.Object(context.Background(), r); err != nil || o.SemanticID != world.SemEffect {
				t.Fatalf("%s is %q, %v", r, o.SemanticID, err)
			}
		}
	}
}

func TestResultsAreBounded(t *testing.T) {
	f, _ := scriptedFixture(t)
	big := `{"did":"` + strings.Repeat("x", coordinator.MaxResults/2) + `"}`
	f.publish("big", strings.Replace(scripted, "json.encode({\"round\": call[\"round\"], \"results\": call[\"results\"]})",
		`json.encode({"results": [dict(id = r["id"], status = r["status"], omitted = r.get("omitted", False)) for r in call["results"]]})`, 1), do, do)
	plan := hashref.MustMarshal(map[string]any{"plan": world.SemPlanV2, "finish": true, "result": nil, "effects": []any{
		map[string]any{"id": "a", "effect": "Test.Do", "scope": "s", "cost": 1, "payload": map[string]any{}},
		map[string]any{"id": "b", "effect": "Test.Do", "scope": "s", "cost": 1, "payload": map[string]any{}},
		map[string]any{"id": "c", "effect": "Test.Do", "scope": "s", "cost": 1, "payload": map[string]any{}}}})
	f.doer.answer = []byte(big)
	res, err := f.call("big", "t", string(hashref.MustMarshal(map[string]any{"phases": []string{string(plan), "tell"}})), f.session("Test.Do=s:100"))
	if err != nil || !strings.HasPrefix(string(res.Output), `{"results":[{"id":"a","omitted":false,"status":"ok"},{"id":"b","omitted":true,"status":"ok"},{"id":"c","omitted":true,`) {
		t.Fatalf("%.300s, %v", res.Output, err)
	}
}

// TestNothingBesideALeftHandler: while a handler may still be at work, its call does nothing
// more.
func TestNothingBesideALeftHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, call := scriptedFixture(t)
		f.t = t
		release := make(chan struct{})
		var waited atomic.Bool
		f.doer.act = func(context.Context, broker.Request) {
			if !waited.Swap(true) {
				<-release
			}
		}
		f.now = time.Now().Add(-time.Minute)
		out, err := call(v2(true, "a:ok b:ok"), v2(true, "c:ok"), "tell")
		if err != nil || statuses(out.World.Effects) != "a:failed b:skipped c:skipped" || f.spent() != 1 {
			t.Fatalf("%+v, %v, spent %d", out, err, f.spent())
		}
		close(release)
		if err := f.coord.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRoundsEndWithTheCall: when a call's time is over nothing more is begun, and what was
// done becomes an entry.
func TestRoundsEndWithTheCall(t *testing.T) {
	for phases, want := range map[string]string{
		v2(true, "a:ok b:ok c:ok") + "|" + v2(true, "d:ok") + "|tell": "a:ok b:ok c:ok d:skipped",
		v2(true, "a:ok b:ok c:ok") + "|" + v2(false, "d:ok e:ok"):     "a:ok b:ok c:ok d:skipped e:skipped",
		v2(false, "a:ok b:ok c:ok d:ok"):                              "a:ok b:ok c:ok d:skipped",
	} {
		synctest.Test(t, func(t *testing.T) {
			f, call := scriptedFixture(t)
			f.t = t
			f.doer.act = func(ctx context.Context, _ broker.Request) {
				select {
				case <-ctx.Done():
				case <-time.After(9 * time.Second):
				}
			}
			f.now = time.Now().Add(-time.Minute)
			out, err := call(strings.Split(phases, "|")...)
			if err != nil || statuses(out.World.Effects) != want || f.spent() != 3 {
				t.Errorf("%+v, %v, spent %d; want %s", out, err, f.spent(), want)
			}
			if out.Results == nil && (out.OK || !strings.HasPrefix(out.Refused, "not done: ")) {
				t.Errorf("%+v", out)
			}
		})
	}
}
