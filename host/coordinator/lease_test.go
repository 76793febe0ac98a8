package coordinator_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// leased is the real store, shared with a daemon that takes the episode away.
type leased struct {
	*faultStore
	mu          sync.Mutex
	fence       int64
	taken, open int
	lost        bool
	busy        bool // another daemon has the episode, and keeps it
}

func (l *leased) TakeEpisode(ctx context.Context, episode string) (store.Lease, error) {
	if l.busy {
		<-ctx.Done()
		return store.Lease{}, world.Wrap(world.KindTimeout, "test", context.Cause(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fence++
	l.taken++
	l.open++
	return store.Lease{Episode: episode, Fence: l.fence}, nil
}

func (l *leased) GiveEpisode(store.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// held is what the writing transaction would say.
func (l *leased) held(of store.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.Fence != l.fence || of.Episode != "ep" || l.lost {
		return world.Errorf(world.KindCapacity, "test", "the episode was given to another daemon meanwhile")
	}
	return nil
}

func (l *leased) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

// newLeased is a fixture whose store is shared.
func newLeased(t *testing.T) (*fixture, *leased) {
	f := newFixture(t)
	l := &leased{faultStore: f.events}
	f.events.intend = func(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
		if err := l.held(i.Lease); err != nil {
			return store.Debit{}, err
		}
		return f.store.IntendEffect(ctx, i)
	}
	f.events.append = func(ctx context.Context, a store.Append) (store.Committed, error) {
		if a.Lease == (store.Lease{}) {
			return f.store.Append(ctx, a) // a pure call has none
		}
		if err := l.held(a.Lease); err != nil {
			return store.Committed{}, err
		}
		return f.store.Append(ctx, a)
	}
	handlers, err := broker.Serve(f.doer)
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return f.now }
	f.coord = coordinator.New(coordinator.Config{Store: l, Registry: f.reg, Engines: f.engines,
		Broker: &broker.Broker{Store: l, Approvals: f.book, Handlers: handlers, Now: now, Logf: t.Logf}})
	f.genesis()
	f.publish("echo", echo, do)
	f.publish("doit", planned, do, do)
	return f, l
}

// TestLostEpisode takes the episode of a call away at each of its steps: nothing of it becomes an
// entry, and what was done is accounted for.
func TestLostEpisode(t *testing.T) {
	t.Run("it is kept", func(t *testing.T) {
		f, l := newLeased(t)
		s := f.session("Test.Do=s:9")
		if _, err := f.call("doit", "t", "{}", s); err != nil {
			t.Fatal(err)
		}
		if _, err := f.call("echo", "p", "{}", s); err != nil {
			t.Fatal(err)
		}
		if l.taken != 1 || l.open != 0 {
			t.Fatalf("taken %d times, %d not given back", l.taken, l.open)
		}
	})
	t.Run("before the intent", func(t *testing.T) {
		f, l := newLeased(t)
		l.lose()
		_, err := f.call("doit", "t", "{}", f.session("Test.Do=s:9"))
		wantKind(t, err, world.KindCapacity)
		if n := len(f.doer.done); n != 0 || f.spent() != 0 || f.entries() != 1 || l.open != 0 {
			t.Fatalf("%d effects, spent %d, %d entries, %d not given back", n, f.spent(), f.entries(), l.open)
		}
	})
	t.Run("while the effect is done", func(t *testing.T) {
		f, l := newLeased(t)
		f.doer.act = func(context.Context, broker.Request) { l.lose() }
		_, err := f.call("doit", "t", "{}", f.session("Test.Do=s:9"))
		u := wantUnrecorded(t, err)
		inv, jerr := f.store.Invocation(context.Background(), world.AgentInvocation("ep", "t"))
		if jerr != nil {
			t.Fatal(jerr)
		}
		if inv.State != store.StateOpen || len(inv.Effects) != 1 || inv.Effects[0].Record.IsNone() || len(u.Refs) != 1 || u.Refs[0] != inv.Effects[0].Record {
			t.Fatalf("%+v, told %v", inv, u.Refs)
		}
		if f.entries() != 1 || f.spent() != 1 || l.open != 0 {
			t.Fatalf("%d entries, spent %d, %d not given back", f.entries(), f.spent(), l.open)
		}
	})
	t.Run("another daemon keeps it", func(t *testing.T) {
		f, l := newLeased(t)
		l.busy = true
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := f.coord.Invoke(ctx, coordinator.Call{Surface: world.SurfaceA2A, Session: f.session("Test.Do=s:9"), Skill: "doit", Task: "t", Args: []byte("{}")})
		wantKind(t, err, world.KindDeadline)
		if len(f.doer.done) != 0 || f.entries() != 1 {
			t.Fatalf("%v, %d entries", f.doer.done, f.entries())
		}
	})
}
