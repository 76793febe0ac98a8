package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

const echo = "def main(text):\n    return json.encode({\"echo\": json.decode(text)})\n"

// planned is a transition whose one effect carries the arguments as its payload.
const planned = `
def main(text):
    call = json.decode(text)
    return std.plan("Test.Do", "s", 1, call["args"])
`

// shaped is the same with a finish phase, which tells what it was given.
const shaped = `
def main(text):
    call = json.decode(text)
    if call["phase"] == "plan":
        return std.plan("Test.Do", "s", 1, call["args"], finish = True)
    return json.encode({"seen": call["results"]})
`

func TestPureCallIsOneEntry(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("echo", echo, do)
	res, err := f.call("echo", "t1", `{"a":1}`, f.session(do))
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Output) != `{"echo":{"a":1}}` || res.Invocation != "a2a:ep:t1" || res.Entry != 1 || res.Replayed {
		t.Fatalf("%+v %s", res, res.Output)
	}
	ctx := context.Background()
	e, err := f.store.Entry(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	snap, _ := f.reg.Snapshot(ctx)
	d := snap.Get("echo")
	if e.Header.TransitionFn != d.TransitionFn || e.Header.Interpreter != d.Interpreter || e.Header.WrittenBy != "coordinator:a2a" || e.Header.SemanticsEpoch != 1 {
		t.Fatalf("%+v", e)
	}
	rec, err := f.store.Object(ctx, e.TransitionRef)
	if err != nil {
		t.Fatal(err)
	}
	in, out := hashref.SumString(`{"a":1}`), hashref.Sum(res.Output)
	want := `{"episodeId":"ep","input":"` + in.String() + `","interpreter":"` + d.Interpreter.String() + `","invocationId":"a2a:ep:t1","output":"` +
		out.String() + `","semanticsEpoch":1,"skillId":"echo","transitionFn":"` + d.TransitionFn.String() + `"}`
	if string(rec.Payload) != want || rec.SemanticID != world.SemRecordV1 || rec.Provenance != "coordinator:a2a" {
		t.Fatalf("record %s\nwant   %s", rec.Payload, want)
	}
	w, err := f.store.World(ctx, res.World)
	if err != nil || w.StateRoot != out || w.LogHead != e.EntryHash || w.Revision != 1 {
		t.Fatalf("%+v, %v", w, err)
	}
}

func TestRefusalsBeforeAnythingRuns(t *testing.T) {
	f := newFixture(t)
	f.publish("echo", echo, do)
	f.publish("doit", planned, do, do)
	s := f.session(do)
	_, err := f.call("echo", "t", "{}", s)
	wantKind(t, err, world.KindNoWorld)
	f.genesis()
	_, err = f.call("nothing", "t", "{}", s)
	wantKind(t, err, world.KindNotAuthorized)
	_, err = f.call("echo", "t", "{}", f.session("Other=s:1"))
	wantKind(t, err, world.KindNotAuthorized)
	_, err = f.call("echo", "t", "{}", f.session("Test.Do=s:0"))
	wantKind(t, err, world.KindNotAuthorized)
	_, err = f.call("echo", "bad task", "{}", s)
	wantKind(t, err, world.KindBadRequest)
	_, err = f.coord.Invoke(context.Background(), coordinator.Call{Surface: world.SurfaceA2A, Session: s, Skill: "echo", Pin: hashref.SumString("other"), Args: []byte("{}")})
	wantKind(t, err, world.KindPinMismatch)
	f.doer.ready = errors.New("no worktree")
	_, err = f.call("doit", "t", "{}", s)
	wantKind(t, err, world.KindNoHandler)
	if n := f.entries(); n != 1 || len(f.doer.done) != 0 {
		t.Fatalf("%d entries, %v effects", n, f.doer.done)
	}
}

func TestRunFailures(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	for name, c := range map[string]struct {
		source string
		want   world.Kind
	}{
		"fails":      {"def main(text):\n    fail('x')\n", world.KindExecution},
		"endless":    {"def main(text):\n    for i in range(1000000000):\n        pass\n", world.KindExecution},
		"no text":    {"def main(text):\n    return 1\n", world.KindBadOutput},
		"no object":  {"def main(text):\n    return '[]'\n", world.KindBadOutput},
		"no JSON":    {"def main(text):\n    return 'x'\n", world.KindBadOutput},
		"duplicate":  {"def main(text):\n    return '{\"a\":1,\"a\":2}'\n", world.KindBadOutput},
		"huge int":   {"def main(text):\n    return '{\"a\":9007199254740992}'\n", world.KindBadOutput},
		"world key":  {"def main(text):\n    return '{\"world\":1}'\n", world.KindBadOutput},
		"surrogate":  {"def main(text):\n    return '{\"a\":\"\\\\ud800\"}'\n", world.KindBadOutput},
		"sixty-five": {"def main(text):\n    return '{\"a\":' + '[' * 64 + ']' * 64 + '}'\n", world.KindBadOutput},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.publish("x", c.source, do)
			_, err := f.call("x", "t", "{}", f.session(do))
			wantKind(t, err, c.want)
		})
	}
	if n := f.entries(); n != 1 {
		t.Fatalf("%d entries, want only genesis", n)
	}
}

// planText is a plan with fields replaced.
func planText(plan, effects, finish, result string) string {
	return `{"plan":` + plan + `,"effects":` + effects + `,"finish":` + finish + `,"result":` + result + `}`
}

func TestPlanLaws(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	const v1, one = `"world/effect-plan/v1"`, `[{"id":"e1","effect":"Test.Do","scope":"s","cost":1,"payload":{}}]`
	effect := func(id, effect, scope, cost, payload string) string {
		return `[{"id":` + id + `,"effect":` + effect + `,"scope":` + scope + `,"cost":` + cost + `,"payload":` + payload + `}]`
	}
	for name, text := range map[string]string{
		"no plan":              `{}`,
		"a key too many":       `{"plan":` + v1 + `,"effects":[],"finish":false,"result":{"ok":true},"more":1}`,
		"a key too few":        `{"plan":` + v1 + `,"effects":[],"finish":false}`,
		"another version":      planText(`"world/effect-plan/v9"`, one, `false`, `null`),
		"two effects":          planText(v1, `[`+one[1:len(one)-1]+`,{"id":"e2","effect":"Test.Do","scope":"s","cost":1,"payload":{}}]`, `false`, `null`),
		"nine effects, v2":     v2(false, "a:ok b:ok c:ok d:ok e:ok f:ok g:ok h:ok i:ok"),
		"an id twice, v2":      v2(false, "a:ok a:ok"),
		"finish without, v2":   planText(`"world/effect-plan/v2"`, `[]`, `true`, `null`),
		"effects no array":     planText(v1, `{}`, `false`, `null`),
		"finish no boolean":    planText(v1, one, `1`, `null`),
		"effect and result":    planText(v1, one, `false`, `{"ok":true}`),
		"neither":              planText(v1, `[]`, `false`, `null`),
		"result no object":     planText(v1, `[]`, `false`, `[]`),
		"result holds world":   planText(v1, `[]`, `false`, `{"world":1}`),
		"finish without":       planText(v1, `[]`, `true`, `{"ok":true}`),
		"id of upper case":     planText(v1, effect(`"E1"`, `"Test.Do"`, `"s"`, `1`, `{}`), `false`, `null`),
		"id too long":          planText(v1, effect(`"aaaaaaaaaaaaaaaaa"`, `"Test.Do"`, `"s"`, `1`, `{}`), `false`, `null`),
		"id empty":             planText(v1, effect(`""`, `"Test.Do"`, `"s"`, `1`, `{}`), `false`, `null`),
		"effect not declared":  planText(v1, effect(`"e1"`, `"Git.Read"`, `"s"`, `1`, `{}`), `false`, `null`),
		"scope not declared":   planText(v1, effect(`"e1"`, `"Test.Do"`, `"t"`, `1`, `{}`), `false`, `null`),
		"cost not declared":    planText(v1, effect(`"e1"`, `"Test.Do"`, `"s"`, `0`, `{}`), `false`, `null`),
		"cost no integer":      planText(v1, effect(`"e1"`, `"Test.Do"`, `"s"`, `1.5`, `{}`), `false`, `null`),
		"payload no object":    planText(v1, effect(`"e1"`, `"Test.Do"`, `"s"`, `1`, `[]`), `false`, `null`),
		"payload too large":    planText(v1, effect(`"e1"`, `"Test.Do"`, `"s"`, `1`, `{"a":"`+strings.Repeat("x", coordinator.MaxPayload)+`"}`), `false`, `null`),
		"a key of effect more": planText(v1, `[{"id":"e1","effect":"Test.Do","scope":"s","cost":1,"payload":{},"x":1}]`, `false`, `null`),
		"a key of effect less": planText(v1, `[{"id":"e1","effect":"Test.Do","scope":"s","cost":1}]`, `false`, `null`),
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			src := "def main(text):\n    return json.decode(text)[\"args\"][\"plan\"]\n"
			f.publish("p", src, do, do)
			_, err := f.call("p", "t", string(hashref.MustMarshal(map[string]string{"plan": text})), f.session(do))
			wantKind(t, err, world.KindConvention)
		})
	}
	if n := f.entries(); n != 1 || f.spent() != 0 || len(f.doer.done) != 0 {
		t.Fatalf("%d entries, %d spent, %v effects: a broken plan did something", n, f.spent(), f.doer.done)
	}
}

func TestEffectfulCall(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do)
	f.publish("shaped", shaped, do, do)
	s := f.session("Test.Do=s:100")
	for name, c := range map[string]struct {
		skill, args string
		status      string
		want        string // prefix of the output, before the world block
	}{
		"ok":             {"doit", `{"how":"ok"}`, "ok", `{"did":"it","ok":true,"world":`},
		"handler's no":   {"doit", `{"how":"refuse"}`, "ok", `{"ok":false,"refused":"no such file","world":`},
		"told failure":   {"doit", `{"how":"tell"}`, "failed", `{"ok":false,"refused":"effect failed: the disk is full","world":`},
		"untold failure": {"doit", `{"how":"fail"}`, "failed", `{"ok":false,"refused":"effect failed: internal failure","world":`},
		"panic":          {"doit", `{"how":"panic"}`, "failed", `{"ok":false,"refused":"effect failed: internal failure","world":`},
		"no JSON":        {"doit", `{"how":"nonsense"}`, "failed", `{"ok":false,"refused":"effect failed: internal failure","world":`},
		"world key":      {"doit", `{"how":"{\"world\":1}"}`, "failed", `{"ok":false,"refused":"effect failed: internal failure","world":`},
		"finish":         {"shaped", `{"how":"ok"}`, "ok", `{"seen":[{"effect":"Test.Do","id":"e1","output":{"did":"it","ok":true},"record":"sha256:`},
		"finish failed":  {"shaped", `{"how":"tell"}`, "failed", `{"seen":[{"denial":"the disk is full","effect":"Test.Do","id":"e1","output":null,"record":"sha256:`},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			before := f.spent()
			res, err := f.call(c.skill, "", c.args, s)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(res.Output), c.want) || !strings.Contains(string(res.Output), `"world":{"effects":[{"id":"e1","record":"sha256:`) ||
				!strings.Contains(string(res.Output), `"status":"`+c.status+`"}],"plan":"sha256:`) {
				t.Fatalf("output %s", res.Output)
			}
			if f.spent() != before+1 || f.doer.done[res.Invocation] != 1 {
				t.Fatalf("spent %d, done %d", f.spent()-before, f.doer.done[res.Invocation])
			}
		})
	}
	for _, l := range f.logs {
		if strings.Contains(l, "secret") {
			return
		}
	}
	t.Errorf("the cause of a failure is not on stderr: %q", f.logs)
}

func TestEffectRecord(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do)
	res, err := f.call("doit", "t", `{"how":"ok"}`, f.session("Test.Do=s:2", "Test.Do=s:3"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	inv, err := f.store.Invocation(ctx, res.Invocation)
	if err != nil || inv.State != store.StateCommitted || len(inv.Effects) != 1 || inv.Credential != hashref.SumString("cred") {
		t.Fatalf("%+v, %v", inv, err)
	}
	rec, err := f.store.Object(ctx, inv.Effects[0].Record)
	if err != nil {
		t.Fatal(err)
	}
	result := hashref.SumString(`{"did":"it","ok":true}`)
	want := `{"allowed":true,"budgetAfter":4,"budgetBefore":5,"cost":1,"denial":"","effect":"Test.Do","failed":false,"requestRef":"` +
		inv.Effects[0].Request.String() + `","resultRef":"` + result.String() + `","scope":"s"}`
	if string(rec.Payload) != want || rec.SemanticID != world.SemEffect {
		t.Fatalf("record %s\nwant   %s", rec.Payload, want)
	}
	req, err := f.store.Object(ctx, inv.Effects[0].Request)
	if want := `{"cost":1,"effect":"Test.Do","id":"e1","invocationId":"a2a:ep:t","payload":{"how":"ok"},"scope":"s"}`; err != nil || string(req.Payload) != want {
		t.Fatalf("request %s, %v", req.Payload, err)
	}
	if _, err := f.store.Object(ctx, result); err != nil {
		t.Fatal(err)
	}
}

func TestDenialsCommitAndSpendNothing(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	// Seen by an access that is granted, it plans an effect that is not, or is no longer.
	f.publish("other", planned, "Git.Read=s:0", do)
	grants := map[world.Denial][]string{
		world.DeniedEffect: {"Git.Read=s:0"},
		world.DeniedScope:  {"Git.Read=s:0", "Test.Do=elsewhere:9"},
		world.DeniedBudget: {"Git.Read=s:0", "Test.Do=s:0"},
	}
	for denial, g := range grants {
		res, err := f.call("other", "", "{}", f.session(g...))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(res.Output), `{"ok":false,"refused":"`+string(denial)+`","world":{"effects":[{"id":"e1","record":"sha256:`) {
			t.Errorf("%s: %s", denial, res.Output)
		}
	}
	// It expires between admission and decision.
	f.publish("expire", planned, do, do)
	s := f.session("Test.Do=s:9")
	s.Expires = f.now.Add(time.Nanosecond)
	f.coord = nil
	g := newFixtureOver(f, func(step string) {
		if step == "call.planned" {
			f.now = f.now.Add(time.Second)
		}
	})
	res, err := g.Invoke(context.Background(), coordinator.Call{Surface: world.SurfaceMCP, Session: s, Skill: "expire", Args: []byte("{}")})
	if err != nil || !strings.Contains(string(res.Output), `"refused":"denied:expired"`) {
		t.Fatalf("%s, %v", res.Output, err)
	}
	if f.spent() != 0 || len(f.doer.done) != 0 {
		t.Fatalf("%d spent, %v done", f.spent(), f.doer.done)
	}
}

func TestBudgetIsPerEpisodeAndNeverOverspent(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do)
	s := f.session("Test.Do=s:5")
	var wg sync.WaitGroup
	var mu sync.Mutex
	ok, denied := 0, 0
	for range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			res, err := f.call("doit", "", "{}", s)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case strings.Contains(string(res.Output), "denied:budget"):
				denied++
			default:
				ok++
			}
		}()
	}
	wg.Wait()
	if ok != 5 || denied != 15 || f.spent() != 5 {
		t.Fatalf("%d ok, %d denied, %d spent", ok, denied, f.spent())
	}
}

func TestTaskIDs(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do)
	f.publish("echo", echo, do)
	s := f.session("Test.Do=s:100")
	first, err := f.call("doit", "t", `{"how":"ok"}`, s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.call("doit", "t", `{"how":"ok"}`, s)
	if err != nil || string(again.Output) != string(first.Output) || again.Entry != first.Entry || again.World != first.World || !again.Replayed {
		t.Fatalf("%+v, %v; want %+v", again, err, first)
	}
	if f.doer.done[first.Invocation] != 1 || f.spent() != 1 || f.entries() != 2 {
		t.Fatal("a resent task ran again")
	}
	_, err = f.call("doit", "t", `{"how":"refuse"}`, s)
	wantKind(t, err, world.KindTaskIDUsed)
	_, err = f.call("echo", "t", `{"how":"ok"}`, s)
	wantKind(t, err, world.KindTaskIDUsed)
	// The resend of a committed call works after its tool was republished with other code.
	f.publish("doit", strings.Replace(planned, `"s", 1`, `"s",  1`, 1), do, do)
	if again, err = f.call("doit", "t", `{"how":"ok"}`, s); err != nil || !again.Replayed {
		t.Fatalf("%+v, %v", again, err)
	}
	// A failure before any effect leaves the id free.
	f.publish("bad", "def main(text):\n    fail('x')\n", do, do)
	_, err = f.call("bad", "t2", `{}`, s)
	wantKind(t, err, world.KindExecution)
	if _, err = f.call("echo", "t2", `{}`, s); err != nil {
		t.Fatal(err)
	}
	// In flight.
	started, release := make(chan struct{}), make(chan struct{})
	f.doer.act = func(context.Context, broker.Request) { close(started); <-release }
	done := make(chan error, 1)
	go func() { _, err := f.call("doit", "t3", `{}`, s); done <- err }()
	<-started
	_, err = f.call("doit", "t3", `{}`, s)
	wantKind(t, err, world.KindTaskIDUsed)
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestEffectsUnrecorded(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do)
	f.publish("shaped", shaped, do, do)
	f.publish("badfinish", `
def main(text):
    if json.decode(text)["phase"] == "plan":
        return std.plan("Test.Do", "s", 1, {}, finish = True)
    return "[]"
`, do, do)
	s := f.session("Test.Do=s:100")
	disk := &world.Error{Op: "test", Kind: world.KindStoreFull, Err: errors.New("disk full")}
	check := func(name, skill, task string, recorded bool) {
		t.Helper()
		_, err := f.call(skill, task, "{}", s)
		u := wantUnrecorded(t, err)
		if len(u.Refs) != 1 {
			t.Fatalf("%s: refs %v", name, u.Refs)
		}
		obj, err := f.store.Object(context.Background(), u.Refs[0])
		want := world.SemRequest
		if recorded {
			want = world.SemEffect
		}
		if err != nil || obj.SemanticID != want {
			t.Fatalf("%s: %s resolves to %q, %v; want %s", name, u.Refs[0], obj.SemanticID, err, want)
		}
		// For ever, also when the store works again; nothing is repeated.
		f.events.append, f.events.outcome = nil, nil
		spent := f.spent()
		_, err = f.call(skill, task, "{}", s)
		if again := wantUnrecorded(t, err); len(again.Refs) != 1 || again.Refs[0] != u.Refs[0] {
			t.Fatalf("%s: resend gives %v, want %v", name, again.Refs, u.Refs)
		}
		if f.spent() != spent || f.doer.done[world.AgentInvocation("ep", task)] != 1 {
			t.Fatalf("%s: a resend spent or did something", name)
		}
		// Another call under the id is told that it is used.
		_, err = f.call(skill, task, `{"other":1}`, s)
		wantKind(t, err, world.KindTaskIDUsed)
	}
	check("finish returns no object", "badfinish", "t1", true)
	f.events.append = func(context.Context, store.Append) (store.Committed, error) { return store.Committed{}, disk }
	check("commit fails", "doit", "t2", true)
	f.events.outcome = func(context.Context, store.EffectOutcome) error { return disk }
	check("outcome fails", "shaped", "t3", false)
	f.events.append = func(context.Context, store.Append) (store.Committed, error) { return store.Committed{}, disk }
	f.events.outcome = func(context.Context, store.EffectOutcome) error { return disk }
	check("commit fails, then the outcome alone", "doit", "t4", false)
	if f.entries() != 1 || f.spent() != 4 {
		t.Fatalf("%d entries, %d spent", f.entries(), f.spent())
	}
}

func TestUncertainCommitReconciles(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("echo", echo, do)
	f.publish("doit", planned, do, do)
	s := f.session("Test.Do=s:100")
	uncertain := &world.Error{Op: "test", Kind: world.KindUncertain}
	landed := func(ctx context.Context, a store.Append) (store.Committed, error) {
		if _, err := f.store.Append(ctx, a); err != nil {
			return store.Committed{}, err
		}
		return store.Committed{}, uncertain
	}
	lost := func(context.Context, store.Append) (store.Committed, error) { return store.Committed{}, uncertain }
	for name, c := range map[string]struct {
		skill  string
		append func(context.Context, store.Append) (store.Committed, error)
	}{"pure landed": {"echo", landed}, "pure lost": {"echo", lost}, "effectful landed": {"doit", landed}, "effectful lost": {"doit", lost}} {
		t.Run(name, func(t *testing.T) {
			task := strings.ReplaceAll(name, " ", "-")
			f.events.append = c.append
			_, err := f.call(c.skill, task, "{}", s)
			if c.skill == "echo" {
				wantKind(t, err, world.KindUnconfirmed)
			} else {
				wantUnrecorded(t, err)
			}
			f.events.append = nil
			res, err := f.call(c.skill, task, "{}", s)
			switch name {
			case "effectful lost":
				wantUnrecorded(t, err)
			case "pure lost":
				if err != nil || res.Replayed {
					t.Fatalf("%+v, %v", res, err)
				}
			default:
				if err != nil || !res.Replayed {
					t.Fatalf("%+v, %v", res, err)
				}
			}
		})
	}
}

func TestUncertainIntentIsNotPerformed(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do)
	f.events.intend = func(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
		if _, err := f.store.IntendEffect(ctx, i); err != nil {
			return store.Debit{}, err
		}
		return store.Debit{}, &world.Error{Op: "test", Kind: world.KindUncertain}
	}
	_, err := f.call("doit", "t", "{}", f.session("Test.Do=s:9"))
	if u := wantUnrecorded(t, err); len(u.Refs) != 1 || len(f.doer.done) != 0 {
		t.Fatalf("refs %v, done %v", u.Refs, f.doer.done)
	}
	f.events.intend = func(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
		return store.Debit{}, &world.Error{Op: "test", Kind: world.KindStoreFull}
	}
	_, err = f.call("doit", "t2", "{}", f.session("Test.Do=s:9"))
	wantKind(t, err, world.KindNotCommitted)
}

func TestCallerGoingAwayDoesNotStopAnEffect(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do)
	ctx, cancel := context.WithCancel(context.Background())
	f.doer.act = func(ctx context.Context, _ broker.Request) {
		cancel()
		if ctx.Err() != nil {
			t.Error("the effect was cancelled with its caller")
		}
	}
	res, err := f.coord.Invoke(ctx, coordinator.Call{Surface: world.SurfaceA2A, Session: f.session("Test.Do=s:9"), Skill: "doit", Task: "t", Args: []byte("{}")})
	if err != nil || f.entries() != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestDeepestArgumentsPass(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("echo", "def main(text):\n    return '{\"ok\":true}'\n", do)
	f.publish("doit", "def main(text):\n    return std.plan('Test.Do', 's', 1, {})\n", do, do)
	args := `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`
	for _, skill := range []string{"echo", "doit"} {
		if _, err := f.call(skill, "", args, f.session("Test.Do=s:9")); err != nil {
			t.Errorf("%s: %v", skill, err)
		}
	}
}

func TestSlotIsTakenAfterTheEpisodeAndGivenBack(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("echo", echo, do)
	f.publish("doit", planned, do, do)
	s := f.session("Test.Do=s:9")
	for _, skill := range []string{"echo", "doit"} {
		taken, free := 0, 0
		call := coordinator.Call{Surface: world.SurfaceMCP, Session: s, Skill: skill, Args: []byte("{}"),
			Slot: func(context.Context) (func(), error) { taken++; return func() { free++ }, nil }}
		if _, err := f.coord.Invoke(context.Background(), call); err != nil || taken != 1 || free != 1 {
			t.Fatalf("%s: %v, taken %d, given back %d", skill, err, taken, free)
		}
		call.Slot = func(context.Context) (func(), error) { return nil, world.Errorf(world.KindCapacity, "test", "full") }
		_, err := f.coord.Invoke(context.Background(), call)
		wantKind(t, err, world.KindCapacity)
	}
	// The refused calls hold nothing: the episode is free.
	if _, err := f.call("doit", "", "{}", s); err != nil {
		t.Fatal(err)
	}
}
