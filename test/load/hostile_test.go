package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/tasks"
)

// How many of each kind come at once.
const (
	tricklers = 50
	deaf      = 4 // of each request
	vanishing = 50
)

// fillTimeout is how long it may take until an answer can not be written.
const fillTimeout = 20 * time.Second

// slack is how much later than its bound something may come on a busy machine.
const slack = 8 * time.Second

// TestHostileConnections sends all kinds at once. Each is cut off within its bound, not
// before something was waited for, while an honest client is served; then nothing is left of
// them.
func TestHostileConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, 0)
	if err := s.warm(); err != nil {
		t.Fatal(err)
	}
	before := s.until("a quiet daemon", slack, func(st state) bool { return st.connections == 0 })
	end := s.honest()
	var wg sync.WaitGroup
	each := func(n int, do func(i int)) {
		for i := range n {
			wg.Go(func() { do(i) })
		}
	}
	each(tricklers, func(int) {
		s.trickle("headers", "GET /v1/health HTTP/1.1\r\nHost: "+s.addr+"\r\n", "X-More: and more\r\n", daemon.HeaderTimeout)
	})
	each(tricklers, func(int) { s.trickle("a request line", "", "G", daemon.HeaderTimeout) })
	bodies := []struct {
		path  string
		bound time.Duration
	}{
		{"/mcp/", surface.UnreadGrace + 20*time.Second}, {"/a2a/", surface.UnreadGrace + 20*time.Second}, {tasks.Path, surface.UnreadGrace + tasks.BodyDeadline},
		{"/v1/commit", rest.BodyTimeout}, {"/v1/health", daemon.BodyTimeout}, {"/workbench", daemon.BodyTimeout}, {"/nowhere", daemon.BodyTimeout},
	}
	for _, b := range bodies {
		for _, length := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
			drip := "x"
			if strings.HasPrefix(length, "Transfer") {
				drip = "1\r\nx\r\n"
			}
			each(tricklers/10, func(int) { s.trickle("a body for "+b.path, s.head("POST", b.path)+length+"\r\n\r\n", drip, b.bound) })
		}
	}
	// What has an answer is asked for again and again, and nothing is read.
	text := strings.Repeat("deaf ", 600_000)
	echo := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tools_decho","arguments":{"text":"` + text + `"}}}`
	send := `{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"deaf-%d","metadata":{"skill_id":"tools.echo"},"message":{"parts":[{"type":"data","data":{"text":"` + text[:1_000_000] + `"}}]}}}`
	for i := range deaf {
		send := fmt.Sprintf(send, i)
		for _, request := range []string{
			s.head("GET", "/metrics") + "\r\n", s.head("GET", "/workbench") + "\r\n", s.head("GET", "/v1/log?from=0&limit=100") + "\r\n", s.head("GET", "/nowhere") + "\r\n",
			s.head("POST", "/mcp/") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(echo)) + echo,
			s.head("POST", "/a2a/") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(send)) + send,
		} {
			wg.Go(func() { s.neverRead(request) })
		}
	}
	each(vanishing, func(i int) { s.vanish(i) })
	wg.Wait()
	calls, worst := end()
	if t.Failed() {
		t.FailNow()
	}
	// Readers of the store that the crowd made it open stay open, up to their bound.
	after := s.until("nothing left of the hostile", slack, func(st state) bool {
		return st.connections == 0 && st.descriptors <= before.descriptors+32 && st.goroutines <= before.goroutines+tricklers/4 && st.heap+st.stacks <= before.heap+before.stacks+64<<20
	})
	t.Logf("an honest client was served %d times, within %v; before: %v; after: %v", calls, worst, before, after)
	if calls < 10 {
		t.Errorf("an honest client was served %d times only", calls)
	}
}

// warm makes what a daemon makes once: the store's connections for readers, caches.
func (s *served) warm() error {
	end := s.honest()
	var wg sync.WaitGroup
	errs := make([]error, 32)
	for i := range errs {
		wg.Go(func() {
			for _, path := range []string{"/workbench", "/v1/log?from=0&limit=100", "/metrics"} {
				resp, err := http.Get("http://" + s.addr + path)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					err = errors.Join(err, resp.Body.Close())
				}
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
	if calls, _ := end(); calls == 0 {
		errs = append(errs, errors.New("no call was answered"))
	}
	return errors.Join(errs...)
}

// trickle sends a beginning, and then a little again and again, until the daemon ends the
// connection. It must do so within bound, and not before a quarter of it.
func (s *served) trickle(what, beginning, drip string, bound time.Duration) {
	c, err := net.DialTimeout("tcp", s.addr, honestLimit)
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
		return
	}
	defer c.Close()
	begun := time.Now()
	closed := make(chan error, 1)
	go func() { // reads the answer, if there is one, to the end
		_, err := io.Copy(io.Discard, c)
		closed <- err
	}()
	if _, err := io.WriteString(c, beginning); err != nil {
		s.t.Errorf("%s: %v", what, err)
		return
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(bound + slack)
	defer late.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = io.WriteString(c, drip) // that it is closed is learned by reading
		case <-closed:
			if took := time.Since(begun); took < bound/4 {
				s.t.Errorf("%s: ended after %v, of %v", what, took, bound)
			}
			return
		case <-late.C:
			s.t.Errorf("%s: not ended after %v, of %v", what, time.Since(begun), bound)
			return
		}
	}
}

// neverRead asks again and again and never reads an answer. The daemon must give the
// connection up soon after an answer cannot be written any more.
func (s *served) neverRead(request string) {
	what, _, _ := strings.Cut(request, "\r\n")
	dialer := net.Dialer{Timeout: honestLimit, Control: func(_, _ string, raw syscall.RawConn) error {
		var serr error
		err := raw.Control(func(fd uintptr) { serr = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(err, serr)
	}}
	c, err := dialer.DialContext(s.t.Context(), "tcp", s.addr)
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
		return
	}
	defer c.Close()
	// Writing stops when the daemon reads no more, which is some time before it is stuck in an
	// answer, and fails when it has closed.
	if err := c.SetWriteDeadline(time.Now().Add(fillTimeout + surface.WriteTimeout)); err != nil {
		s.t.Errorf("%s: %v", what, err)
		return
	}
	begun := time.Now()
	for err == nil {
		_, err = io.WriteString(c, request)
	}
	if took := time.Since(begun); errors.Is(err, os.ErrDeadlineExceeded) || took < surface.WriteTimeout {
		s.t.Errorf("%s: who takes no answer was connected for %v: %v", what, took, err)
	}
}

// vanish leaves a connection whose other end is gone, or says nothing more: a peer without a
// farewell where the system lets that be made, a reset, and a half-closed one.
func (s *served) vanish(i int) {
	c, err := net.DialTimeout("tcp", s.addr, honestLimit)
	if err != nil {
		s.t.Errorf("vanishing: %v", err)
		return
	}
	tcp := c.(*net.TCPConn)
	_, err = io.WriteString(c, s.head("GET", "/v1/health")) // headers that end never
	switch i % 3 {
	case 0:
		// Without a farewell where that can be made; else the half of a request is all.
		if unseen(tcp) != nil {
			err = errors.Join(err, tcp.SetLinger(-1))
		}
	case 1:
		err = errors.Join(err, tcp.SetLinger(0)) // a reset
	case 2:
		err = errors.Join(err, tcp.CloseWrite())
		if _, cerr := io.Copy(io.Discard, c); cerr != nil && !errors.Is(cerr, syscall.ECONNRESET) {
			err = errors.Join(err, cerr)
		}
	}
	if err = errors.Join(err, c.Close()); err != nil {
		s.t.Errorf("vanishing: %v", err)
	}
}
