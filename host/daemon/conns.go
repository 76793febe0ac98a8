package daemon

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// conns bounds the connections to the listener. One too many costs the one that has had
// nothing to do for longest its place; where all have something to do, it is the newest. So
// those who connect and say nothing keep nobody out.
type conns struct {
	most int
	// shed is told of a connection that was closed for another.
	shed func()

	mu      sync.Mutex
	open    map[net.Conn]*list.Element // nil while a request is under way on it
	resting list.List                  // of net.Conn: no request yet, or none any more; oldest first
}

func newConns(most int, shed func()) *conns {
	return &conns{most: most, shed: shed, open: make(map[net.Conn]*list.Element)}
}

// state is http.Server's ConnState.
func (c *conns) state(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateIdle:
		c.rest(conn)
	case http.StateActive:
		c.work(conn)
	case http.StateClosed, http.StateHijacked:
		c.gone(conn)
	}
}

func (c *conns) rest(conn net.Conn) {
	c.mu.Lock()
	if at := c.open[conn]; at != nil {
		c.resting.Remove(at)
	}
	c.open[conn] = c.resting.PushBack(conn)
	var victim net.Conn
	if len(c.open) > c.most {
		// There is one: what was just put there, if nothing else.
		victim = c.resting.Remove(c.resting.Front()).(net.Conn)
		delete(c.open, victim)
	}
	c.mu.Unlock()
	if victim != nil {
		c.shed()
		victim.Close() // its own goroutine then finds it closed, and ends
	}
}

func (c *conns) work(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.open[conn]
	if !known {
		return // it was given up in this moment
	}
	if at != nil {
		c.resting.Remove(at)
	}
	c.open[conn] = nil
}

func (c *conns) gone(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.open[conn]; at != nil {
		c.resting.Remove(at)
	}
	delete(c.open, conn)
}

// count is how many are open.
func (c *conns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// mostConns is how many connections there may be where a process may have so many
// descriptors; 0 is no limit that is known. A part of them is kept for the store, for files
// and for programs that are started.
func mostConns(descriptors uint64) int {
	if descriptors == 0 || descriptors/4*3 > MaxConns {
		return MaxConns
	}
	return max(int(descriptors/4*3), 1)
}
