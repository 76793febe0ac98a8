package tasks

import (
	"context"

	"ailang.dev/world/host/world"
)

// owner is a user who has messages under way. One user takes no more than a part of what
// there is for all, so that slow calls of one do not shut out the others.
type owner struct {
	flights int           // messages under way
	slots   chan struct{} // calls that run
}

// enlist counts one more message of a user, unless there are too many. The lock is held.
func (h *Handler) enlist(episode string) bool {
	o := h.owners[episode]
	if o == nil {
		o = &owner{slots: make(chan struct{}, OwnRunning)}
		h.owners[episode] = o
	}
	if o.flights >= OwnFlights {
		return false
	}
	o.flights++
	return true
}

// dismiss counts one message less. The lock is held.
func (h *Handler) dismiss(episode string) {
	o := h.owners[episode]
	if o.flights--; o.flights == 0 {
		delete(h.owners, episode)
	}
}

// slotOf gives what takes one of the user's slots and then one of all, or waits for them as
// long as its ctx allows. The user has a message under way.
func (h *Handler) slotOf(episode string) func(ctx context.Context) (release func(), err error) {
	h.mu.Lock()
	own := h.owners[episode].slots
	h.mu.Unlock()
	return func(ctx context.Context) (func(), error) {
		for i, slots := range []chan struct{}{own, h.slots} {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				if i > 0 {
					<-own
				}
				return nil, world.Wrap(world.KindCapacity, "tasks.slot", ctx.Err())
			}
		}
		return func() { <-h.slots; <-own }, nil
	}
}
