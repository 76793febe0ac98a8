package daemon

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// fakeConn is told apart by its address, and knows whether it was closed.
type fakeConn struct {
	net.Conn
	name   string
	closed bool
}

func (f *fakeConn) Close() error { f.closed = true; return nil }

// TestTooManyConnections: the one that rests longest makes room, one at work never does, and
// where all work the newest goes.
func TestTooManyConnections(t *testing.T) {
	const (
		opens = iota
		works
		rests
		ends
	)
	states := []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateClosed}
	type step struct {
		what int
		name string
	}
	for _, tt := range []struct {
		name   string
		steps  []step
		closed string // names, in order of the alphabet
		open   int
	}{
		{"room", []step{{opens, "a"}, {opens, "b"}, {opens, "c"}}, "", 3},
		{"the oldest that said nothing", []step{{opens, "a"}, {opens, "b"}, {opens, "c"}, {opens, "d"}}, "a", 3},
		{"not one at work", []step{{opens, "a"}, {works, "a"}, {opens, "b"}, {opens, "c"}, {opens, "d"}}, "b", 3},
		{"who rested later stays", []step{{opens, "a"}, {works, "a"}, {opens, "b"}, {rests, "a"}, {opens, "c"}, {opens, "d"}}, "b", 3},
		{"all work", []step{{opens, "a"}, {works, "a"}, {opens, "b"}, {works, "b"}, {opens, "c"}, {works, "c"}, {opens, "d"}}, "d", 3},
		{"who has gone makes room", []step{{opens, "a"}, {opens, "b"}, {opens, "c"}, {ends, "b"}, {opens, "d"}}, "", 3},
		{"given up in the moment it speaks", []step{{opens, "a"}, {opens, "b"}, {opens, "c"}, {opens, "d"}, {works, "a"}, {ends, "a"}}, "a", 3},
		{"all have gone", []step{{opens, "a"}, {works, "a"}, {opens, "b"}, {ends, "a"}, {ends, "b"}}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shed := 0
			c := newConns(3, func() { shed++ })
			all := map[string]*fakeConn{}
			for _, s := range tt.steps {
				if all[s.name] == nil {
					all[s.name] = &fakeConn{name: s.name}
				}
				c.state(all[s.name], states[s.what])
			}
			closed := ""
			for _, name := range []string{"a", "b", "c", "d"} {
				if f := all[name]; f != nil && f.closed {
					closed += name
				}
			}
			if closed != tt.closed || c.count() != tt.open || shed != len(tt.closed) {
				t.Errorf("closed %q, want %q; %d open, want %d; %d told", closed, tt.closed, c.count(), tt.open, shed)
			}
			if working := len(c.open) - c.resting.Len(); working < 0 {
				t.Errorf("%d rest of %d", c.resting.Len(), len(c.open))
			}
		})
	}
}

// TestConnectionsLeaveDescriptors: a quarter of what a process may have is for other things.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	for limit, want := range map[uint64]int{0: MaxConns, 1: 1, 1024: 768, 20_000: 15_000, 1 << 20: MaxConns, 1 << 63: MaxConns} {
		if got := mostConns(limit); got != want {
			t.Errorf("of %d descriptors %d are for connections, want %d", limit, got, want)
		}
	}
}

// piped hands out connections that are in memory, so that time can be the test's.
type piped struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p piped) Close() error   { close(p.closed); return nil }
func (p piped) Addr() net.Addr { return &net.TCPAddr{} }

// TestConnectionsEnd: one that says nothing, or not all, ends with the time that headers
// have; one that has nothing more to ask ends later; an answer that nobody takes ends too.
func TestConnectionsEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		say  string
		read bool // the answer
		want time.Duration
	}{
		{"says nothing", "", false, HeaderTimeout},
		{"half of the headers", "GET / HTTP/1.1\r\nHost: localhost\r\n", false, HeaderTimeout},
		{"asked once", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", true, IdleTimeout},
		{"takes no answer", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", false, WriteTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answered") })
				bound := newConns(MaxConns, func() { t.Error("shed") })
				srv := server(&guard{next: answers, body: BodyTimeout, write: WriteTimeout}, bound)
				l := piped{make(chan net.Conn), make(chan struct{})}
				served := make(chan error, 1)
				go func() { served <- srv.Serve(l) }()
				ours, theirs := net.Pipe()
				defer ours.Close()
				begun := time.Now()
				l.conns <- theirs
				if _, err := io.WriteString(ours, tt.say); err != nil {
					t.Fatal(err)
				}
				if tt.read {
					resp, err := http.ReadResponse(bufio.NewReader(ours), nil)
					if err != nil {
						t.Fatal(err)
					}
					if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "answered" {
						t.Fatalf("%q, %v", text, err)
					}
				}
				// Nobody reads until the time has come: what is there then is the end.
				time.Sleep(tt.want - time.Second)
				if bound.count() != 1 {
					t.Errorf("it ended before %v", tt.want)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if bound.count() != 0 {
					t.Errorf("it did not end after %v", time.Since(begun))
				}
				if err := srv.Close(); err != nil {
					t.Error(err)
				}
				<-served
			})
		})
	}
}
