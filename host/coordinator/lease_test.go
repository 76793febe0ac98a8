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

// turns is a store that two daemons share, each of which has an episode alone.
type turns struct {
	*faultStore
	turn    chan struct{}
	waiting chan struct{} // gets a token when one begins to wait
}

func (s *turns) TakeEpisode(ctx context.Context, episode string) (store.Lease, error) {
	select {
	case s.turn <- struct{}{}:
		return store.Lease{Episode: episode, Fence: 1}, nil
	default:
		s.waiting <- struct{}{}
	}
	select {
	case s.turn <- struct{}{}:
		return store.Lease{Episode: episode, Fence: 1}, nil
	case <-ctx.Done():
		return store.Lease{}, world.Wrap(world.KindTimeout, "test", context.Cause(ctx))
	}
}

func (s *turns) GiveEpisode(store.Lease) { <-s.turn }

// TestOneCallOfTwoDaemons sends one call to two daemons at once: it is made once, and both tell
// what became of it.
func TestOneCallOfTwoDaemons(t *testing.T) {
	for _, c := range []struct {
		name   string
		intent bool // the second comes when the first has intended its effect already
		dies   bool // the first never commits
	}{{"before its effect", false, false}, {"during its effect", true, false}, {"and the first is no more", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			both := &turns{f.events, make(chan struct{}, 1), make(chan struct{})}
			entered, goOn := make(chan struct{}), make(chan struct{})
			at := "call.planned"
			if c.intent {
				at = "effect.intended"
			}
			daemon := func(pause func(string)) *coordinator.Coordinator {
				handlers, err := broker.Serve(f.doer)
				if err != nil {
					t.Fatal(err)
				}
				now := func() time.Time { return f.now }
				return coordinator.New(coordinator.Config{Store: both, Registry: f.reg, Engines: f.engines, Pause: pause,
					Broker: &broker.Broker{Store: both, Approvals: f.book, Handlers: handlers, Now: now, Logf: t.Logf}})
			}
			first := daemon(func(point string) {
				if point == at {
					entered <- struct{}{}
					<-goOn
				}
			})
			second := daemon(nil)
			f.genesis()
			f.publish("doit", planned, do, do)
			if c.dies {
				f.events.append = func(context.Context, store.Append) (store.Committed, error) {
					return store.Committed{}, world.Errorf(world.KindStoreFull, "test", "full")
				}
			}
			s := f.session("Test.Do=s:9")
			type end struct {
				res coordinator.Result
				err error
			}
			call := func(d *coordinator.Coordinator) chan end {
				got := make(chan end, 1)
				go func() {
					res, err := d.Invoke(context.Background(), coordinator.Call{Surface: world.SurfaceTasks, Session: s, Skill: "doit", Task: "t", Args: []byte("{}")})
					got <- end{res, err}
				}()
				return got
			}
			one := call(first)
			<-entered
			two := call(second)
			select {
			case <-both.waiting:
				close(goOn)
			case b := <-two:
				close(goOn)
				t.Fatalf("it did not wait for the first: %+v", b)
			}
			a, b := <-one, <-two
			if len(f.doer.done) != 1 || f.spent() != 1 || len(both.turn) != 0 {
				t.Errorf("done %v, spent %d, %d not given back", f.doer.done, f.spent(), len(both.turn))
			}
			if c.dies {
				if told, want := wantUnrecorded(t, b.err), wantUnrecorded(t, a.err); len(told.Refs) != 1 || told.Refs[0] != want.Refs[0] || f.entries() != 1 {
					t.Errorf("%+v, %+v, %d entries", told, want, f.entries())
				}
				return
			}
			if a.err != nil || b.err != nil || !b.res.Replayed || b.res.Entry != a.res.Entry || string(b.res.Output) != string(a.res.Output) || f.entries() != 2 {
				t.Errorf("%+v\n%+v", a, b)
			}
		})
	}
}
