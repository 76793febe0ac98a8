package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// dial opens a connection and sends the head of a commit and a part of its body.
func (s *server) dial(head, part string) net.Conn {
	s.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", strings.TrimPrefix(s.http.URL, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST /v1/commit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", s.cred, head, part); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func (s *server) answer(conn net.Conn) reply {
	s.t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	req := s.request(http.MethodPost, "/v1/commit", nil)
	s.validate(req, "POST /v1/commit", res, raw)
	return reply{res.StatusCode, res.Header, string(raw)}
}

func TestDrippingBodyIsCutOff(t *testing.T) {
	s := newServer(t, setup{config: func(c *rest.Config) { c.Limits.Body = short }})
	for name, head := range map[string]string{"sized": "Content-Length: 1000", "chunked": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			part := `{"observedHead":`
			if name == "chunked" {
				part = "5\r\n{\"obs\r\n"
			}
			conn := s.dial(head, part)
			s.answer(conn).want(t, 503, envelope("Timeout", "the body did not arrive in time; nothing was committed"))
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("the connection gave %d more bytes instead of ending", n)
			}
		})
	}
}

func TestBodyThatEndsEarly(t *testing.T) {
	s := newServer(t, setup{})
	before := s.state()
	raw := commitAt(0).String()
	conn := s.dial(fmt.Sprint("Content-Length: ", len(raw)+1), raw)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s.answer(conn).want(t, 400, envelope("BadRequest", "body ended before it was complete"))
	s.unchanged(before)
}

func TestLyingContentLength(t *testing.T) {
	s := newServer(t, setup{})
	before := s.state()
	// More than may be, and nothing sent: refused by what the header says.
	conn := s.dial(fmt.Sprint("Content-Length: ", int64(rest.MaxBody+1)), "")
	s.answer(conn).want(t, 413, envelope("PayloadTooLarge", "commit body is over 8388608 bytes"))
	// Less than is sent: the body is what the header says it is.
	raw := commitAt(0).String()
	conn = s.dial(fmt.Sprint("Content-Length: ", len(raw)-1), raw)
	if r := s.answer(conn); r.status != 400 || r.class() != "BadRequest" {
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
