package load

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// idlers is how many connections rest at once.
const idlers = 10_000

// room raises this process's limit of descriptors if it must and may, and tells how many
// connections the test can hold beside what it needs itself.
func room(t *testing.T) int {
	t.Helper()
	const own = 1500
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	// The daemon, which inherits it, keeps a quarter for other things.
	if need := uint64(idlers+own) * 4 / 3; r.Cur < need {
		more := syscall.Rlimit{Cur: need, Max: max(r.Max, need)}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more); err == nil {
			r = more
		}
	}
	n := min(idlers, int(r.Cur)*3/4-own)
	if n < idlers {
		t.Logf("%d idle connections instead of %d: a process may have %d descriptors here", n, idlers, r.Cur)
	}
	if n < 100 {
		t.Fatalf("with %d descriptors nothing can be tested", r.Cur)
	}
	return n
}

// TestTenThousandIdle: connections that asked something once and then rest, or that never
// say anything, keep no one out and cost little; when they are gone all is as before.
func TestTenThousandIdle(t *testing.T) {
	t.Parallel()
	n := room(t)
	s := serve(t, 0)
	if err := s.warm(); err != nil {
		t.Fatal(err)
	}
	before := s.until("a quiet daemon", slack, func(st state) bool { return st.connections == 0 })
	conns := s.rest(n)
	defer closeAll(conns)
	// All must be there at once, but for those that have said nothing for HeaderTimeout.
	during := s.until("all connected", slack, func(st state) bool { return st.connections >= float64(n)*9/10 })
	if during.shed > 0 {
		t.Errorf("%.0f were shed though there is room", during.shed)
	}
	end := s.honest()
	<-time.After(5 * time.Second)
	calls, worst := end()
	each := (during.resident - before.resident) / during.connections
	t.Logf("%d idle; an honest client was served %d times, within %v; %.1f KB each; before: %v; during: %v", n, calls, worst, each/1024, before, during)
	if calls < 5 {
		t.Errorf("an honest client was served %d times only", calls)
	}
	if each > 64<<10 {
		t.Errorf("an idle connection costs %.0f bytes", each)
	}
	closeAll(conns)
	// What is not used any more is given back when the collector runs next: work makes it.
	big := strings.Repeat("x", 2_000_000)
	client := &http.Client{Timeout: honestLimit}
	defer client.CloseIdleConnections()
	after := s.until("as before", 40*time.Second, func(st state) bool {
		if err := s.echo(client, big); err != nil {
			t.Fatal(err)
		}
		return st.connections <= 1 && st.descriptors <= before.descriptors+32 && st.goroutines <= before.goroutines+32 && st.heap+st.stacks <= before.heap+before.stacks+96<<20
	})
	t.Logf("after: %v", after)
}

// rest opens connections: nine of ten ask something and keep the connection, one says
// nothing at all.
func (s *served) rest(n int) []net.Conn {
	s.t.Helper()
	conns := make([]net.Conn, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	const hands = 16
	for h := range hands {
		wg.Go(func() {
			for i := h; i < n; i += hands {
				conns[i], errs[i] = s.restOne(i%10 != 0)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		closeAll(conns)
		text := err.Error()
		s.t.Fatalf("%.500s\n%s", text, s.stderr)
	}
	return conns
}

func (s *served) restOne(speaks bool) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", s.addr, honestLimit)
	if err != nil || !speaks {
		return c, err
	}
	if err := c.SetDeadline(time.Now().Add(honestLimit)); err != nil {
		return c, err
	}
	if _, err := io.WriteString(c, "GET /v1/health HTTP/1.1\r\nHost: "+s.addr+"\r\n\r\n"); err != nil {
		return c, err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 1024), nil)
	if err != nil {
		return c, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return c, errors.Join(err, resp.Body.Close(), c.SetDeadline(time.Time{}))
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}

// TestMoreThanThereIsRoomFor: a daemon that may have few descriptors gives up connections
// that rest, the oldest first, and never runs out: honest clients are served all the while,
// and it still opens files of its own.
func TestMoreThanThereIsRoomFor(t *testing.T) {
	t.Parallel()
	const limit, most = 256, 192
	s := serve(t, limit)
	if err := s.warm(); err != nil {
		t.Fatal(err)
	}
	end := s.honest()
	conns := s.rest(3 * most)
	defer closeAll(conns)
	st := s.until("no more than there is room for", slack, func(st state) bool { return st.connections <= most && st.shed >= most })
	calls, worst := end()
	t.Logf("an honest client was served %d times, within %v; %v, %.0f shed", calls, worst, st, st.shed)
	if st.descriptors >= limit {
		t.Errorf("%.0f descriptors of %d are in use", st.descriptors, limit)
	}
	if text := s.stderr.String(); strings.Contains(text, "too many open files") {
		t.Errorf("it ran out of descriptors: %s", text)
	}
	// The oldest was given up: its end can be read. The newest is still there.
	if err := ended(conns[1]); err != nil {
		t.Errorf("the oldest connection: %v", err)
	}
	if err := ended(conns[len(conns)-1]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the newest connection: %v", err)
	}
}

// ended is nil if the other side has closed a connection.
func ended(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err == nil {
		err = errors.New("something was said")
	}
	return err
}
