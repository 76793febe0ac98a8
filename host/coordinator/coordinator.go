package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// sourceCache is how many transition sources are kept in memory.
const sourceCache = 64

// callStore is what the coordinator needs of the store.
type callStore interface {
	Head(ctx context.Context) (store.Head, error)
	Object(ctx context.Context, ref world.Ref) (world.Object, error)
	Entry(ctx context.Context, index int64) (world.Entry, error)
	Invocation(ctx context.Context, id world.InvocationID) (store.Invocation, error)
	Append(ctx context.Context, a store.Append) (store.Committed, error)
}

// leaser is what a store also is where several daemons write; see store.Shared.
type leaser interface {
	TakeEpisode(ctx context.Context, episode string) (store.Lease, error)
	GiveEpisode(l store.Lease)
}

// viewer is what the coordinator needs of the registry.
type viewer interface {
	View(ctx context.Context, s world.Session) ([]*world.Descriptor, error)
}

// Config is what a coordinator is made of.
type Config struct {
	Store    callStore
	Registry viewer
	Engines  capsule.Set
	Broker   *broker.Broker
	// Pause, unless nil, is called at each numbered step of a call with its name; tests
	// stage races and kills there.
	Pause func(step string)
	// Observe, unless nil, sees each call from inside.
	Observe Observer
}

// Coordinator runs calls. It is safe for concurrent use.
type Coordinator struct {
	cfg      Config
	sources  *lru.Cache[world.Ref, capsule.Source]
	episodes gates
	flights  flights
	turns    turns
	running  sync.WaitGroup // calls, and handlers that were left behind
	begun    atomic.Bool    // there is a genesis
}

// Wait returns when no call runs any more, or with ctx's error when that ends first. No
// call may be begun while it waits.
func (c *Coordinator) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// New makes a coordinator.
func New(cfg Config) *Coordinator {
	sources, err := lru.New[world.Ref, capsule.Source](sourceCache)
	if err != nil {
		panic(err) // only for a size below 1
	}
	if cfg.Pause == nil {
		cfg.Pause = func(string) {}
	}
	return &Coordinator{cfg: cfg, sources: sources, turns: newTurns()}
}

func (c *Coordinator) source(ctx context.Context, ref world.Ref) (capsule.Source, error) {
	if src, ok := c.sources.Get(ref); ok {
		return src, nil
	}
	obj, err := c.cfg.Store.Object(ctx, ref)
	if err != nil {
		return capsule.Source{}, fmt.Errorf("transition source %s: %w", ref, err)
	}
	src := capsule.Source{Ref: ref, Text: obj.Payload}
	c.sources.Add(ref, src)
	return src, nil
}

// ended gives an error the kind of the context's end, if that is what happened: a wait
// that ended tells the caller more than the place where it was noticed.
func ended(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &world.Error{Op: op, Kind: world.KindDeadline, Err: err}
	case errors.Is(ctx.Err(), context.Canceled):
		return &world.Error{Op: op, Kind: world.KindCanceled, Err: err}
	}
	return err
}
