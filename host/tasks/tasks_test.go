package tasks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

func TestCallIsHandedOver(t *testing.T) {
	h := newHouse(t)
	got := h.post(t.Context(), "ada:pro", sendText("m", "why"))
	if got.status != http.StatusOK || got.Result.Status.State != Completed || *got.Result.Metadata.Entry != 7 {
		t.Fatalf("%+v", got)
	}
	c := h.calls[0]
	if c.Surface != world.SurfaceTasks || c.Session.Episode != "ada" || c.Skill != DefaultSkill || string(c.Args) != `{"question":"why"}` ||
		c.Task != got.Result.ID || !coordinator.ValidTask(c.Task) || c.Slot == nil {
		t.Errorf("%+v", c)
	}
}

// TestTheSameMessageAtOnce sends one message from many sides while it is under way: it runs
// once, and all have the same task. Another content is refused meanwhile.
func TestTheSameMessageAtOnce(t *testing.T) {
	h := newHouse(t)
	entered, open := make(chan struct{}, 1), make(chan struct{})
	h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) {
		entered <- struct{}{}
		<-open
		return answer(`{"ok":true}`), nil
	}
	const callers = 16
	got := make([]reply, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { got[i] = h.post(t.Context(), "ada:pro", sendText("m", "why")) })
	}
	<-entered
	if other := h.post(t.Context(), "ada:pro", sendText("m", "who")); other.Error.Code != surface.CodeInvalidParams || !strings.Contains(other.Error.Message, "other content") {
		t.Errorf("other content: %+v", other)
	}
	// A task under way is as one that is not there.
	id := derived("task", "ada", "m")
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		if under := h.post(t.Context(), "ada:pro", named(method, id)); under.Error.Code != CodeTaskNotFound {
			t.Errorf("%s: %+v", method, under)
		}
	}
	close(open)
	wg.Wait()
	for i := range got {
		if got[i].Result.ID != id || got[i].Result.Status.State != Completed {
			t.Errorf("caller %d: %+v", i, got[i])
		}
	}
	if h.invoked() != 1 || len(h.flights) != 0 {
		t.Errorf("%d calls, %d flights", h.invoked(), len(h.flights))
	}
}

// TestTheSameMessageAtTwoDaemons has two daemons bring one message to different ends, in either
// order: what is kept is completed if either end is, and one that was is never taken back.
func TestTheSameMessageAtTwoDaemons(t *testing.T) {
	failure := world.Wrap(world.KindExecution, "test", errors.New("over its bounds"))
	for _, c := range []struct {
		name          string
		first, second error
		old           State // of an end that is past its time; "" is none
		says, keeps   State // what the second says, and what is kept then
	}{
		{"both complete", nil, nil, "", Completed, Completed},
		{"the second fails", nil, failure, "", Completed, Completed},
		{"the first fails", failure, nil, "", Completed, Completed},
		{"both fail", failure, failure, "", Failed, Failed},
		{"the second fails, and one had ended", nil, failure, Failed, Completed, Completed},
		{"the first fails, and one had ended", failure, nil, Completed, Completed, Completed},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			other := New(h.cfg)
			if c.old != "" {
				r := &record{Task: Task{Kind: "task", ID: derived("task", "ada", "m"), ContextID: "old", Artifacts: []Artifact{}}}
				r.Task.end(c.old, h.clock())
				if _, err := h.keep(t.Context(), world.Session{Episode: "ada", Plan: "pro"}, r); err != nil {
					t.Fatal(err)
				}
				h.pass(Kept)
			}
			ends := make(chan chan error, 2)
			h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) {
				end := make(chan error)
				ends <- end
				return answer(`{"ok":true}`), <-end
			}
			send := func(to *Handler) chan reply {
				got := make(chan reply, 1)
				go func() { got <- h.postTo(t.Context(), to, "ada:pro", sendText("m", "why")) }()
				return got
			}
			one := send(h.Handler)
			endOne := <-ends
			two := send(other)
			endTwo := <-ends
			endOne <- c.first
			first := <-one
			h.pass(time.Second)
			endTwo <- c.second
			if got := <-two; got.Result.Status.State != c.says {
				t.Errorf("the second says %+v", got)
			}
			kept := h.post(t.Context(), "ada:pro", named("tasks/get", derived("task", "ada", "m")))
			if kept.Result.Status.State != c.keeps || kept.Result.ContextID == "old" {
				t.Errorf("kept is %+v", kept)
			}
			if c.first == nil && kept.Result.Status.Timestamp != first.Result.Status.Timestamp {
				t.Errorf("told of %+v, and kept is %+v", first, kept)
			}
		})
	}
	t.Run("with other content", func(t *testing.T) {
		h := newHouse(t)
		other := New(h.cfg)
		h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) {
			h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) { return answer(`{"ok":true}`), nil }
			if got := h.postTo(t.Context(), other, "ada:pro", sendText("m", "who")); got.Result.Status.State != Completed {
				t.Errorf("%+v", got)
			}
			return answer(`{"ok":true}`), nil
		}
		if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Error.Code != surface.CodeInvalidParams || !strings.Contains(got.Error.Message, "other content") {
			t.Errorf("%+v", got)
		}
	})
}

// TestCallerGoesAway: what was begun goes on, and the same message finds it.
func TestCallerGoesAway(t *testing.T) {
	h := newHouse(t)
	entered, open := make(chan struct{}, 1), make(chan struct{})
	h.invoke = func(ctx context.Context, _ coordinator.Call) (coordinator.Result, error) {
		entered <- struct{}{}
		<-open
		return answer(`{"ok":true}`), ctx.Err()
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan reply)
	go func() { left <- h.post(ctx, "ada:pro", sendText("m", "why")) }()
	<-entered
	leave()
	if got := <-left; got.Error.Code != surface.CodeInternal {
		t.Errorf("who left: %+v", got)
	}
	close(open)
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Result.Status.State != Completed || h.invoked() != 1 {
		t.Errorf("%d calls: %+v", h.invoked(), got)
	}
}

// TestCancel: at their end tasks stay there; one that is not is cancelled, which nothing
// that comes by this door can bring about.
func TestCancel(t *testing.T) {
	h := newHouse(t)
	ada := world.Session{Episode: "ada", Plan: "pro"}
	for state, want := range map[State]int{"working": 0, "submitted": 0, "input-required": 0, Completed: surface.CodeInvalidParams, Failed: surface.CodeInvalidParams, Canceled: surface.CodeInvalidParams} {
		r := &record{Task: Task{Kind: "task", ID: string(state), ContextID: "c", Artifacts: []Artifact{}}}
		r.Task.end(state, h.clock())
		if _, err := h.keep(t.Context(), ada, r); err != nil {
			t.Fatal(err)
		}
		got := h.post(t.Context(), "ada:pro", named("tasks/cancel", string(state)))
		if got.Error.Code != want || want != 0 && got.Error.Message != "Invalid state transition" {
			t.Errorf("%s: %+v", state, got)
		}
		if want == 0 && (got.Result.Status.State != Canceled || h.post(t.Context(), "ada:pro", named("tasks/get", string(state))).Result.Status.State != Canceled) {
			t.Errorf("%s: %+v", state, got.Result)
		}
		if got := h.post(t.Context(), "bob:pro", named("tasks/cancel", string(state))); got.Error.Code != CodeTaskNotFound {
			t.Errorf("another's: %+v", got)
		}
	}
}

// TestEveryKindHasAnEnding walks the kinds: none is forgotten, none tells its cause, and
// only what is kept is the same when the message comes again.
func TestEveryKindHasAnEnding(t *testing.T) {
	cause := errors.New("a cause that is not told")
	for _, kind := range world.Kinds() {
		e, ok := endings[kind]
		if !ok {
			t.Errorf("kind %v has no ending", kind)
			continue
		}
		h := newHouse(t)
		var failure error = world.Wrap(kind, "test", cause)
		if kind == world.KindEffectsUnrecorded {
			failure = &world.EffectsUnrecordedError{Refs: []world.Ref{hashref.Zero}, Cause: cause}
		}
		h.invoke = func(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
			if release, err := c.Slot(ctx); err == nil { // its turn came
				defer release()
			}
			return coordinator.Result{}, failure
		}
		got := h.post(t.Context(), "ada:pro", sendText("m", "why"))
		again := h.post(t.Context(), "ada:pro", sendText("m", "why"))
		text := got.Error.Message
		if e.failed != "" {
			text = got.Result.Status.Message.Parts[0].Text
			if got.Result.Status.State != Failed || got.Result.Metadata.Entry != nil || len(got.Result.Artifacts) != 0 || again.Result.ID != got.Result.ID || h.invoked() != 1 {
				t.Errorf("%v: %d calls, %+v", kind, h.invoked(), got)
			}
		} else if got.Error.Code == 0 || h.invoked() != 2 || len(h.kept) != 0 {
			t.Errorf("%v: %d calls, %+v", kind, h.invoked(), got)
		}
		if text == "" || strings.Contains(text, cause.Error()) || !h.said(cause.Error()) {
			t.Errorf("%v: the caller is told %q, the operator %q", kind, text, h.told)
		}
		if kind == world.KindEffectsUnrecorded && !strings.HasSuffix(text, "effect records: "+hashref.Zero.String()) {
			t.Errorf("%v: %s", kind, text)
		}
	}
	if got := endings[world.KindNotAuthorized]; got.failed != "" {
		t.Errorf("%+v", got)
	}
}

// TestKeptOrNotTold: a task that cannot be kept is not answered with, and the message can
// be sent again.
func TestKeptOrNotTold(t *testing.T) {
	h := newHouse(t)
	h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.broken = world.Wrap(world.KindStoreFull, "test", errors.New("full"))
		return answer(`{"ok":true}`), nil
	}
	if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Error.Code != surface.CodeInternal || !h.said("full") {
		t.Errorf("%+v", got)
	}
	h.mu.Lock()
	h.broken = nil
	h.mu.Unlock()
	h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) { return answer(`{"ok":true}`), nil }
	if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Result.Status.State != Completed {
		t.Errorf("%+v", got)
	}
}

func TestPanics(t *testing.T) {
	h := newHouse(t)
	h.seen = []*world.Descriptor{nil} // the first look at it panics
	if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Error.Code != surface.CodeInternal || !h.said("panic") || len(h.flights) != 0 {
		t.Errorf("%+v %q", got, h.told)
	}
	h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) { panic("on purpose") }
	h.seen = []*world.Descriptor{{ID: DefaultSkill, TextArgument: "t"}}
	if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Error.Code != surface.CodeInternal {
		t.Errorf("%+v", got)
	}
}

// TestDeadline: a call that takes longer than it may is a failed task, and one that is
// ended by the daemon's stopping is none.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.invoke = func(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
			release, err := c.Slot(ctx)
			if err != nil {
				return coordinator.Result{}, err
			}
			defer release()
			<-ctx.Done()
			return coordinator.Result{}, world.Wrap(world.KindDeadline, "test", ctx.Err())
		}
		start := time.Now()
		got := h.post(t.Context(), "ada:pro", sendText("m", "why"))
		if took := time.Since(start); took != CallDeadline || got.Result.Status.State != Failed || CallDeadline != 2*time.Minute {
			t.Errorf("after %v: %+v", took, got)
		}
		h.invoke = func(ctx context.Context, _ coordinator.Call) (coordinator.Result, error) {
			<-ctx.Done()
			return coordinator.Result{}, world.Wrap(world.KindCanceled, "test", ctx.Err())
		}
		time.AfterFunc(time.Second, h.Cancel)
		if got := h.post(t.Context(), "ada:pro", sendText("m2", "why")); got.Error.Code != surface.CodeInternal || len(h.kept) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestATurnThatNeverCame: a call whose time went by before its turn says nothing of the
// skill, nothing is kept, and the same message may be sent again.
func TestATurnThatNeverCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.invoke = func(ctx context.Context, _ coordinator.Call) (coordinator.Result, error) {
			<-ctx.Done() // the calls before it in the episode take all of its time
			return coordinator.Result{}, world.Wrap(world.KindDeadline, "test", ctx.Err())
		}
		if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Error.Code != surface.CodeInternal || len(h.kept) != 0 {
			t.Errorf("%+v", got)
		}
		h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) { return answer(`{"ok":true}`), nil }
		if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Result.Status.State != Completed {
			t.Errorf("again: %+v", got)
		}
	})
}

// TestALostTaskDoesNotCount: a call that was begun counted then, and its message is answered
// also when the pool is empty; another one is refused.
func TestALostTaskDoesNotCount(t *testing.T) {
	h := newHouse(t)
	h.wait = time.Minute
	for state, want := range map[store.State]int{store.StateUnknown: http.StatusTooManyRequests, store.StateOpen: http.StatusOK, store.StateCommitted: http.StatusOK} {
		message := fmt.Sprint("m", state)
		h.states = map[world.InvocationID]store.State{world.TaskInvocation("ada", derived("task", "ada", message)): state}
		if got := h.post(t.Context(), "ada:pro", sendText(message, "why")); got.status != want || (want == http.StatusOK) != (got.Result.Status.State == Completed) {
			t.Errorf("%v: %d %+v", state, got.status, got)
		}
	}
}

// TestACallLeftBehind: what a call comes to that does not end in time is not known yet. No
// task says that it failed, and the same message is not taken for another.
func TestACallLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		open := make(chan struct{})
		h.invoke = func(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
			if _, err := c.Slot(ctx); err != nil {
				return coordinator.Result{}, err
			}
			<-open
			return answer(`{"ok":true}`), nil
		}
		if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Error.Message != errResend.Message || len(h.kept) != 0 {
			t.Errorf("%+v", got)
		}
		h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) {
			return coordinator.Result{}, world.Wrap(world.KindTaskIDUsed, "test", coordinator.ErrInFlight)
		}
		if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Error.Message != errResend.Message || len(h.kept) != 0 {
			t.Errorf("again: %+v", got)
		}
		close(open)
	})
}

// TestCapacity: more than MaxRunning wait, and more than MaxFlights are turned away at once.
// One user has a part of both, and the others the rest.
func TestCapacity(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"ada", "bob", "eve"} {
		h.enlist(name)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	take := func(name string) func() {
		t.Helper()
		release, err := h.slotOf(name)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	full := func(name string) {
		t.Helper()
		if _, err := h.slotOf(name)(over); world.KindOf(err) != world.KindCapacity {
			t.Errorf("one more of %s: %v", name, err)
		}
	}
	var last func()
	for range OwnRunning {
		last = take("ada")
	}
	full("ada")
	for range MaxRunning - OwnRunning {
		take("bob")
	}
	full("eve")
	last()
	take("eve")
	full("ada")
	full("eve")

	for i := range OwnFlights {
		h.flights[hashref.SumString(string(rune(i)))] = &flight{}
		h.enlist("u:full")
	}
	if h.enlist("u:full") || !h.enlist("other") {
		t.Error("one user takes the place of others, or has none")
	}
	for i := range MaxFlights {
		h.flights[hashref.SumString(string(rune(i)))] = &flight{}
	}
	if got := h.post(t.Context(), "ada:pro", sendText("m", "why")); got.Error.Code != surface.CodeInternal || h.invoked() != 0 {
		t.Errorf("%+v", got)
	}
}

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		keep := func(n int) {
			for i := range n {
				k := store.Kept{Kind: kindTask, Key: hashref.Sum(hashref.Ordered([]string{"k", string(rune('a' + i%26)), strings.Repeat("x", i/26)})), Expires: h.clock().Add(Kept)}
				h.Keep(t.Context(), k, true)
			}
		}
		keep(3 * store.MaxPage)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.Sweep(ctx) }()
		left := func() int { h.mu.Lock(); defer h.mu.Unlock(); return len(h.kept) }
		time.Sleep(SweepEvery + time.Second)
		if left() != 3*store.MaxPage {
			t.Errorf("%d are left before their end", left())
		}
		h.pass(Kept)
		time.Sleep(SteadyFor - SweepEvery)
		if left() != 3*store.MaxPage {
			t.Errorf("%d are left after a jump of the clock that may yet be set right", left())
		}
		time.Sleep(3 * SweepEvery)
		if left() != 0 {
			t.Errorf("%d are left", left())
		}
		cancel()
		<-done
	})
}

func TestRefusalsInOutputs(t *testing.T) {
	for output, want := range map[string]string{
		`{"ok":false,"refused":"why"}`: "why", `{"ok":false}`: "the skill refused", `{"ok":false,"refused":7}`: "the skill refused",
		`{"ok":true,"refused":"why"}`: "", `{"refused":"why"}`: "", `{}`: "", `{"ok":0}`: "", `{"ok":"false"}`: "",
	} {
		if why, refused := refusal([]byte(output)); why != want || refused != (want != "") {
			t.Errorf("%s: %q", output, why)
		}
	}
}

// An output with a text that is not empty gives a text part, before the data part; a failed
// task keeps its form.
func TestTextForAPerson(t *testing.T) {
	for output, want := range map[string][]Part{
		`{"ok":true,"text":"read é"}`:             {{Kind: "text", Text: "read é"}, {Kind: "data"}},
		`{"ok":true,"text":""}`:                   {{Kind: "data"}},
		`{"ok":true,"text":7}`:                    {{Kind: "data"}},
		`{"ok":true,"text":{"a":1}}`:              {{Kind: "data"}},
		`{"ok":true}`:                             {{Kind: "data"}},
		`{"ok":false,"refused":"no","text":"hm"}`: {{Kind: "text", Text: "no"}, {Kind: "data"}},
	} {
		tk := begun(world.Session{Episode: "ada"}, &message{id: "m", raw: []byte(`{"messageId":"m"}`), skill: "s"}, "id").Task
		tk.committed(answer(output), time.Unix(0, 0))
		want[len(want)-1].Data = []byte(output)
		var got []Part
		if tk.Status.State == Failed {
			got = tk.Status.Message.Parts
		} else {
			got = tk.Artifacts[0].Parts
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", output, d)
		}
	}
}

// What is hashed as it is encoded is canonical.
func TestEncodings(t *testing.T) {
	parts := []string{"task", "é\u0001", `"`}
	if string(hashref.Ordered(parts)) != string(hashref.MustMarshal(parts)) {
		t.Error("the parts of an id are not canonical")
	}
	var tk Task
	h := newHouse(t)
	s := world.Session{Episode: "ada"}
	m := &message{id: "m", raw: []byte(`{"messageId":"m"}`), skill: "s"}
	tk = begun(s, m, "id").Task
	tk.committed(answer(`{"a":1}`), h.clock())
	var back Task
	if err := json.Unmarshal(tk.encode(), &back); err != nil || string(back.encode()) != string(tk.encode()) {
		t.Errorf("%v: %s", err, tk.encode())
	}
}
