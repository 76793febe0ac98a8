package starlark

import (
	"container/list"
	"sync"

	star "go.starlark.net/starlark"

	"ailang.dev/world/host/world"
)

// Bounds of the cache of loaded sources, in each process.
const (
	cacheEntries = 256
	cacheBytes   = 16 << 20 // of source text
)

// cache keeps the main of each loaded source under the source's hash, the least recently
// used going first.
type cache struct {
	mu    sync.Mutex
	order *list.List // of *cached, most recently used in front
	byRef map[world.Ref]*list.Element
	bytes int
}

type cached struct {
	ref  world.Ref
	main *star.Function
	size int
}

func newCache() *cache {
	return &cache{order: list.New(), byRef: make(map[world.Ref]*list.Element)}
}

func (c *cache) get(ref world.Ref) *star.Function {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byRef[ref]
	if el == nil {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(*cached).main
}

func (c *cache) put(ref world.Ref, main *star.Function, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRef[ref] != nil {
		return
	}
	c.byRef[ref] = c.order.PushFront(&cached{ref, main, size})
	c.bytes += size
	for c.order.Len() > cacheEntries || c.bytes > cacheBytes {
		old := c.order.Remove(c.order.Back()).(*cached)
		delete(c.byRef, old.ref)
		c.bytes -= old.size
	}
}
