package capsule

import (
	"context"
	"sync"
)

// MaxSubprocesses is how many subprocesses that are started for one run each may exist at
// once in a daemon.
const MaxSubprocesses = 8

// Slots bounds how many of something there are at once. All that start subprocesses for a
// run share one. Nobody asks for a second slot while holding one.
type Slots struct{ free chan struct{} }

// NewSlots makes n slots, all free.
func NewSlots(n int) *Slots { return &Slots{free: make(chan struct{}, n)} }

// Take waits for a slot within ctx, whose error it gives if that ends first. The slot is
// the caller's until it calls release, which may be called more than once.
func (s *Slots) Take(ctx context.Context) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case s.free <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return sync.OnceFunc(func() { <-s.free }), nil
}
