package worker

import (
	"container/list"
	"sync"

	"ailang.dev/world/host/world"
)

// Cache keeps what was made of a source under the source's hash, within a number of
// entries and of bytes of source, the least recently used going first.
type Cache[T any] struct {
	entries, bytes int
	drop           func(T)

	mu    sync.Mutex
	order *list.List // of *cached[T], most recently used in front
	byRef map[world.Ref]*list.Element
	size  int
}

type cached[T any] struct {
	ref   world.Ref
	value T
	size  int
}

// NewCache makes an empty cache. drop, unless nil, is called with what goes.
func NewCache[T any](entries, bytes int, drop func(T)) *Cache[T] {
	return &Cache[T]{entries: entries, bytes: bytes, drop: drop, order: list.New(), byRef: make(map[world.Ref]*list.Element)}
}

// Get gives what is kept under a hash.
func (c *Cache[T]) Get(ref world.Ref) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byRef[ref]
	if el == nil {
		return value, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*cached[T]).value, true
}

// Put keeps a value for a source of so many bytes, unless there is one.
func (c *Cache[T]) Put(ref world.Ref, value T, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRef[ref] != nil {
		return
	}
	c.byRef[ref] = c.order.PushFront(&cached[T]{ref, value, size})
	c.size += size
	for c.order.Len() > c.entries || c.size > c.bytes {
		old := c.order.Remove(c.order.Back()).(*cached[T])
		delete(c.byRef, old.ref)
		c.size -= old.size
		if c.drop != nil {
			c.drop(old.value)
		}
	}
}

// Len is how many are kept, and for how many bytes of source.
func (c *Cache[T]) Len() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len(), c.size
}
