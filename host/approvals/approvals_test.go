package approvals_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
)

var ctx = context.Background()

// shelf is a book over a real store, and its clock.
type shelf struct {
	t    *testing.T
	path string
	s    *sqlite.Store
	book *approvals.Book
	now  time.Time
}

func open(t *testing.T) *shelf {
	h := &shelf{t: t, path: filepath.Join(t.TempDir(), "w.db"), now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
	h.reopen()
	t.Cleanup(func() { h.s.Close() })
	return h
}

func (h *shelf) reopen() {
	h.t.Helper()
	if h.s != nil {
		h.s.Close()
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: h.path, Logf: h.t.Logf})
	if err != nil {
		h.t.Fatal(err)
	}
	h.s, h.book = s, &approvals.Book{Store: s, Now: func() time.Time { return h.now }}
}

func subject(n int) approvals.Subject {
	return approvals.Subject{Effect: "Deploy.Run", Episode: "ep", Payload: fmt.Appendf(nil, `{"n":%d}`, n), Scope: "prod",
		Transition: "deploy", TransitionFn: hashref.SumString("fn")}
}

func (h *shelf) ask(s approvals.Subject) approvals.Approval {
	h.t.Helper()
	a, err := h.book.Ask(ctx, s)
	if err != nil || !approvals.ValidID(a.ID) {
		h.t.Fatalf("%+v, %v", a, err)
	}
	return a
}

func (h *shelf) take(s approvals.Subject, want bool) {
	h.t.Helper()
	if ok, err := h.book.Take(ctx, s, "a2a:ep:t"); ok != want || err != nil {
		h.t.Fatalf("taken: %v, %v; want %v", ok, err, want)
	}
}

func (h *shelf) decide(id string, grant bool) approvals.Approval {
	h.t.Helper()
	a, err := h.book.Decide(ctx, id, approvals.Decision{Grant: grant, By: "ann", Note: "because"})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (h *shelf) state(id string, want approvals.State) {
	h.t.Helper()
	if a, err := h.book.Find(ctx, id); err != nil || a.At(h.now) != want {
		h.t.Fatalf("%s is %s, %v; want %s", id, a.At(h.now), err, want)
	}
}

func TestAnApprovalIsUsedOnce(t *testing.T) {
	h := open(t)
	h.take(subject(1), false)
	a := h.ask(subject(1))
	if again := h.ask(subject(1)); again != a {
		t.Fatalf("asked twice: %+v, %+v", a, again)
	}
	h.take(subject(1), false)
	h.reopen()
	h.decide(a.ID, true)
	h.state(a.ID, approvals.Granted)
	h.reopen()
	h.take(subject(1), true)
	h.take(subject(1), false)
	h.state(a.ID, approvals.Used)
	if next := h.ask(subject(1)); next.ID == a.ID || next.State != approvals.Pending {
		t.Fatalf("%+v", next)
	}
	if _, err := h.book.Decide(ctx, a.ID, approvals.Decision{Grant: true}); world.KindOf(err) != world.KindBadRequest {
		t.Fatalf("a used one was decided: %v", err)
	}
	s, err := h.book.Subject(ctx, a)
	if err != nil || string(s.Payload) != `{"n":1}` || s.Transition != "deploy" {
		t.Fatalf("%+v, %v", s, err)
	}
}

// TestAnApprovalIsForOneRequest: whatever differs makes another request.
func TestAnApprovalIsForOneRequest(t *testing.T) {
	h := open(t)
	h.decide(h.ask(subject(1)).ID, true)
	for name, change := range map[string]func(s *approvals.Subject){
		"effect":     func(s *approvals.Subject) { s.Effect = "Deploy.Undo" },
		"episode":    func(s *approvals.Subject) { s.Episode = "other" },
		"payload":    func(s *approvals.Subject) { s.Payload = []byte(`{"n":1,"x":2}`) },
		"scope":      func(s *approvals.Subject) { s.Scope = "test" },
		"transition": func(s *approvals.Subject) { s.Transition = "deploy2" },
		"source":     func(s *approvals.Subject) { s.TransitionFn = hashref.SumString("other") },
	} {
		s := subject(1)
		change(&s)
		if ok, err := h.book.Take(ctx, s, "a2a:ep:t"); ok || err != nil {
			t.Errorf("another %s: %v, %v", name, ok, err)
		}
	}
	h.take(subject(1), true)
}

func TestApprovalsExpire(t *testing.T) {
	h := open(t)
	a := h.ask(subject(1))
	h.now = h.now.Add(approvals.PendingTTL)
	h.state(a.ID, approvals.Expired)
	if _, err := h.book.Decide(ctx, a.ID, approvals.Decision{Grant: true}); world.KindOf(err) != world.KindBadRequest || !strings.Contains(err.Error(), "expired") {
		t.Fatalf("%v", err)
	}
	b := h.ask(subject(1))
	if b.ID == a.ID {
		t.Fatal("an expired question was not asked anew")
	}
	h.decide(b.ID, true)
	h.now = h.now.Add(approvals.GrantTTL - time.Second)
	h.state(b.ID, approvals.Granted)
	h.now = h.now.Add(time.Second)
	h.take(subject(1), false)
	h.state(b.ID, approvals.Expired)
}

func TestADenialStands(t *testing.T) {
	h := open(t)
	a := h.ask(subject(1))
	h.decide(a.ID, true)
	if d := h.decide(a.ID, false); d.State != approvals.Denied || d.By != "ann" || d.Note != "because" {
		t.Fatalf("%+v", d)
	}
	h.take(subject(1), false)
	if again := h.ask(subject(1)); again.ID != a.ID || again.State != approvals.Denied {
		t.Fatalf("asked again after a no: %+v", again)
	}
	if _, err := h.book.Decide(ctx, a.ID, approvals.Decision{Grant: true}); world.KindOf(err) != world.KindBadRequest {
		t.Fatalf("%v", err)
	}
	for _, bad := range []approvals.Decision{{Note: strings.Repeat("x", approvals.MaxNote+1)}, {Note: "\xff"}, {By: "\xff"}, {Seconds: -1}, {Seconds: int64(approvals.MaxGrantTTL/time.Second) + 1}} {
		b := h.ask(subject(2))
		if _, err := h.book.Decide(ctx, b.ID, bad); world.KindOf(err) != world.KindBadRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := h.book.Decide(ctx, "0000000000000000", approvals.Decision{}); world.KindOf(err) != world.KindNotFound {
		t.Fatalf("%v", err)
	}
}

// TestTheBookIsBounded: what is open is bounded, what is over is forgotten by the newest
// book, and earlier books stand.
func TestTheBookIsBounded(t *testing.T) {
	h := open(t)
	var first approvals.Approval
	for i := range approvals.MaxEpisodeOpen {
		a := h.ask(subject(i))
		if i == 0 {
			first = a
		}
	}
	if _, err := h.book.Ask(ctx, subject(99)); world.KindOf(err) != world.KindCapacity {
		t.Fatalf("%v", err)
	}
	h.decide(first.ID, false)
	h.ask(subject(99))
	for i := range approvals.MaxEnded + 1 {
		h.now = h.now.Add(approvals.PendingTTL + time.Second)
		h.ask(subject(1000 + i))
	}
	all, err := h.book.List(ctx)
	if err != nil || len(all) > approvals.MaxEnded+1 {
		t.Fatalf("%d, %v", len(all), err)
	}
	if _, err := h.book.Find(ctx, first.ID); world.KindOf(err) != world.KindNotFound {
		t.Fatalf("%v", err)
	}
	head, err := h.s.RegistryHead(ctx, world.ApprovalRegistry)
	if err != nil {
		t.Fatal(err)
	}
	moves := int64(0)
	for ref := head.Head; !ref.IsNone(); moves++ {
		o, err := h.s.Object(ctx, ref)
		if err != nil || o.SemanticID != world.SemApprovals {
			t.Fatalf("%+v, %v", o.ObjectMeta, err)
		}
		var k struct{ Previous world.Ref }
		if err := hashref.DecodeKnown([]byte(strings.Replace(string(o.Payload), `"previous"`, `"Previous"`, 1)), &k); err != nil {
			t.Fatal(err)
		}
		ref = k.Previous
	}
	if moves != head.Revision {
		t.Fatalf("%d books stand, the head moved %d times", moves, head.Revision)
	}
}

// TestOneTakerWins: of many who want to use one approval, one does.
func TestOneTakerWins(t *testing.T) {
	h := open(t)
	h.decide(h.ask(subject(1)).ID, true)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 12 {
		wg.Go(func() {
			ok, err := h.book.Take(ctx, subject(1), world.InvocationID(fmt.Sprint("a2a:ep:", i)))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if ok {
				won++
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Fatalf("%d used it", won)
	}
}
