package coordinator

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"ailang.dev/world/host/world"
)

// writerWeight is more than all readers of an episode together can hold.
const writerWeight = 1 << 30

// gates orders the effectful calls of each episode: those that write run alone, those that
// only read share, first come first served.
type gates struct {
	mu sync.Mutex
	m  map[string]*gate // episodes that someone holds or waits for
}

type gate struct {
	sem     *semaphore.Weighted
	users   int // holders and waiters, guarded by gates.mu
	waiting int // guarded by gates.mu
}

// enter waits for the episode. At most MaxWaiting calls wait for one; one more is
// KindCapacity at once. The release must be called once.
func (g *gates) enter(ctx context.Context, episode string, alone bool) (release func(), err error) {
	weight := int64(1)
	if alone {
		weight = writerWeight
	}
	g.mu.Lock()
	e := g.m[episode]
	if e == nil {
		if g.m == nil {
			g.m = make(map[string]*gate)
		}
		e = &gate{sem: semaphore.NewWeighted(writerWeight)}
		g.m[episode] = e
	}
	e.users++
	leave := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if e.users--; e.users == 0 {
			delete(g.m, episode)
		}
	}
	if e.sem.TryAcquire(weight) {
		g.mu.Unlock()
		return func() { e.sem.Release(weight); leave() }, nil
	}
	if e.waiting == MaxWaiting {
		g.mu.Unlock()
		leave()
		return nil, world.Errorf(world.KindCapacity, "coordinator.enter", "%d calls already wait for episode %s", MaxWaiting, episode)
	}
	e.waiting++
	g.mu.Unlock()
	err = e.sem.Acquire(ctx, weight)
	g.mu.Lock()
	e.waiting--
	g.mu.Unlock()
	if err != nil {
		leave()
		return nil, ended(ctx, "coordinator.enter", err)
	}
	return func() { e.sem.Release(weight); leave() }, nil
}

// flights are the invocation ids that run now.
type flights struct {
	mu sync.Mutex
	m  map[world.InvocationID]bool
}

// claim takes an id; ok is false while another call has it.
func (f *flights) claim(id world.InvocationID) (release func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m[id] {
		return nil, false
	}
	if f.m == nil {
		f.m = make(map[world.InvocationID]bool)
	}
	f.m[id] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.m, id)
	}, true
}
