package broker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// ledger keeps intents and outcomes, and polices their order.
type ledger struct {
	t       *testing.T
	intents int
	records []world.Object
}

func (l *ledger) Spent(context.Context, string, string, string) (int64, error) { return 2, nil }

func (l *ledger) IntendEffect(_ context.Context, i store.EffectIntent) (store.Debit, error) {
	l.intents++
	return store.Debit{Before: i.Budget, After: i.Budget - i.Need.Cost}, nil
}

func (l *ledger) RecordOutcome(_ context.Context, o store.EffectOutcome) error {
	if l.intents == 0 {
		l.t.Error("an outcome without an intent")
	}
	l.intents--
	l.records = append(l.records, o.Objects...)
	return nil
}

type handler struct {
	effects []string
	do      func(ctx context.Context) ([]byte, error)
}

func (h handler) Effects() []string                                      { return h.effects }
func (h handler) Ready(context.Context, string, string, string) error    { return nil }
func (h handler) Perform(ctx context.Context, _ Request) ([]byte, error) { return h.do(ctx) }

// said is what went to stderr.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *said) logf(f string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.b, f, a...)
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func perform(t *testing.T, do func(ctx context.Context) ([]byte, error)) (*Done, *ledger, string) {
	t.Helper()
	l := &ledger{t: t}
	var said said
	b := &Broker{Store: l, Handlers: map[string]Handler{"E": handler{do: do}}, Now: time.Now,
		Logf: said.logf}
	s := world.Session{Episode: "ep", Expires: time.Now().Add(time.Hour), Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 5}}}
	ticket, done, err := b.Intend(t.Context(), Caller{Invocation: "a2a:ep:t", Session: s, Provenance: "test"},
		Planned{ID: "e1", Need: world.Need{Effect: "E", Scope: "s", Cost: 1}, Payload: []byte("{}")}, nil)
	if err != nil || done != nil {
		t.Fatalf("%v, %v", done, err)
	}
	ticket.Run(t.Context())
	ended := ticket.Done()
	if err := b.Record(t.Context(), *ended.Outcome); err != nil {
		t.Fatal(err)
	}
	return &ended, l, said.text()
}

func TestAHandlerThatHangsIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		done, _, said := perform(t, func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if done.Status != StatusFailed || done.Reason != "it ran out of time" || time.Since(start) != HandlerTimeout || said == "" {
			t.Fatalf("%+v after %v, said %q", done, time.Since(start), said)
		}
	})
}

// patient is a handler that may take longer.
type patient struct {
	handler
	patience time.Duration
}

func (p patient) Patience(effect, scope string) time.Duration {
	if effect != "E" || scope != "s" {
		return time.Hour
	}
	return p.patience
}

func TestAPatientHandler(t *testing.T) {
	for _, c := range []struct{ patience, call, want time.Duration }{
		{0, time.Hour, HandlerTimeout},
		{-1, time.Hour, HandlerTimeout},
		{time.Second, time.Hour, time.Second},
		{time.Minute, time.Hour, time.Minute},
		{time.Hour, 2 * time.Hour, MaxPatience},
		{time.Minute, 20 * time.Second, 20 * time.Second}, // the call's own time decides
	} {
		synctest.Test(t, func(t *testing.T) {
			h := patient{handler{do: func(ctx context.Context) ([]byte, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}, c.patience}
			b := &Broker{Store: &ledger{t: t}, Handlers: map[string]Handler{"E": h}, Now: time.Now, Logf: t.Logf}
			ticket := &Ticket{broker: b, planned: Planned{ID: "e1", Need: world.Need{Effect: "E", Scope: "s"}}, ended: make(chan struct{})}
			ctx, cancel := context.WithTimeout(t.Context(), c.call)
			defer cancel()
			start := time.Now()
			ticket.Run(ctx)
			if d := ticket.Done(); d.Status != StatusFailed || d.Reason != "it ran out of time" || time.Since(start) != c.want {
				t.Errorf("%+v: %+v after %v", c, d, time.Since(start))
			}
		})
	}
}

func TestAHandlerThatDoesNotStopIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, release := time.Now(), make(chan struct{})
		done, _, said := perform(t, func(context.Context) ([]byte, error) {
			<-release
			return []byte("{}"), nil
		})
		close(release)
		if done.Status != StatusFailed || done.Reason != "it ran out of time and did not stop; it may still take place" ||
			time.Since(start) != HandlerTimeout+StopGrace || said == "" {
			t.Fatalf("%+v after %v, said %q", done, time.Since(start), said)
		}
	})
}

func TestAnAnswerIsHeldToTheLawsOfOutputs(t *testing.T) {
	for name, answer := range map[string]string{
		"no JSON": "x", "no object": "[]", "duplicate": `{"a":1,"a":2}`, "world": `{"world":{}}`, "nothing": "",
		"too deep": `{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
	} {
		done, l, said := perform(t, func(context.Context) ([]byte, error) { return []byte(answer), nil })
		if done.Status != StatusFailed || done.Reason != "internal failure" || done.Output != nil || said == "" {
			t.Errorf("%s: %+v, said %q", name, done, said)
		}
		if string(l.records[0].Payload) != `{"failed":"internal failure"}` {
			t.Errorf("%s: result %s", name, l.records[0].Payload)
		}
	}
	done, _, _ := perform(t, func(context.Context) ([]byte, error) {
		return []byte(`{"a":"` + strings.Repeat("x", MaxEffectOutput) + `"}`), nil
	})
	if done.Status != StatusFailed || !strings.Contains(done.Reason, "larger than") {
		t.Errorf("too large: %+v", done)
	}
}

func TestOneHandlerAnEffect(t *testing.T) {
	if _, err := Serve(handler{effects: []string{"E"}}, handler{effects: []string{"F", "E"}}); err == nil {
		t.Fatal("two handlers of one effect were taken")
	}
}

func TestADenialTellsWhatIsLeft(t *testing.T) {
	b := &Broker{Store: &ledger{t: t}, Now: time.Now, Logf: t.Logf}
	s := world.Session{Episode: "ep", Expires: time.Now().Add(-time.Hour), Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 5}}}
	ticket, done, err := b.Intend(t.Context(), Caller{Session: s}, Planned{ID: "e1", Need: world.Need{Effect: "E", Scope: "s", Cost: 1}, Payload: []byte("{}")}, nil)
	if err != nil || ticket != nil || done.Reason != "denied:expired" || len(done.Objects) != 2 {
		t.Fatalf("%v, %+v, %v", ticket, done, err)
	}
	want := `{"allowed":false,"budgetAfter":3,"budgetBefore":3,"cost":1,"denial":"denied:expired","effect":"E","failed":false,"requestRef":"` +
		done.Objects[0].Hash.String() + `","resultRef":"","scope":"s"}`
	if string(done.Objects[1].Payload) != want || done.Record != hashref.SumString(want) {
		t.Fatalf("%s\nwant %s", done.Objects[1].Payload, want)
	}
}

// TestAHandlerThatAnsweredIsNotLeftBehind: what has answered is done, however long its
// goroutine takes to end.
func TestAHandlerThatAnsweredIsNotLeftBehind(t *testing.T) {
	b := &Broker{Store: &ledger{t: t}, Now: time.Now, Logf: t.Logf,
		Handlers: map[string]Handler{"E": handler{do: func(context.Context) ([]byte, error) { return []byte("{}"), nil }}}}
	for range 2000 {
		ticket := &Ticket{broker: b, planned: Planned{ID: "e1", Need: world.Need{Effect: "E"}}, ended: make(chan struct{})}
		ticket.Run(t.Context())
		if ticket.Left() != nil {
			t.Fatal("it was taken for left behind")
		}
	}
}
