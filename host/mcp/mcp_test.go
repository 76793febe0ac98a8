package mcp

import (
	"context"
	"encoding/json"
	"fmt"
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

func TestTranscripts(t *testing.T) {
	server := httptest.NewServer(New((&fakeHost{t: t}).config()))
	defer server.Close()
	wire.Run(t, "testdata", wire.To(t, server.Client(), server.URL), map[string]string{
		"TOKEN": token, "EXPIRED": expired, "BROKEN": broken, "SLOW": slow, "BLIND": blind, "LATE": late, "EMPTY": empty,
		"FAILING": failing, "WIDE": wide, "WIDER": wider, "NOBODY": nobody,
		"FOURMIB": strings.Repeat(" ", MaxBody), "MANY": strings.Repeat(`{"jsonrpc":"2.0","method":"x"},`, MaxBatch),
		"MOST": strings.Repeat(`{"jsonrpc":"2.0","method":"x"},`, MaxBatch-1),
	})
}

// TestFailureTable holds every kind to one of the four fixed texts.
func TestFailureTable(t *testing.T) {
	want := map[world.Kind]string{
		world.KindDeadline: "host callback timed out",
		world.KindTimeout:  "host callback timed out",
		world.KindCanceled: "host callback canceled",
		world.KindCapacity: "host callback capacity exceeded",
	}
	f := &fakeHost{t: t}
	h := New(f.config())
	for _, k := range world.Kinds() {
		if _, ok := failures[k]; !ok {
			t.Errorf("%v: no row in the table", k)
		}
		text := want[k]
		if text == "" {
			text = "host callback failed"
		}
		envelope := `{"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"` + text + `"}}`
		if k == world.KindNotAuthorized {
			envelope = "event: message\ndata: " + `{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"unknown tool \"fail_sNotAuthorized\""}}` + "\n\n"
		}
		w := post(h, failing, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"fail_s`+k.String()+`"}}`)
		if w.Code != http.StatusOK || w.Body.String() != envelope {
			t.Errorf("%v: %d %s", k, w.Code, w.Body)
		}
		if closes := w.Header().Get("Connection") == "close"; closes != (text == "host callback timed out") {
			t.Errorf("%v: connection closed: %v", k, closes)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: the cause is on the wire: %s", k, w.Body)
		}
	}
	lines := strings.Split(f.logged(), "\n")
	if len(lines) != len(world.Kinds()) {
		t.Errorf("%d kinds left %d lines", len(world.Kinds()), len(lines))
	}
	for i, k := range world.Kinds() {
		if !strings.HasPrefix(lines[i], "mcp refusal "+k.String()+": ") || !strings.HasSuffix(lines[i], ": a secret cause") {
			t.Errorf("%v: logged %q", k, lines[i])
		}
	}
}

// TestEffectRecordsAreLogged: they are nowhere on this wire.
func TestEffectRecordsAreLogged(t *testing.T) {
	f := &fakeHost{t: t}
	w := post(New(f.config()), failing, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fail_sunrecorded"}}`)
	if got := w.Body.String(); got != `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"host callback failed"}}` {
		t.Errorf("answer %s", got)
	}
	want := "mcp refusal EffectsUnrecorded: tools/call: fail_sunrecorded: coordinator.Invoke: " +
		"effects were requested but the invocation was not confirmed committed; effect records: " +
		hashref.SumString("record 1").String() + " " + hashref.SumString("record 2").String() + ": finish failed badly"
	if diff := cmp.Diff(want, f.logged()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPanicIsAFailure(t *testing.T) {
	f := &fakeHost{t: t}
	w := post(New(f.config()), failing, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fail_spanic"}}`)
	if got := w.Body.String(); got != `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"host callback failed"}}` {
		t.Errorf("answer %s", got)
	}
	if !strings.Contains(f.logged(), "panic: a secret cause") {
		t.Errorf("logged %q", f.logged())
	}
}

// TestBatchRunsInOrder: a batch reads the view once, and each call in it is one of its own,
// also where ids repeat.
func TestBatchRunsInOrder(t *testing.T) {
	f := &fakeHost{t: t}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tools_decho","arguments":{"n":%d}}}`
	w := post(New(f.config()), token, fmt.Sprintf("["+call+","+call+`,{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`, 1, 2))
	if w.Code != http.StatusOK || f.views != 1 || len(f.calls) != 2 {
		t.Fatalf("%d: %d views, %d calls", w.Code, f.views, len(f.calls))
	}
	for i, c := range f.calls {
		if want := fmt.Sprintf(`{"n":%d}`, i+1); string(c.Args) != want || c.Skill != "tools.echo" {
			t.Errorf("call %d is %s %s", i, c.Skill, c.Args)
		}
	}
}

// TestBadBatchRunsNothing: every item is judged before the first one runs; and a callback
// that fails takes back no earlier one.
func TestBadBatchRunsNothing(t *testing.T) {
	f := &fakeHost{t: t}
	h := New(f.config())
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tools_decho"}}`
	if w := post(h, token, "["+call+`,{"jsonrpc":"2.0","id":null,"method":"ping"}]`); w.Code != http.StatusBadRequest || len(f.calls) != 0 {
		t.Errorf("%d %s: %d calls", w.Code, w.Body, len(f.calls))
	}
	f.invoke = func(_ context.Context, c coordinator.Call) (coordinator.Result, error) {
		if len(f.calls) == 2 {
			return coordinator.Result{}, world.Errorf(world.KindExecution, "x", "")
		}
		return serve(c)
	}
	w := post(h, token, "["+call+","+call+","+call+"]")
	if got := w.Body.String(); len(f.calls) != 2 || got != `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"host callback failed"}}` {
		t.Errorf("%s: %d calls", got, len(f.calls))
	}
}

// TestAnswerIsBounded: answers that grow past the bound are one failure.
func TestAnswerIsBounded(t *testing.T) {
	f := &fakeHost{t: t, invoke: func(context.Context, coordinator.Call) (coordinator.Result, error) {
		return coordinator.Result{Output: []byte(`{"a":"` + strings.Repeat("x", MaxAnswer/5) + `"}`)}, nil
	}}
	h := New(f.config())
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tools_decho"}}`
	if w := post(h, token, "["+call+","+call+"]"); w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("two answers within the bound: %v", w.Header())
	}
	w := post(h, token, "["+call+","+call+","+call+"]")
	if got := w.Body.String(); got != `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"host callback failed"}}` {
		t.Errorf("answer of %d bytes", len(got))
	}
	if !strings.HasPrefix(f.logged(), "mcp refusal TooLarge: tools/call: ") {
		t.Errorf("logged %q", f.logged())
	}
}

const readCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tools_decho"}}`

// TestSlots: as many calls run at once as there are slots; one more waits, and gets the
// first slot that comes free.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		f := &fakeHost{t: t, invoke: func(_ context.Context, c coordinator.Call) (coordinator.Result, error) {
			<-leave
			return serve(c)
		}}
		h := New(f.config())
		var wg sync.WaitGroup
		answers := make(chan string, Slots+2)
		for range Slots + 2 {
			wg.Go(func() { answers <- post(h, token, readCall).Body.String() })
		}
		synctest.Wait()
		if got := len(f.calls); got != Slots {
			t.Errorf("%d calls run at once, want %d", got, Slots)
		}
		leave <- struct{}{}
		synctest.Wait()
		if got := len(f.calls); got != Slots+1 {
			t.Errorf("%d calls had a slot after one came free, want %d", got, Slots+1)
		}
		close(leave)
		wg.Wait()
		close(answers)
		for a := range answers {
			if !strings.Contains(a, `"structuredContent"`) {
				t.Errorf("answer %s", a)
			}
		}
		if len(h.slots) != 0 {
			t.Errorf("%d slots were not given back", len(h.slots))
		}
	})
}

// TestNoSlot: a call that gets none within its deadline is told so.
func TestNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHost{t: t}
		h := New(f.config())
		for range Slots {
			h.slots <- struct{}{}
		}
		start := time.Now()
		w := post(h, token, readCall)
		if got := w.Body.String(); got != `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"host callback capacity exceeded"}}` {
			t.Errorf("answer %s", got)
		}
		if took := time.Since(start); took != PostDeadline || w.Header().Get("Connection") != "close" {
			t.Errorf("after %v, headers %v", took, w.Header())
		}
	})
}

// TestTooManyWait: beyond those that may wait for a slot a call is turned away at once, and
// before it waits for its episode.
func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHost{t: t}
		h := New(f.config())
		for range Slots {
			h.slots <- struct{}{}
		}
		var wg sync.WaitGroup
		answers := make(chan string, MaxWaiting)
		for range MaxWaiting {
			wg.Go(func() { answers <- post(h, token, readCall).Body.String() })
		}
		synctest.Wait()
		begun := time.Now()
		want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"host callback capacity exceeded"}}`
		if got := post(h, token, readCall).Body.String(); got != want || time.Since(begun) != 0 {
			t.Errorf("one too many: %s after %v", got, time.Since(begun))
		}
		// Who comes out of an episode's queue now waits all the same, up to a bound.
		for range MaxQueue - MaxWaiting {
			wg.Go(func() {
				release, err := h.slot(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				release()
			})
		}
		synctest.Wait()
		if _, err := h.slot(t.Context()); world.KindOf(err) != world.KindCapacity {
			t.Errorf("beyond the bound: %v", err)
		}
		for range Slots {
			<-h.slots
		}
		wg.Wait()
		close(answers)
		for a := range answers {
			if !strings.Contains(a, `"structuredContent"`) {
				t.Errorf("answer %s", a)
			}
		}
		if n := h.waiting.Load(); n != 0 {
			t.Errorf("%d still count as waiting", n)
		}
	})
}

// TestDeadlines: what does not end is answered all the same.
func TestDeadlines(t *testing.T) {
	ctxEnd := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name  string
		set   func(*Config, *fakeHost)
		body  string
		after time.Duration
		want  string
	}{
		{"credential", func(c *Config, _ *fakeHost) { c.Sessions = stuck{} }, readCall, surface.CredentialDeadline,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"host callback timed out"}}`},
		{"first admission", func(c *Config, _ *fakeHost) { c.Tools = stuck{} }, readCall, ViewDeadline,
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"host callback timed out"}}`},
		{"invocation", func(_ *Config, f *fakeHost) {
			f.invoke = func(ctx context.Context, _ coordinator.Call) (coordinator.Result, error) {
				return coordinator.Result{}, ctxEnd(ctx)
			}
		}, readCall, CallbackDeadline, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"host callback timed out"}}`},
		{"invocation that does not keep to it", func(_ *Config, f *fakeHost) {
			f.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) {
				pause(time.Hour)
				return coordinator.Result{}, nil
			}
		}, readCall, CallbackDeadline + Grace, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"host callback timed out"}}`},
		{"the whole of a batch", func(_ *Config, f *fakeHost) {
			f.invoke = func(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
				pause(9 * time.Second)
				if ctx.Err() != nil {
					return coordinator.Result{}, ctx.Err()
				}
				return serve(c)
			}
		}, "[" + readCall + "," + readCall + "," + readCall + "," + readCall + "]", PostDeadline + Grace,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"host callback timed out"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeHost{t: t}
				cfg := f.config()
				tt.set(&cfg, f)
				start := time.Now()
				w := post(New(cfg), token, tt.body)
				if took := time.Since(start); took != tt.after {
					t.Errorf("answered after %v, want %v", took, tt.after)
				}
				if w.Body.String() != tt.want || w.Header().Get("Connection") != "close" {
					t.Errorf("answer %s, headers %v", w.Body, w.Header())
				}
				pause(2 * time.Hour)
			})
		})
	}
}

// stuck never answers.
type stuck struct{}

func (stuck) Resolve(context.Context, []string) (world.Session, error) {
	pause(time.Minute)
	return world.Session{}, nil
}

func (stuck) View(context.Context, world.Session) ([]*world.Descriptor, error) {
	pause(time.Minute)
	return nil, nil
}

// TestCallerGoesAway: a call whose caller is gone is cancelled, not timed out.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHost{t: t, invoke: func(ctx context.Context, _ coordinator.Call) (coordinator.Result, error) {
			<-ctx.Done()
			return coordinator.Result{}, ctx.Err()
		}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r := request(token, readCall).WithContext(ctx)
		w := httptest.NewRecorder()
		New(f.config()).ServeHTTP(w, r)
		if got := w.Body.String(); got != `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"host callback canceled"}}` {
			t.Errorf("answer %s", got)
		}
	})
}

func TestChallenge(t *testing.T) {
	f := &fakeHost{t: t}
	cfg := f.config()
	cfg.Challenge = `Bearer resource_metadata="https://world.example/m"`
	w := post(New(cfg), nobody, "")
	if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || got != cfg.Challenge {
		t.Errorf("%d with challenge %q", w.Code, got)
	}
	if got := post(New(f.config()), nobody, "").Header().Values("WWW-Authenticate"); len(got) != 0 {
		t.Errorf("a challenge that is not configured: %q", got)
	}
}

// TestRenderedOnce: a descriptor is rendered once, and a full cache begins anew.
func TestRenderedOnce(t *testing.T) {
	var c toolCache
	first, err := c.rendered(echo)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := c.rendered(echo)
	if &first[0] != &again[0] {
		t.Error("a known descriptor was rendered again")
	}
	for range maxRendered {
		if _, err := c.rendered(&world.Descriptor{ID: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.json) > maxRendered {
		t.Errorf("%d tools are kept", len(c.json))
	}
	if after, _ := c.rendered(echo); !cmp.Equal(first, after) {
		t.Error("rendering differs")
	}
	if _, err := c.rendered(&world.Descriptor{ID: "x", InputSchema: []byte(`[]`)}); err == nil {
		t.Error("a schema that is none was rendered")
	}
}

// TestResultTwice: the text and the structured content are the same bytes.
func TestResultTwice(t *testing.T) {
	f := &fakeHost{t: t}
	w := post(New(f.config()), token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ailang-read","arguments":{"path":"a"}}}`)
	data, ok := strings.CutPrefix(w.Body.String(), "event: message\ndata: ")
	if !ok {
		t.Fatalf("answer %s", w.Body)
	}
	var got struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	want, _ := serve(coordinator.Call{Skill: "ailang-read"})
	if got.Result.Content[0].Text != string(want.Output) || string(got.Result.StructuredContent) != string(want.Output) {
		t.Errorf("text %q, structured %q, want %q", got.Result.Content[0].Text, got.Result.StructuredContent, want.Output)
	}
}

func request(bearer, body string) *http.Request {
	r := httptest.NewRequest("POST", "/mcp/", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

func post(h http.Handler, bearer, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(bearer, body))
	return w
}

// pause waits on the clock of a synctest bubble.
func pause(d time.Duration) { <-time.After(d) }

// instant is a host that answers at once.
type instant struct{}

func (instant) Resolve(context.Context, []string) (world.Session, error) {
	return world.Session{Episode: token}, nil
}

func (instant) View(context.Context, world.Session) ([]*world.Descriptor, error) {
	return views[token], nil
}

func (instant) Invoke(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
	release, err := c.Slot(ctx)
	if err != nil {
		return coordinator.Result{}, err
	}
	defer release()
	return coordinator.Result{Output: c.Args}, nil
}

// BenchmarkCall is what the surface itself costs of one call.
func BenchmarkCall(b *testing.B) {
	h := New(Config{Sessions: instant{}, Tools: instant{}, Calls: instant{}, Logf: b.Logf, Version: "0.1.0"})
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tools_decho","arguments":{"text":"hello"}}}`
	b.ReportAllocs()
	for b.Loop() {
		if w := post(h, token, body); !strings.Contains(w.Body.String(), "structuredContent") {
			b.Fatal(w.Body)
		}
	}
}
