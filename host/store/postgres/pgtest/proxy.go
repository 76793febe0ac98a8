package pgtest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// Where a Proxy cuts a connection.
type Where int

// The places, of one way there and back.
const (
	Unsent    Where = iota // nothing of what the client sent arrives
	Half                   // the first half of it does
	Unnoticed              // nothing arrives, and the server is not told that the client is gone
	Unread                 // the server does all of it, and the client is never told
)

// Proxy stands between a client and a server, without TLS, and cuts connections where it is
// told. What a client sends up to a Sync is one way there; the answer up to ReadyForQuery is
// the way back.
type Proxy struct {
	l        net.Listener
	upstream string

	mu     sync.Mutex
	after  int // ways there until the cut; 0 is no cut
	where  Where
	refuse bool
	cuts   int
	ways   int
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// NewProxy stands before a server's address until the test ends.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, upstream: upstream, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.CutAll()
		p.wg.Wait()
	})
	return p
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Cut cuts the connection that makes the n-th way there from now on.
func (p *Proxy) Cut(n int, where Where) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after, p.where = n, where
}

// Cuts is how many there were.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Ways is how many ways there were handed on.
func (p *Proxy) Ways() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ways
}

// Refuse has new connections closed at once, or no more.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = yes
}

// Redirect has new connections go to another server.
func (p *Proxy) Redirect(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// CutAll cuts every connection that there is.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse, upstream := p.refuse, p.upstream
		p.mu.Unlock()
		if refuse {
			c.Close()
			continue
		}
		s, err := net.Dial("tcp", upstream)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[s] = true, true
		p.mu.Unlock()
		w := &wire{p: p, client: c, server: s}
		p.wg.Go(w.there)
		p.wg.Go(w.back)
	}
}

// wire is one connection.
type wire struct {
	p              *Proxy
	client, server net.Conn
	mu             sync.Mutex
	deaf           bool // the answer is not handed on
}

var errCut = errors.New("cut")

// there hands on what the client sends, a way at a time.
func (w *wire) there() {
	held := false
	defer func() {
		w.client.Close()
		if !held {
			w.server.Close()
		}
	}()
	var way []byte
	startup := true
	for {
		frame, err := readFrame(w.client, startup)
		if err != nil {
			return
		}
		way = append(way, frame...)
		if !startup && frame[0] != 'S' && frame[0] != 'Q' && frame[0] != 'p' && frame[0] != 'X' {
			continue
		}
		whole := !startup && (frame[0] == 'S' || frame[0] == 'Q')
		startup = false
		if whole {
			if where, cut := w.p.due(); cut {
				switch where {
				case Half:
					w.server.Write(way[:len(way)/2])
					return
				case Unnoticed:
					held = true // until the test ends, or the server ends it
					return
				case Unsent:
					return
				}
				w.mu.Lock()
				w.deaf = true
				w.mu.Unlock()
				w.server.Write(way)
				held = true // back closes it when the server is done
				io.Copy(io.Discard, w.client)
				return
			}
		}
		if _, err := w.server.Write(way); err != nil {
			return
		}
		way = way[:0]
	}
}

// due tells whether this way is the one to be cut.
func (p *Proxy) due() (Where, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ways++
	if p.after == 0 {
		return 0, false
	}
	p.after--
	if p.after > 0 {
		return 0, false
	}
	p.cuts++
	return p.where, true
}

// back hands on what the server answers.
func (w *wire) back() {
	for {
		frame, err := readFrame(w.server, false)
		if err == nil {
			w.mu.Lock()
			deaf := w.deaf
			w.mu.Unlock()
			if !deaf {
				_, err = w.client.Write(frame)
				if err != nil {
					err = nil // the client is gone; what the server does is its own
				}
			} else if frame[0] == 'Z' {
				err = errCut
			}
		}
		if err != nil {
			w.client.Close()
			w.server.Close()
			return
		}
	}
}

const maxFrame = 64 << 20

// readFrame reads one message; the first of a connection has no type.
func readFrame(r io.Reader, startup bool) ([]byte, error) {
	head := make([]byte, 5)
	at := 1
	if startup {
		head, at = make([]byte, 4), 0
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[at:])) - 4
	if n < 0 || n > maxFrame {
		return nil, errors.New("no message of this protocol")
	}
	frame := append(head, make([]byte, n)...)
	_, err := io.ReadFull(r, frame[len(head):])
	return frame, err
}
