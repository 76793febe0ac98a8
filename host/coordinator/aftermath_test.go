package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

var errUncertain = &world.Error{Op: "test", Kind: world.KindUncertain}

// TestResendWhileTheFirstTryLands: the first try's outcome was not known; it lands between
// the resend's look at the journal and its own write.
func TestResendWhileTheFirstTryLands(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("echo", echo, do)
	f.publish("refuses", "def main(text):\n    return std.refuse('no')\n", do, do)
	f.publish("doit", planned, do, do)
	s := f.session("Test.Do=s:9")
	for _, skill := range []string{"echo", "refuses"} {
		var first *store.Append
		f.events.append = func(ctx context.Context, a store.Append) (store.Committed, error) {
			if first == nil {
				first = &a
				return store.Committed{}, errUncertain
			}
			if _, err := f.store.Append(ctx, *first); err != nil {
				t.Error(err)
			}
			return f.store.Append(ctx, a)
		}
		_, err := f.call(skill, skill, "{}", s)
		wantKind(t, err, world.KindUnconfirmed)
		if res, err := f.call(skill, skill, "{}", s); err != nil || !res.Replayed {
			t.Fatalf("%s: %+v, %v", skill, res, err)
		}
	}
	f.events.append = nil
	var first *store.EffectIntent
	f.events.intend = func(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
		if first == nil {
			first = &i
			return store.Debit{}, errUncertain
		}
		if _, err := f.store.IntendEffect(ctx, *first); err != nil {
			t.Error(err)
		}
		return f.store.IntendEffect(ctx, i)
	}
	_, err := f.call("doit", "doit", "{}", s)
	if u := wantUnrecorded(t, err); len(u.Refs) != 1 || u.Refs[0] != first.Request.Hash {
		t.Fatalf("an uncertain intent names %v", u.Refs)
	}
	_, err = f.call("doit", "doit", "{}", s)
	if u := wantUnrecorded(t, err); len(u.Refs) != 1 || len(f.doer.done) != 0 || f.spent() != 1 {
		t.Fatalf("refs %v, done %v, spent %d", u.Refs, f.doer.done, f.spent())
	}
}

// TestAPanicAfterAnEffectNamesIt: nothing that goes wrong past an intent may hide it.
func TestAPanicAfterAnEffectNamesIt(t *testing.T) {
	for _, step := range []string{"effect.intended", "effect.performed", "effect.recorded", "call.finished", "call.before-commit"} {
		f := newFixture(t)
		f.genesis()
		f.publish("doit", shaped, do, do)
		c := newFixtureOver(f, func(at string) {
			if at == step {
				panic("at " + at)
			}
		})
		_, err := c.Invoke(context.Background(), coordinator.Call{Surface: world.SurfaceA2A, Session: f.session("Test.Do=s:9"), Skill: "doit", Task: "t", Args: []byte("{}")})
		u := wantUnrecorded(t, err)
		if len(u.Refs) != 1 {
			t.Fatalf("%s: %v", step, u.Refs)
		}
		if _, err := f.store.Object(context.Background(), u.Refs[0]); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// TestPatientEffects: an effect that may take long has, on the agents' doors, the call's time
// and no more, and its call is an entry all the same; on the task endpoint it has its own.
func TestPatientEffects(t *testing.T) {
	for _, c := range []struct {
		surface       world.Surface
		patience, end time.Duration
	}{
		{world.SurfaceMCP, time.Minute, coordinator.CallDeadline}, {world.SurfaceA2A, time.Minute, coordinator.CallDeadline},
		{world.SurfaceTasks, time.Minute, time.Minute}, {world.SurfaceTasks, time.Hour, broker.MaxPatience}, {world.SurfaceTasks, 0, broker.HandlerTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.genesis()
			f.publish("doit", planned, do, do)
			s := f.session("Test.Do=s:9")
			s.Expires = f.now.Add(time.Hour)
			f.doer.patience = c.patience
			f.doer.act = func(ctx context.Context, _ broker.Request) { <-ctx.Done() }
			f.doer.fail = context.DeadlineExceeded
			start := time.Now()
			res, err := f.coord.Invoke(t.Context(), coordinator.Call{Surface: c.surface, Session: s, Skill: "doit", Args: []byte(`{"how":"given"}`)})
			if err != nil || !strings.Contains(string(res.Output), "it ran out of time") || time.Since(start) != c.end {
				t.Errorf("%+v: %s, %v after %v", c, res.Output, err, time.Since(start))
			}
		})
	}
}

func TestReasonsAreMadeFit(t *testing.T) {
	f := newFixture(t)
	f.genesis()
	f.publish("doit", planned, do, do)
	for _, msg := range []string{"bad \xff name", strings.Repeat("x", 1<<20)} {
		f.doer.act = func(context.Context, broker.Request) {}
		f.doer.fail = world.Errorf(world.KindStoreFull, "test", "%s", msg)
		res, err := f.call("doit", "", `{"how":"given"}`, f.session("Test.Do=s:9"))
		if err != nil || !strings.Contains(string(res.Output), `"refused":"effect failed: `) || len(res.Output) > 2*broker.MaxReason {
			t.Fatalf("%.100s, %v", res.Output, err)
		}
	}
}

// TestALeftHandlerKeepsItsEpisode: a handler that does not stop is left behind by its
// call, but no other writer enters its episode until it has ended; and a stop waits for it.
func TestALeftHandlerKeepsItsEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.genesis()
		f.publish("doit", planned, do, do)
		s := f.session("Test.Do=s:9")
		s.Expires = f.now.Add(time.Hour)
		release := make(chan struct{})
		var waited atomic.Bool // the first effect waits, later ones do not
		f.doer.act = func(context.Context, broker.Request) {
			if !waited.Swap(true) {
				<-release
			}
		}
		start := time.Now()
		res, err := f.call("doit", "t1", "{}", s)
		if err != nil || !strings.Contains(string(res.Output), "did not stop") || time.Since(start) != broker.HandlerTimeout+broker.StopGrace {
			t.Fatalf("%s, %v after %v", res.Output, err, time.Since(start))
		}
		second := make(chan error, 1)
		go func() {
			_, err := f.call("doit", "t2", "{}", s)
			second <- err
		}()
		synctest.Wait()
		if len(second) != 0 {
			t.Fatal("a writer entered beside a handler that was left behind")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.coord.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a stop did not wait: %v", err)
		}
		close(release)
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		if err := f.coord.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBoundsFit: a finish phase can always be told what its effect gave.
func TestBoundsFit(t *testing.T) {
	const frame = 64 << 10
	if capsule.MaxInput < coordinator.MaxArgs+broker.MaxEffectOutput+broker.MaxReason+frame {
		t.Fatal("arguments and an effect's output do not fit into the finish phase's input")
	}
	if coordinator.Aftermath < broker.StopGrace+coordinator.DetachedBudget {
		t.Fatal("what follows an effect does not fit into the aftermath")
	}
}
