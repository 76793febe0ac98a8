package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

const token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// ran is what one run printed.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs the command line in a folder of its own with a bare environment.
func run(t *testing.T, ctx context.Context, stdin io.Reader, environ []string, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	code := Run(ctx, args, stdin, &out, &errs, Env{Dir: t.TempDir(), Environ: environ})
	return ran{code, out.String(), errs.String()}
}

func TestTTL(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3600": time.Hour, "8h": 8 * time.Hour, "30d": 720 * time.Hour, "1h30m": 90 * time.Minute, "1": time.Second, "3650d": 3650 * 24 * time.Hour,
		"": 0, "0": 0, "-1": 0, "0d": 0, "d": 0, "3651d": 0, "1.5d": 0, "9999999999": 0, "9223372036854775807": 0, "9223372036854775807d": 0, "1y": 0, "99999h": 0, "-5m": 0,
	} {
		got, err := parseTTL(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for d, want := range map[time.Duration]string{8 * time.Hour: "8h", 90 * time.Minute: "1h30m", 720 * time.Hour: "30 days", time.Second: "1s", 10 * time.Minute: "10m", 24 * time.Hour: "24h", 10 * time.Second: "10s"} {
		if got := ttlText(d); got != want {
			t.Errorf("%v is told as %q, want %q", d, got, want)
		}
	}
}

func TestEnvGetTakesTheLast(t *testing.T) {
	e := Env{Environ: []string{"A=1", "AB=2", "A=3", "C="}}
	for k, want := range map[string]string{"A": "3", "AB": "2", "C": "", "D": ""} {
		if got := e.Get(k); got != want {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
}

func TestPrintableObeysNothing(t *testing.T) {
	if got := printable("a\x1b[2J\tb\nc\u202e\u009bé", true); got != "a\ufffd[2J\tb\nc\ufffd\ufffdé" {
		t.Errorf("%q", got)
	}
	if got := printable("a\nb\tc", false); got != "a\ufffdb\ufffdc" {
		t.Errorf("%q", got)
	}
}

func TestJSONObeysNothing(t *testing.T) {
	const value = "a\u009b31m\u202e\x7f\u2028\U000e0041\x1bé\U0001f600"
	var out strings.Builder
	if err := writeJSON(&out, map[string]any{"v": value, "raw": jsontext.Value(`"\u009b` + "\u009b" + `"`)}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(strings.TrimSuffix(out.String(), "\n"), steers) || !strings.Contains(out.String(), "é\U0001f600") {
		t.Errorf("%q", out.String())
	}
	var back struct{ V, Raw string }
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back.V != value || back.Raw != "\u009b\u009b" {
		t.Errorf("%q, %v", back, err)
	}
}

// TestErrorsObeyNothing: an error may name what is stored.
func TestErrorsObeyNothing(t *testing.T) {
	var out strings.Builder
	a := &app{stderr: &sink{w: &out}}
	a.report(&cobra.Command{}, nil, failf("no \x1b[2J\u009b31m").hinted("try \u202e"))
	a.tell("lost %s", "\x1b]0;title\x07")
	if strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), steers) || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%q", out.String())
	}
}

func TestArgumentNames(t *testing.T) {
	for schema, want := range map[string]string{
		`{}`: "-",
		`{"properties":{"b":{},"a":{},"z":{}},"required":["z","a"]}`: "z a [b]",
		`{"properties":{"x":true}}`:                                  "[x]",
		`[]`:                                                         "?",
	} {
		if got := argumentNames([]byte(schema)); got != want {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
}

// TestPresetsAreGrants keeps presets within what a session may be granted.
func TestPresetsAreGrants(t *testing.T) {
	for _, p := range presets {
		grants, _ := presetGrants(p.name, 7, declared)
		if bare, ok := presetGrants(p.name, 7, nil); !ok || len(bare) != len(p.effects) || len(grants) != len(p.effects)+len(p.served) {
			t.Errorf("preset %s makes %v, and without a daemon %v", p.name, grants, bare)
		}
		for _, g := range grants {
			if err := g.Check(); err != nil || g.Budget != 7 || g.Scope != scopeOf(g.Effect) {
				t.Errorf("preset %s: %v: %v", p.name, g, err)
			}
		}
	}
	if _, ok := presetGrants("none", 1, nil); ok {
		t.Error("there is a preset none")
	}
}

// TestGuideIsWhatClientsRead parses the pieces that are to be pasted.
func TestGuideIsWhatClientsRead(t *testing.T) {
	i := &upInfo{UpWork: &UpWork{SessionFile: "/home/a b/it's"}}
	i.connect("http://127.0.0.1:9")
	text := i.guide()
	// A path with a space and a quote is one word in double quotes' $(…).
	if want := `"Authorization: Bearer $(cat '/home/a b/it'\''s')"`; !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
	}
	var configs []map[string]any
	for _, piece := range strings.Split(text, "\n\n") {
		if at := strings.Index(piece, `{"mcpServers"`); at >= 0 {
			var c map[string]any
			if err := json.Unmarshal([]byte(piece[at:]), &c); err != nil {
				t.Errorf("%v in %s", err, piece[at:])
			}
			configs = append(configs, c)
		}
	}
	server := func(s map[string]any) map[string]any {
		return map[string]any{"mcpServers": map[string]any{"world": s}}
	}
	want := []map[string]any{
		server(map[string]any{"url": "http://127.0.0.1:9/mcp/", "headers": map[string]any{"Authorization": "Bearer ${env:WORLD_TOKEN}"}}),
		server(map[string]any{"type": "http", "url": "http://127.0.0.1:9/mcp/", "headers": map[string]any{"Authorization": "Bearer ${WORLD_TOKEN}"}}),
	}
	if d := cmp.Diff(want, configs); d != "" {
		t.Error(d)
	}
}

// TestCallThatGotNoAnswer tells the task that finds out what became of it.
func TestCallThatGotNoAnswer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer srv.Close()
	r := run(t, t.Context(), nil, nil, "call", "x", "--task", "t1", "--addr", srv.URL, "--session", token)
	if r.code != ExitError || r.stdout != "" || !strings.Contains(r.stderr, "--task t1 tells, and runs nothing twice") {
		t.Errorf("%+v", r)
	}
	if strings.Contains(r.stderr, token) {
		t.Error("the credential was shown")
	}
}

// TestCallIsStoppedByItsContext does not wait for the daemon.
func TestCallIsStoppedByItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	defer srv.Close()
	r := run(t, ctx, nil, []string{"WORLD_ADDR=" + srv.URL, "WORLD_SESSION=" + token}, "call", "x", "--json-out")
	var got struct {
		Error struct{ Kind, Message, Hint string }
	}
	if err := json.Unmarshal([]byte(r.stderr), &got); err != nil || r.code != ExitError {
		t.Fatalf("%+v: %v", r, err)
	}
	if got.Error.Kind != world.KindCanceled.String() || !strings.Contains(got.Error.Hint, "--task ") {
		t.Errorf("%+v", got)
	}
}

// TestConfirmIsStoppedByItsContext: an interrupt at the question is a no.
func TestConfirmIsStoppedByItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	r, w := io.Pipe()
	defer w.Close()
	a := &app{stdin: r, stderr: &sink{w: &errs}}
	if err := a.ask(ctx, "?"); err == nil {
		t.Error("it was a yes")
	}
}

func TestSessionFileIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	f, err := newSessionFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil { // somebody was faster
		t.Fatal(err)
	}
	if err := f.write(token); err == nil {
		t.Error("it replaced a file that came meanwhile")
	}
	f.discard()
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("%v is left: %v", names, err)
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file holds %q", text)
	}
}

// goneFile makes it impossible to write the session file once the session is minted.
type goneFile struct {
	admin.Ops
	dir     string
	revoked []world.Ref
}

func (g *goneFile) Mint(context.Context, admin.MintRequest) (admin.Minted, error) {
	os.RemoveAll(g.dir)
	return admin.Minted{Credential: token, Session: world.Session{ID: hashref.SumString("id")}}, nil
}

func (g *goneFile) Revoke(_ context.Context, id world.Ref) error {
	g.revoked = append(g.revoked, id)
	return nil
}

func TestUnwrittenSessionIsRevoked(t *testing.T) {
	ops := &goneFile{dir: filepath.Join(t.TempDir(), "d")}
	if err := os.Mkdir(ops.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a := &app{}
	m, err := a.mint(t.Context(), ops, admin.MintRequest{}, filepath.Join(ops.dir, "s"), false)
	if err == nil || m.Credential != "" || strings.Contains(err.Error(), token) {
		t.Errorf("%+v, %v", m, err)
	}
	if len(ops.revoked) != 1 || ops.revoked[0] != hashref.SumString("id") {
		t.Errorf("revoked %v", ops.revoked)
	}
}

func TestErrorsAsJSONNameTheirKind(t *testing.T) {
	for _, k := range world.Kinds() {
		err := &world.Error{Op: "x", Kind: k, Msg: "told", Hint: "do"}
		if got, want := describe(err), (wireReport{Kind: k.String(), Message: "told", Hint: "do"}); got != want {
			t.Errorf("%v, want %v", got, want)
		}
		want := ExitError
		if k == world.KindIntegrity {
			want = ExitIntegrity
		}
		if got := exitCode(err); got != want {
			t.Errorf("%v exits %d, want %d", k, got, want)
		}
		if want == ExitError {
			want = ExitFatal
		}
		if got := exitCode(fatal(err)); got != want {
			t.Errorf("fatal %v exits %d, want %d", k, got, want)
		}
	}
}
