package rest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// short is a commit's deadline in these tests: long enough to reach the writer's queue on
// a busy machine, short enough to wait for.
const short = 300 * time.Millisecond

// gate is a hook that holds the writer once it is armed, until it is opened.
type gate struct {
	armed   chan struct{} // one token arms it
	reached chan struct{}
	open    chan struct{}
}

func newGate() *gate {
	return &gate{armed: make(chan struct{}, 1), reached: make(chan struct{}, 1), open: make(chan struct{})}
}

func (g *gate) hook() {
	select {
	case <-g.armed:
		g.reached <- struct{}{}
		<-g.open
	default:
	}
}

func TestCommitTimesOutInTheQueue(t *testing.T) {
	g := newGate()
	s := newServer(t, setup{
		hooks:  sqlstore.Hooks{BeforeTake: g.hook},
		config: func(c *rest.Config) { c.Limits.Commit = short },
	})
	const receipt = "/v1/receipts/rest:slow"
	c := commitAt(0).with("invocationId", "rest:slow")
	g.armed <- struct{}{}
	s.commit(c).want(t, 503, envelope("Timeout",
		"the commit ran out of time before its durable step; it was not committed and is safe to resend"))
	<-g.reached
	s.get(receipt).want(t, 200, `{"invocationId":"rest:slow","state":"not-started","resultRef":""}`)
	close(g.open)

	// Nothing of it is written later either: the next commit is the first.
	s.commit(commitAt(0).with("objects", []any{}).with("nextWorld.ref", ref("another"))).want(t, 200, selected("another"))
	s.get("/v1/log").want(t, 200, `{"items":[`+entryJSON(0)+`]}`)
	s.get("/v1/objects/"+ref(`{"n":0}`)).want(t, 404, envelope("NotFound", "object not found"))
	s.get(receipt).want(t, 200, `{"invocationId":"rest:slow","state":"not-started","resultRef":""}`)
}

func TestCommitTimesOutAfterItWasTaken(t *testing.T) {
	for name, hooks := range map[string]func(*gate) sqlstore.Hooks{
		"taken":         func(g *gate) sqlstore.Hooks { return sqlstore.Hooks{AfterTake: g.hook} },
		"before commit": func(g *gate) sqlstore.Hooks { return sqlstore.Hooks{BeforeCommit: g.hook} },
		"after commit":  func(g *gate) sqlstore.Hooks { return sqlstore.Hooks{AfterCommit: g.hook} },
		"before answer": func(g *gate) sqlstore.Hooks { return sqlstore.Hooks{BeforeAnswer: g.hook} },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			s := newServer(t, setup{
				hooks:  hooks(g),
				config: func(c *rest.Config) { c.Limits.Commit = short },
			})
			g.armed <- struct{}{}
			s.commit(commitAt(0)).want(t, 503, envelope("CommitUncertain",
				"the commit's outcome is unknown; reconcile via GET /v1/log/0 before any resend"))
			<-g.reached
			close(g.open)
			s.settle()
			// It landed: the log answers as the message said.
			s.get("/v1/log/0").want(t, 200, entryJSON(0))
			s.get("/v1/head").want(t, 200, ref("world 0"))
		})
	}
}

// settle returns once the writer has answered all that it had taken: a write of one's own
// comes after them.
func (s *server) settle() {
	s.t.Helper()
	if err := s.store.PutObjects(s.t.Context(), []world.Object{world.NewObject("settled/v1", "a test", []byte("settled"))}); err != nil {
		s.t.Fatal(err)
	}
}

// TestUncertainCommitIsReconciledByItsReceipt holds the second batch of a commit with an
// id, the one that carries the entry; the first carries the intent.
func TestUncertainCommitIsReconciledByItsReceipt(t *testing.T) {
	const receipt = "/v1/receipts/rest:lost"
	g := newGate()
	batches := 0
	s := newServer(t, setup{
		hooks: sqlstore.Hooks{AfterTake: func() {
			if len(g.armed) == 0 {
				return
			}
			if batches++; batches == 2 {
				g.hook()
			}
		}},
		config: func(c *rest.Config) { c.Limits.Commit = short },
	})
	c := commitAt(0).with("invocationId", "rest:lost")
	g.armed <- struct{}{}
	s.commit(c).want(t, 503, envelope("CommitUncertain",
		"the commit's outcome is unknown; reconcile via GET /v1/receipts/rest:lost before any resend"))
	<-g.reached
	// Not landed yet, and nobody can say whether it will.
	s.get(receipt).want(t, 200, `{"invocationId":"rest:lost","state":"indeterminate","resultRef":""}`)
	s.get("/v1/head").want(t, 404, envelope("NotFound", "no world head has been selected yet"))
	close(g.open)
	s.settle()
	s.get(receipt).want(t, 200, `{"invocationId":"rest:lost","state":"resolved","resultRef":"`+ref("world 0")+`"}`)
	before := s.state()
	s.commit(c).want(t, 200, selected("world 0"))
	s.unchanged(before)
}

func TestCommitDeadlineIsThreeSeconds(t *testing.T) {
	var left time.Duration
	s := newServer(t, setup{wrap: func(st store.Store) store.Store {
		return committing{st, func(ctx context.Context, c store.Commit) (store.Committed, error) {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			return store.Committed{World: c.NextWorld}, nil
		}}
	}})
	s.commit(commitAt(0)).want(t, 200, selected("world 0"))
	if left <= 2*time.Second || left > 3*time.Second {
		t.Errorf("the store had %v", left)
	}
}

func TestCredentialDeadline(t *testing.T) {
	var left time.Duration
	s := newServer(t, setup{config: func(c *rest.Config) {
		c.Limits.Credential = 50 * time.Millisecond
		c.Resolve = func(ctx context.Context, _ []string) (world.Session, error) {
			<-ctx.Done()
			return world.Session{}, world.Wrap(world.KindTimeout, "store.Session", ctx.Err())
		}
	}})
	s.commit(commitAt(0)).want(t, 503, envelope("Timeout", "the credential lookup ran out of time; nothing was done"))

	s = newServer(t, setup{config: func(c *rest.Config) {
		resolve := c.Resolve
		c.Resolve = func(ctx context.Context, lines []string) (world.Session, error) {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			return resolve(ctx, lines)
		}
	}})
	s.grow(1)
	if left <= 2*time.Second || left > 3*time.Second {
		t.Errorf("the look-up had %v", left)
	}
}

// patience is how long these tests wait for what must come.
const patience = 20 * time.Second

// conn is a connection on which a request is written by hand.
type conn struct {
	net.Conn
	s      *server
	method string
	path   string
}

// dial opens a connection and sends a request line, "POST /v1/commit", and its Host.
func (s *server) dial(line string) conn {
	s.t.Helper()
	c, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", strings.TrimPrefix(s.http.URL, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	method, path, _ := strings.Cut(line, " ")
	con := conn{c, s, method, path}
	con.send(line + " HTTP/1.1\r\nHost: x\r\n")
	return con
}

func (c conn) send(text string) {
	c.s.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.s.t.Fatal(err)
	}
}

func (c conn) bearer() { c.s.t.Helper(); c.send("Authorization: Bearer " + c.s.cred + "\r\n") }

func (c conn) answer() reply {
	c.s.t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		c.s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		c.s.t.Fatal(err)
	}
	req := c.s.request(c.method, c.path, nil)
	_, pattern := c.s.mux.Handler(req)
	c.s.validate(req, pattern, res, raw)
	return reply{res.StatusCode, res.Header, string(raw)}
}

func (c conn) ended() {
	c.s.t.Helper()
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.s.t.Errorf("the connection gave %d more bytes and %v instead of ending", n, err)
	}
}

func TestDrippingBodyIsCutOff(t *testing.T) {
	late := envelope("Timeout", "the body did not arrive in time; nothing was committed")
	for name, tc := range map[string]struct {
		line, rest string
		bearer     bool
		status     int
		body       string
	}{
		"sized":           {"POST /v1/commit", "Content-Length: 1000\r\n\r\n{\"obs", true, 503, late},
		"chunked":         {"POST /v1/commit", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"obs\r\n", true, 503, late},
		"without session": {"POST /v1/commit", "Content-Length: 1000\r\n\r\n{\"obs", false, 401, envelope("SessionAbsent", authority.MsgAbsent)},
		"unread, sized":   {"GET /v1/log", "Content-Length: 1000\r\n\r\nx", false, 200, `{"items":[]}`},
		"unread, chunked": {"GET /v1/log", "Transfer-Encoding: chunked\r\n\r\n5\r\n", false, 200, `{"items":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, setup{config: func(c *rest.Config) { c.Limits.Body = short }})
			c := s.dial(tc.line)
			if tc.bearer {
				c.bearer()
			}
			c.send(tc.rest)
			c.answer().want(t, tc.status, tc.body)
			c.ended()
		})
	}
}

func TestBodyThatEndsEarly(t *testing.T) {
	s := newServer(t, setup{})
	before := s.state()
	raw := commitAt(0).String()
	c := s.dial("POST /v1/commit")
	c.bearer()
	c.send(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(raw)+1, raw))
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.answer().want(t, 400, envelope("BadRequest", "body ended before it was complete"))
	s.unchanged(before)
}

func TestLyingContentLength(t *testing.T) {
	s := newServer(t, setup{})
	before := s.state()
	// More than may be, and nothing sent: refused by what the header says.
	c := s.dial("POST /v1/commit")
	c.bearer()
	c.send(fmt.Sprintf("Content-Length: %d\r\n\r\n", rest.MaxBody+1))
	c.answer().want(t, 413, envelope("PayloadTooLarge", "commit body is over 8388608 bytes"))
	// Less than is sent: the body is what the header says it is.
	raw := commitAt(0).String()
	c = s.dial("POST /v1/commit")
	c.bearer()
	c.send(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(raw)-1, raw))
	if r := c.answer(); r.status != 400 || !strings.HasPrefix(r.message(), "body is not valid JSON") {
		t.Errorf("%d %s", r.status, r.body)
	}
	s.unchanged(before)
}

func TestBodyDeadlineDoesNotOutliveTheBody(t *testing.T) {
	const bodyTime = 200 * time.Millisecond
	s := newServer(t, setup{
		config: func(c *rest.Config) { c.Limits.Body = bodyTime },
		wrap: func(st store.Store) store.Store {
			return committing{st, func(ctx context.Context, c store.Commit) (store.Committed, error) {
				// A commit that takes longer than the body might.
				wait, cancel := context.WithTimeout(ctx, 2*bodyTime)
				defer cancel()
				<-wait.Done()
				if ctx.Err() != nil {
					return store.Committed{}, world.Wrap(world.KindUncertain, "store", ctx.Err())
				}
				return st.Commit(ctx, c)
			}}
		},
	})
	s.commit(commitAt(0)).want(t, 200, selected("world 0"))
}

// TestUnboundableBodyIsRefused: a writer that cannot set a read deadline would let a body
// drip for ever.
func TestUnboundableBodyIsRefused(t *testing.T) {
	logs := &logBook{}
	api := rest.New(rest.Config{
		Logf:    logs.printf,
		Resolve: func(context.Context, []string) (world.Session, error) { return world.Session{}, nil },
	})
	rec := httptest.NewRecorder()
	api.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/commit", strings.NewReader(commitAt(0).String())))
	if rec.Code != 500 || rec.Body.String() != envelope("Internal", "internal store failure") || !strings.Contains(logs.String(), "bounding the body's arrival") {
		t.Errorf("%d %s; log %q", rec.Code, rec.Body, logs)
	}
}

func TestClientThatNeverReadsIsCutOff(t *testing.T) {
	large := world.NewObject("notes/v1", "a test", make([]byte, store.MaxPayload))
	served := make(chan struct{})
	s := newServer(t, setup{
		config: func(c *rest.Config) { c.Limits.Write = short },
		around: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(served)
				next.ServeHTTP(w, r)
			})
		},
	})
	if err := s.store.PutObjects(t.Context(), []world.Object{large}); err != nil {
		t.Fatal(err)
	}
	conn := s.dial("GET /v1/objects/" + large.Hash.String() + "?payload=true")
	conn.send("\r\n")
	select {
	case <-served: // though nothing of the answer was read
	case <-time.After(patience):
		t.Fatal("the answer still waits to be read")
	}
	if n, err := io.Copy(io.Discard, conn); n >= int64(len(large.Payload)) {
		t.Errorf("all of the answer arrived: %d bytes, %v", n, err)
	}
}
