package sqlstore

import (
	"context"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Bounds of what is kept in memory.
const (
	hotSessions   = 4096
	hotRegistries = 64
)

// hot is what every call asks for, kept in memory where nobody but this process's writer
// can change it: registry heads and sessions. A row is proven when it is read into
// it. What is kept is of a generation; the writer begins a new one when a batch that
// touches registries or sessions is durable, and before it answers that batch, so whoever
// begins to read after an answer finds nothing older than it.
type hot struct {
	on         atomic.Bool // until the store is closed, if its backend is exclusive
	generation atomic.Int64
	sessions   *lru.Cache[world.Ref, kept[world.Session]]
	registries *lru.Cache[string, kept[store.RegistryHead]]
}

// kept is a value and the generation that was current before it was read.
type kept[T any] struct {
	value      T
	generation int64
}

func newHot(on bool) *hot {
	h := &hot{}
	h.on.Store(on)
	h.sessions, _ = lru.New[world.Ref, kept[world.Session]](hotSessions)       // its error is
	h.registries, _ = lru.New[string, kept[store.RegistryHead]](hotRegistries) // for a size below 1
	return h
}

// landed takes over what a durable batch left.
func (h *hot) landed(t *txn) {
	if t.control {
		h.generation.Add(1)
	}
}

// forget drops everything: what is durable is not known.
func (h *hot) forget() {
	h.generation.Add(1)
}

// through reads a value from memory, or by read, and then keeps it.
func through[K comparable, T any](ctx context.Context, h *hot, cache *lru.Cache[K, kept[T]], key K, read func() (T, error)) (T, error) {
	if !h.on.Load() {
		return read()
	}
	now := h.generation.Load()
	if k, ok := cache.Get(key); ok && k.generation == now && ctx.Err() == nil {
		return k.value, nil
	}
	v, err := read()
	if err == nil {
		cache.Add(key, kept[T]{v, now})
	}
	return v, err
}
