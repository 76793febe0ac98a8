package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// lines is a stream that is read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
	at chan struct{} // gets one when a line that holds until was written
	// until is waited for.
	until string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(b)
	if l.at != nil && bytes.Contains(l.b.Bytes(), []byte(l.until)) {
		close(l.at)
		l.at = nil
	}
	return len(b), nil
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serveOnce serves a new store until it listens and one request was answered.
func serveOnce(t *testing.T, environ []string, args ...string) (code int, stderr string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	listening := make(chan struct{})
	out, errs := &lines{at: listening, until: "listening on http://"}, &lines{}
	done := make(chan int, 1)
	env := Env{Dir: t.TempDir(), Environ: append(environ, "HOME="+t.TempDir(), "XDG_RUNTIME_DIR="+t.TempDir())}
	go func() {
		done <- Run(ctx, append([]string{"serve", "--db", filepath.Join(t.TempDir(), "w.db"), "--bind", "127.0.0.1:0"}, args...), strings.NewReader(""), out, errs, env)
	}()
	select {
	case code := <-done:
		return code, errs.text()
	case <-listening:
	}
	_, url, _ := strings.Cut(strings.TrimSpace(out.text()), "listening on ")
	resp, err := http.Get(url + "/v1/health")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	stop()
	return <-done, errs.text()
}

func TestLogFormat(t *testing.T) {
	code, text := serveOnce(t, nil, "--log-format", "json")
	if code != ExitOK || !strings.Contains(text, `"msg":"created the store `) {
		t.Fatalf("%d %s", code, text)
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var r struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Time == "" || r.Level == "" || r.Msg == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
	if code, text := serveOnce(t, nil); code != ExitOK || !strings.HasPrefix(text, "created the store ") {
		t.Errorf("as ever: %d %s", code, text)
	}
	if code, text := serveOnce(t, nil, "--log-format", "xml"); code != ExitFatal || !strings.Contains(text, `--log-format must be text or json, not "xml"`) {
		t.Errorf("%d %s", code, text)
	}
}

// TestTracesAreSent: the standard variables make traces, and their collector gets them
// before the daemon ends.
func TestTracesAreSent(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] += string(b)
	}))
	defer collector.Close()
	const on = "OTEL_EXPORTER_OTLP_ENDPOINT"
	t.Setenv(on, collector.URL) // which the SDK reads itself
	code, text := serveOnce(t, []string{on + "=" + collector.URL})
	mu.Lock()
	sent := got["/v1/traces"]
	mu.Unlock()
	if code != ExitOK || !strings.Contains(sent, "GET /v1/health") || !strings.Contains(sent, "ailang-worldd") {
		t.Fatalf("%d %s; sent %q", code, text, got)
	}
}

func TestTracesWanted(t *testing.T) {
	for _, c := range []struct {
		env  string
		want bool
		err  string
	}{
		{"", false, ""},
		{"OTEL_SERVICE_NAME=x", false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/v1/traces", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://c", false, ""},
		{"OTEL_SDK_DISABLED=true OTEL_TRACES_EXPORTER=otlp", false, ""},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, "speaks http/protobuf"},
		{"OTEL_TRACES_EXPORTER=zipkin", false, "knows otlp and none"},
	} {
		got, err := tracesWanted(Env{Environ: strings.Fields(c.env)})
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", c.env, got, err)
		}
	}
}

func TestTellIsOneRecord(t *testing.T) {
	var b bytes.Buffer
	a := &app{stderr: &sink{w: &b}}
	a.logJSON()
	a.tell("panic: %s\n%s", "x", "a stack")
	io.WriteString(a.stderr, "half a ")
	io.WriteString(a.stderr, "line\n\nand another\n")
	got := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(got) != 3 || !strings.Contains(got[0], `"level":"WARN","msg":"panic: x\na stack"`) || !strings.Contains(got[1], `"msg":"half a line"`) {
		t.Errorf("%q", got)
	}
}
