package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/tracing"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// watched is a daemon with a session, served over HTTP.
type watchedDaemon struct {
	*httptest.Server
	t     testing.TB
	token string
}

func serveWatched(t testing.TB, core CoreConfig, cfg Config) *watchedDaemon {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	core.DB, core.TempDir, core.Logf = filepath.Join(t.TempDir(), "world.db"), t.TempDir(), func(string, ...any) {}
	c, err := OpenCore(t.Context(), core)
	must(err)
	t.Cleanup(func() { must(c.Close()) })
	cfg.Bind, cfg.RuntimeDir = "127.0.0.1:0", t.TempDir()
	root := t.TempDir()
	must(mkdir(filepath.Join(root, "ep")))
	cfg.WorkspaceRoot = root
	d, err := New(t.Context(), c, cfg)
	must(err)
	pack, err := packs.Load("workspace")
	must(err)
	_, err = c.Registry.Publish(t.Context(), registry.Manifest{Text: pack.Manifest, Files: pack.Files})
	must(err)
	_, err = c.Ops("").Genesis(t.Context(), "")
	must(err)
	token, _, err := c.Authority.Mint(t.Context(), "ep", []world.Grant{{Effect: "Workspace.Read", Scope: "worktree", Budget: 1}}, time.Hour)
	must(err)
	s := httptest.NewServer(d.Handler("http://127.0.0.1"))
	t.Cleanup(s.Close)
	return &watchedDaemon{s, t, token}
}

func (w *watchedDaemon) do(method, path, body string, header ...string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (w *watchedDaemon) call(tool, args string, header ...string) string {
	w.t.Helper()
	_, text := w.do("POST", "/mcp/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+args+`}}`,
		append([]string{"Authorization", "Bearer " + w.token, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, header...)...)
	return text
}

// send calls a skill without arguments over /a2a/.
func (w *watchedDaemon) send(skill string, header ...string) {
	w.t.Helper()
	w.do("POST", "/a2a/", `{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"t1","metadata":{"skill_id":"`+skill+
		`"},"message":{"role":"user","parts":[{"type":"data","data":{}}]}}}`, append([]string{"Authorization", "Bearer " + w.token}, header...)...)
}

// TestMetricsOfADaemon: what agents do is counted, by how it ended.
func TestMetricsOfADaemon(t *testing.T) {
	w := serveWatched(t, CoreConfig{}, Config{PublicURL: "https://world.example"})
	for _, c := range []struct{ tool, args string }{
		{"workspace-list", `{"path":"."}`}, {"workspace-list", `{"path":"."}`}, {"workspace-list", `{"path":"../x"}`}, {"no-such-tool", `{}`},
	} {
		w.call(c.tool, c.args)
	}
	w.send("no-such-skill")
	w.do("POST", "/a2a/", "", "Authorization", "Bearer x")
	w.do("POST", "/mcp/", "", "Authorization", "Bearer "+strings.Repeat("0a", 32))
	status, text := w.do("GET", "/metrics", "")
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for _, want := range []string{
		`world_calls_total{outcome="ok",surface="mcp",tool="workspace-list"} 1`,
		`world_calls_total{outcome="denied",surface="mcp",tool="workspace-list"} 1`,
		`world_calls_total{outcome="refused",surface="mcp",tool="workspace-list"} 1`,
		`world_effects_total{effect="Workspace.Read",status="ok"} 1`,
		`world_effects_total{effect="Workspace.Read",status="denied"} 1`,
		`world_budget_spent_total{effect="Workspace.Read"} 1`,
		`world_call_step_seconds_count{step="commit"} 3`,
		`world_calls_total{outcome="error",surface="a2a",tool="other"} 1`,
		`world_refusals_total{kind="NotAuthorized",surface="a2a"} 1`,
		`world_refusals_total{kind="NotAuthorized",surface="mcp"} 1`,
		`world_refusals_total{kind="SessionBad",surface="a2a"} 1`,
		`world_refusals_total{kind="SessionUnknown",surface="mcp"} 1`,
		`world_log_entries 4`,
		`world_calls_in_flight 0`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("it lacks %s", want)
		}
	}
	if strings.Contains(text, "no-such") {
		t.Error("a name that a caller made up is told")
	}
	if strings.Contains(text, "world_store_flush_seconds_count 0\n") || strings.Contains(text, w.token) {
		t.Error("no flush was counted, or a credential is told")
	}
	if status, _ := w.do("GET", "/metrics", "", "Host", "world.example"); status != 404 {
		t.Errorf("under the public name: %d", status)
	}
	if status, _ := w.do("GET", "/metrics", "", "Host", "evil.example"); status != 403 {
		t.Errorf("under a foreign name: %d", status)
	}
	if status, _ := w.do("POST", "/metrics", ""); status != 405 {
		t.Errorf("POST: %d", status)
	}
}

func TestMetricsArePrivateToo(t *testing.T) {
	w := serveWatched(t, CoreConfig{}, Config{PrivateReads: true})
	if status, text := w.do("GET", "/metrics", ""); status != 401 || strings.Contains(text, "world_") {
		t.Errorf("without a session: %d", status)
	}
	if status, _ := w.do("GET", "/metrics", "", "Authorization", "Bearer "+w.token); status != 200 {
		t.Errorf("with a session: %d", status)
	}
}

// TestOneTraceFromHTTPToFlush: a request's trace, continued from the caller's, leads through
// the call and its parts to the flush, and names the entry.
func TestOneTraceFromHTTPToFlush(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	tracer := tracing.Over(sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept)))
	w := serveWatched(t, CoreConfig{Trace: tracer}, Config{})
	const id = "0af7651916cd43dd8448eb211c80319c"
	kept.Reset()
	w.call("workspace-list", `{"path":"."}`, "traceparent", "00-"+id+"-b7ad6b7169203331-01")
	// The writer tells of a batch after it was answered, and does so before the next one.
	w.call("workspace-list", `{"path":"../x"}`)
	w.Close() // the request's own span ends after its answer
	parents, names := map[string]string{}, map[string]string{}
	attrs := map[string]string{}
	for _, s := range kept.GetSpans() {
		if s.SpanContext.TraceID().String() != id {
			continue
		}
		names[s.SpanContext.SpanID().String()] = s.Name
		parents[s.SpanContext.SpanID().String()] = s.Parent.SpanID().String()
		for _, a := range s.Attributes {
			attrs[s.Name+" "+string(a.Key)] = a.Value.String()
			if v := a.Value.String(); strings.Contains(v, w.token) || strings.Contains(v, `"path"`) {
				t.Errorf("%s tells %s", s.Name, v)
			}
		}
	}
	paths := map[string]bool{}
	for span := range names {
		path := ""
		for at := span; names[at] != ""; at = parents[at] {
			path = "/" + names[at] + path
		}
		paths[path] = true
	}
	const root = "/POST /mcp/{$}"
	for _, want := range []string{root, root + "/call", root + "/call/admit", root + "/call/plan", root + "/call/intend", root + "/call/intend/flush", root + "/call/perform",
		root + "/call/commit", root + "/call/commit/queue", root + "/call/commit/transaction", root + "/call/commit/flush"} {
		if !paths[want] {
			t.Errorf("no span %s", want)
		}
	}
	for key, want := range map[string]string{"call world.entry_index": "1", "call world.tool": "workspace-list", "call world.outcome": "ok", "call world.episode": "ep",
		"POST /mcp/{$} http.response.status_code": "200", "call world.effect": "Workspace.Read ok"} {
		if attrs[key] != want {
			t.Errorf("%s is %q, want %q", key, attrs[key], want)
		}
	}
	if t.Failed() {
		t.Log(paths)
	}
}

// TestCallLog: a line a call, with its trace.
func TestCallLog(t *testing.T) {
	var b strings.Builder
	w := serveWatched(t, CoreConfig{CallLog: slog.New(slog.NewJSONHandler(&b, nil)), Trace: tracing.Over(sdktrace.NewTracerProvider())}, Config{})
	w.call("workspace-list", `{"path":"."}`)
	w.send("no-such-tool")
	w.call("no-such-tool", `{}`)
	text := b.String()
	for _, want := range []string{`"msg":"call","surface":"mcp","episode":"ep","tool":"workspace-list","outcome":"ok","ms":`, `"entry":1,"call":"a2a:ep:`, `"trace_id":"`,
		`"tool":"","outcome":"error"`, `"kind":"NotAuthorized"`, `"msg":"call","surface":"mcp","outcome":"error","kind":"NotAuthorized"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, w.token) || strings.Contains(text, "no-such-tool") {
		t.Error("the log tells a credential, or a name that a caller made up")
	}
}

func TestKindOf(t *testing.T) {
	for err, want := range map[error]world.Kind{
		&world.EffectsUnrecordedError{Cause: world.Wrap(world.KindDeadline, "op", errNothing)}: world.KindEffectsUnrecorded,
		world.Wrap(world.KindCapacity, "op", errNothing):                                       world.KindCapacity,
		errNothing: world.KindInternal,
	} {
		if got := kindOf(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for out, want := range map[string]bool{
		`{"ok":false}`: true, `{"a":{"ok":false},"ok":true}`: false, `{"a":"\"ok\":false"}`: false, `{"a":[1,{"ok":false}]}`: false, `{"a":1,"ok":false,"z":2}`: true,
		``: false, `[`: false, `{"ok":0,"x":"ok\":false"}`: false,
	} {
		if got := refused([]byte(out)); got != want {
			t.Errorf("%s: %v", out, got)
		}
	}
}

type nothing struct{}

func (nothing) Invoke(context.Context, coordinator.Call) (coordinator.Result, error) {
	return coordinator.Result{Output: []byte(`{"bytes":1,"ok":true}`)}, errNothing
}

var errNothing = errors.New("nothing")

// BenchmarkWatching is what it costs a call to be watched: nothing of it is there where
// nobody watches, and the time of the spans only where they are made.
func BenchmarkWatching(b *testing.B) {
	core, err := OpenCore(b.Context(), CoreConfig{DB: filepath.Join(b.TempDir(), "w.db"), TempDir: b.TempDir(), Logf: b.Logf})
	if err != nil {
		b.Fatal(err)
	}
	defer core.Close()
	run := func(b *testing.B, inv invoker, o coordinator.Observer) {
		b.ReportAllocs()
		for b.Loop() {
			ctx := b.Context()
			_, _ = inv.Invoke(ctx, coordinator.Call{Surface: world.SurfaceMCP, Skill: "t"})
			if o == nil {
				continue
			}
			for _, name := range []string{coordinator.StepAdmit, coordinator.StepWait, coordinator.StepRun, coordinator.StepCommit} {
				_, end := o.Step(ctx, name)
				end(nil)
			}
		}
	}
	b.Run("nobody", func(b *testing.B) { run(b, nothing{}, nil) })
	b.Run("metrics", func(b *testing.B) { run(b, calls{nothing{}, core.Watch}, core.Watch) })
	b.Run("traces", func(b *testing.B) {
		o := &Observer{Metrics: core.Watch.Metrics, Trace: tracing.Over(sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter())))}
		run(b, calls{nothing{}, o}, o)
	})
}

func mkdir(path string) error { return os.Mkdir(path, 0o755) }
