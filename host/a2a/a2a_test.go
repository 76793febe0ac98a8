package a2a

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest/wire"
)

// serveFake is a real server over the fakes.
func serveFake(t *testing.T, f *fakeHost) *httptest.Server {
	h := New(f.config())
	mux := http.NewServeMux()
	mux.Handle("/a2a/", h)
	mux.Handle("/.well-known/agent.json", h.Card())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestTranscripts(t *testing.T) {
	server := serveFake(t, &fakeHost{t: t})
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	wire.Run(t, "testdata", wire.To(t, client, server.URL), map[string]string{
		"TOKEN": token, "EXPIRED": expired, "BROKEN": broken, "SLOW": slow, "BLIND": blind, "LATE": late,
		"EMPTY": empty, "NOBODY": nobody, "SOURCE": source.String(), "OTHER": hashref.SumString("other").String(),
		"LONG": strings.Repeat("t", 128), "LONG_": strings.Repeat("t", 129), "MIB": strings.Repeat(" ", MaxBody),
	})
}

// TestErrorTable holds the table to the published one, for every kind there is.
func TestErrorTable(t *testing.T) {
	want := map[world.Kind]surface.Error{
		world.KindInternal:          {Code: -32603, Message: "transition invocation is not available in this daemon"},
		world.KindBadRequest:        {Code: -32602, Message: "invalid params"},
		world.KindNotFound:          {Code: -32603, Message: "transition invocation is not available in this daemon"},
		world.KindTooLarge:          {Code: -32603, Message: "transition invocation is not available in this daemon"},
		world.KindHeadConflict:      {Code: -32603, Message: "world head moved during invocation; not committed; send a new task id"},
		world.KindTimeout:           {Code: -32603, Message: "invocation exceeded its deadline"},
		world.KindUncertain:         {Code: -32603, Message: "invocation outcome is not confirmed; resend the same task id"},
		world.KindIndexMissing:      {Code: -32603, Message: "transition invocation is not available in this daemon"},
		world.KindSessionAbsent:     {Code: -32001, Message: "the session's own text"},
		world.KindSessionBad:        {Code: -32600, Message: "the session's own text"},
		world.KindSessionUnknown:    {Code: -32001, Message: "the session's own text"},
		world.KindSessionExpired:    {Code: -32001, Message: "the session's own text"},
		world.KindNotAuthorized:     {Code: -32602, Message: "not authorized"},
		world.KindPinMismatch:       {Code: -32602, Message: "proposal does not match the registered transition"},
		world.KindTaskIDUsed:        {Code: -32602, Message: "task id already used in this session"},
		world.KindNoWorld:           {Code: -32603, Message: "no world is selected; commit a genesis world first"},
		world.KindEngineMissing:     {Code: -32603, Message: "transition invocation is not available in this daemon"},
		world.KindNoHandler:         {Code: -32603, Message: "transition declares an effect this daemon has no handler for"},
		world.KindConvention:        {Code: -32603, Message: "transition does not implement the invocation calling convention"},
		world.KindExecution:         {Code: -32603, Message: "transition execution failed"},
		world.KindBadOutput:         {Code: -32603, Message: "transition output is not a JSON object"},
		world.KindDeadline:          {Code: -32603, Message: "invocation exceeded its deadline"},
		world.KindCanceled:          {Code: -32603, Message: "invocation outcome is not confirmed; resend the same task id"},
		world.KindUnconfirmed:       {Code: -32603, Message: "invocation outcome is not confirmed; resend the same task id"},
		world.KindNotCommitted:      {Code: -32603, Message: "invocation was not committed; send a new task id"},
		world.KindCapacity:          {Code: -32603, Message: "invocation was not committed; send a new task id"},
		world.KindEffectsUnrecorded: {Code: -32603, Message: "effects were requested but the invocation was not confirmed committed; effect records:"},
		world.KindIntegrity:         {Code: -32603, Message: "transition invocation is not available in this daemon"},
		world.KindStoreFull:         {Code: -32603, Message: "transition invocation is not available in this daemon"},
		world.KindLocked:            {Code: -32603, Message: "transition invocation is not available in this daemon"},
		world.KindSchema:            {Code: -32603, Message: "transition invocation is not available in this daemon"},
	}
	for _, k := range world.Kinds() {
		if _, ok := outcomes[k]; !ok {
			t.Errorf("%v: no row in the table", k)
		}
		err := &world.Error{Kind: k, Msg: "the session's own text", Err: errors.New("a secret cause")}
		if diff := cmp.Diff(want[k], rpcError(err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", k, diff)
		}
	}
}

// TestEffectsComeFirst: whatever a call failed with, effects without an entry are named.
func TestEffectsComeFirst(t *testing.T) {
	ref := hashref.SumString("record")
	want := surface.Error{Code: -32603, Message: "effects were requested but the invocation was not confirmed committed; effect records: " + ref.String()}
	for _, k := range world.Kinds() {
		cause := &world.EffectsUnrecordedError{Refs: []world.Ref{ref}, Cause: world.Wrap(k, "x", errors.New("a secret cause"))}
		for _, err := range []error{cause, world.Wrap(k, "y", cause)} {
			if diff := cmp.Diff(want, rpcError(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", k, diff)
			}
		}
	}
}

// TestCausesAreLogged: what the caller is not told is one line for the operator.
func TestCausesAreLogged(t *testing.T) {
	f := &fakeHost{t: t}
	h := New(f.config())
	post(t, h, token, `{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"t","metadata":{"skill_id":"fail/unrecorded"},"message":{"parts":[{"type":"data","data":{}}]}}}`)
	post(t, h, broken, `{}`)
	post(t, h, nobody, `{}`)
	want := "a2a refusal EffectsUnrecorded: fail/unrecorded t: coordinator.Invoke: " +
		"effects were requested but the invocation was not confirmed committed; effect records: " +
		hashref.SumString("record 1").String() + " " + hashref.SumString("record 2").String() + ": finish failed badly\n" +
		"a2a refusal Integrity: credential: authority.Resolve: row 3 of sessions does not prove itself"
	if diff := cmp.Diff(want, f.logged()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCallIsHandedOver: what the wire says is what the host is asked.
func TestCallIsHandedOver(t *testing.T) {
	f := &fakeHost{t: t}
	h := New(f.config())
	post(t, h, token, `{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"t-1","metadata":{"skill_id":"tools.echo","transition_fn":"`+
		source.String()+`"},"message":{"parts":[{"type":"data","data":{ "b": 1.0, "a" : "\u00e9" }}]}}}`)
	want := []coordinator.Call{{
		Surface: world.SurfaceA2A,
		Session: world.Session{ID: hashref.SumString(token), Episode: "ep1"},
		Skill:   "tools.echo", Pin: source, Task: "t-1", Args: []byte(`{"a":"é","b":1}`),
	}}
	if diff := cmp.Diff(want, f.calls, cmp.Comparer(func(a, b world.Ref) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const echoCall = `{"jsonrpc":"2.0","id":"x","method":"tasks/send","params":{"id":"t","metadata":{"skill_id":"tools.echo"},"message":{"parts":[{"type":"data","data":{}}]}}}`

// TestTooManyCalls: beyond those that run at once a call is turned away at once, and says
// that nothing was committed; when one has ended there is room again.
func TestTooManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		f := &fakeHost{t: t, invoke: func(_ context.Context, c coordinator.Call) (coordinator.Result, error) {
			<-leave
			return serve(c)
		}}
		h := New(f.config())
		var wg sync.WaitGroup
		answers := make(chan string, MaxCalls+1)
		call := func() {
			wg.Go(func() { answers <- post(t, h, token, echoCall).Body.String() })
			synctest.Wait()
		}
		for range MaxCalls {
			call()
		}
		begun := time.Now()
		want := `{"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"invocation was not committed; send a new task id"}}`
		if got := post(t, h, token, echoCall).Body.String(); got != want || time.Since(begun) != 0 {
			t.Errorf("one too many: %s after %v", got, time.Since(begun))
		}
		leave <- struct{}{}
		synctest.Wait()
		call()
		close(leave)
		wg.Wait()
		close(answers)
		for a := range answers {
			if !strings.Contains(a, `"state":"completed"`) {
				t.Errorf("answer %s", a)
			}
		}
		if len(f.calls) != MaxCalls+1 || len(h.slots) != 0 {
			t.Errorf("%d calls ran, %d slots were not given back", len(f.calls), len(h.slots))
		}
	})
}

// TestDeadline: a call that does not end is answered all the same, and the connection with it.
func TestDeadline(t *testing.T) {
	tests := []struct {
		name   string
		invoke func(ctx context.Context, c coordinator.Call) (coordinator.Result, error)
		after  time.Duration
		want   string
		close  bool
	}{
		{"the host keeps to it", func(ctx context.Context, _ coordinator.Call) (coordinator.Result, error) {
			<-ctx.Done()
			return coordinator.Result{}, ctx.Err()
		}, PostDeadline, "invocation exceeded its deadline", true},
		{"the host does not", func(ctx context.Context, _ coordinator.Call) (coordinator.Result, error) {
			pause(time.Minute)
			return coordinator.Result{}, failure("unrecorded")
		}, PostDeadline + Grace, "invocation exceeded its deadline", true},
		{"effects that are found out late are named", func(ctx context.Context, _ coordinator.Call) (coordinator.Result, error) {
			<-ctx.Done()
			pause(Grace / 2)
			return coordinator.Result{}, failure("unrecorded")
		}, PostDeadline + Grace/2, "effect records: sha256:", true},
		{"a commit after an effect is told", func(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
			<-ctx.Done()
			pause(Grace / 2)
			return serve(c)
		}, PostDeadline + Grace/2, `"state":"completed"`, true},
		{"in time", func(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
			pause(time.Second)
			return serve(c)
		}, time.Second, `"state":"completed"`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeHost{t: t, invoke: tt.invoke}
				start := time.Now()
				w := post(t, New(f.config()), token, echoCall)
				if took := time.Since(start); took != tt.after {
					t.Errorf("answered after %v, want %v", took, tt.after)
				}
				if body := w.Body.String(); !strings.Contains(body, tt.want) || !strings.Contains(body, `"id":"x"`) {
					t.Errorf("answer %s does not say %q", body, tt.want)
				}
				if got := w.Header().Get("Connection") == "close"; got != tt.close {
					t.Errorf("connection closed: %v, want %v", got, tt.close)
				}
				pause(2 * time.Minute)
				if tt.name == "the host does not" && !strings.Contains(f.logged(), "a2a refusal EffectsUnrecorded") {
					t.Errorf("what came too late was told nowhere: %q", f.logged())
				}
			})
		})
	}
}

// TestCredentialDeadline: the look-up of a credential has a deadline of its own.
func TestCredentialDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHost{t: t}
		cfg := f.config()
		cfg.Sessions = stuck{}
		start := time.Now()
		w := post(t, New(cfg), token, echoCall)
		if took := time.Since(start); took != surface.CredentialDeadline {
			t.Errorf("answered after %v", took)
		}
		want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"invocation exceeded its deadline"}}`
		if w.Body.String() != want || w.Header().Get("Connection") != "close" {
			t.Errorf("answer %s, headers %v", w.Body, w.Header())
		}
		w = httptest.NewRecorder()
		New(cfg).Card().ServeHTTP(w, httptest.NewRequest("GET", "/.well-known/agent.json", nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"class":"Timeout"`) {
			t.Errorf("card: %d %s", w.Code, w.Body)
		}
		pause(2 * time.Minute)
	})
}

// stuck never finds a session.
type stuck struct{}

func (stuck) Resolve(ctx context.Context, _ []string) (world.Session, error) {
	<-ctx.Done()
	pause(time.Minute)
	return world.Session{}, nil
}

// TestPanics: a panic anywhere behind the surface is an answer, with the request's id.
func TestPanics(t *testing.T) {
	f := &fakeHost{t: t, invoke: func(context.Context, coordinator.Call) (coordinator.Result, error) { panic("a secret cause") }}
	w := post(t, New(f.config()), token, echoCall)
	want := `{"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"transition invocation is not available in this daemon"}}`
	if w.Body.String() != want {
		t.Errorf("answer %s", w.Body)
	}
	if !strings.HasPrefix(f.logged(), "a2a refusal Internal: tools.echo t: surface: panic: a secret cause") {
		t.Errorf("logged %q", f.logged())
	}
}

func TestCardURL(t *testing.T) {
	for public, want := range map[string]string{
		"":                         "http://127.0.0.1:7644",
		"https://world.example":    "https://world.example",
		"https://world.example/w/": "https://world.example/w",
	} {
		if got := (Config{PublicURL: public, Listen: "127.0.0.1:7644"}).url(); got != want {
			t.Errorf("public URL %q: card says %q, want %q", public, got, want)
		}
	}
}

func post(t *testing.T, h http.Handler, bearer, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("POST", "/a2a/", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+bearer)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	return w
}

// pause waits on the clock of a synctest bubble.
func pause(d time.Duration) { <-time.After(d) }
