package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/worldtest"
	"ailang.dev/world/host/worldtest/wire"
)

// workerVerb makes the test binary a worker for sources that do not ship inside it.
const workerVerb = "world-e2e-worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == workerVerb {
		if err := daemon.WorkerMain(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == openidVerb {
		if err := openidMain(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == sandboxVerb {
		if err := sandbox.Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// actMethod is not of HTTP: a request with it is not sent, but names something that the
// stage does, such as publishing, revoking, or a call that goes on in the background.
const actMethod = "ACT"

// stage is a real daemon, and all that its transcript may name.
type stage struct {
	*worldtest.World
	t     *testing.T
	bench *bench
	// vars are the transcript's variables, acts what "ACT /name" does. What an act returns
	// is the body of its answer.
	vars map[string]string
	acts map[string]func() string
}

// newStage starts a world whose handlers include the bench and which can run sources that
// do not ship.
func newStage(t *testing.T, opts worldtest.Options) *stage {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	opts.Handlers = append(opts.Handlers, b)
	opts.WorkerCommand = []string{self, workerVerb}
	s := &stage{t: t, bench: b, acts: map[string]func() string{}, vars: map[string]string{
		"NOBODY": strings.Repeat("0f", 32),
	}}
	s.World = worldtest.Start(t, opts)
	s.vars["URL"], s.vars["DB"] = s.URL, s.DB
	s.acts["stderr"] = s.newLines()
	return s
}

// mint makes a session and names it.
func (s *stage) mint(name, episode string, grants ...string) {
	s.t.Helper()
	s.vars[name] = s.Mint(episode, grants...)
}

// publish publishes a manifest of testdata/programs with its sources.
func (s *stage) publish(manifest string) {
	s.t.Helper()
	dir := filepath.Join("testdata", "programs")
	text, err := os.ReadFile(filepath.Join(dir, manifest))
	if err != nil {
		s.t.Fatal(err)
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*.star"))
	if err != nil || len(sources) == 0 {
		s.t.Fatalf("no sources in %s (%v)", dir, err)
	}
	files := map[string][]byte{}
	for _, path := range sources {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			s.t.Fatal(err)
		}
	}
	s.Publish(string(text), files)
}

// told is how the lines begin that say why something was refused or failed.
var told = regexp.MustCompile(`^(mcp refusal|a2a refusal|tasks refusal|effect failed:|rest:) `)

// newLines is an act that gives the refusals which the daemon told its operator since the
// act was last asked. The stacks of panics are left out.
func (s *stage) newLines() func() string {
	seen := 0
	return func() string {
		lines := strings.Split(s.Stderr(), "\n")
		fresh := slices.Clone(lines[seen:])
		seen = len(lines)
		return strings.Join(slices.DeleteFunc(fresh, func(l string) bool { return !told.MatchString(l) }), "\n")
	}
}

// do sends a request to the daemon, or acts.
func (s *stage) do(t *testing.T) func(*http.Request) *http.Response {
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(r *http.Request) *http.Response {
		if r.Method != actMethod {
			return wire.To(t, client, s.URL)(r) // a restart moves it
		}
		act := s.acts[strings.TrimPrefix(r.URL.Path, "/")]
		if act == nil {
			t.Fatalf("the stage cannot %s", r.URL.Path)
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(act()))}
	}
}

// background sends a request that will wait, and gives its answer later.
func (s *stage) background(path, token, body string) func() string {
	answer := make(chan string, 1)
	go func() { answer <- s.post(path, token, body) }()
	return func() string { return <-answer }
}

// post sends a well-formed POST and gives what a transcript would show of the answer, or
// the error.
func (s *stage) post(path, token, body string) string {
	r, err := http.NewRequest(http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	if resp.Close {
		return "Connection: close\n" + string(text)
	}
	return string(text)
}

// sendTask is the body of a tasks/send.
func sendTask(id, skill, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":%q,"metadata":{"skill_id":%q},"message":{"role":"user","parts":[{"type":"data","data":%s}]}}}`, id, skill, args)
}

// callTool is the body of a tools/call.
func callTool(name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, args)
}

// TestWire plays every transcript of testdata, each against a daemon of its own. A
// transcript without a stage, and a stage without a transcript, fail.
func TestWire(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	played := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		played[name] = true
		set := stages[name]
		if set == nil {
			t.Errorf("%s has no stage", file)
			continue
		}
		t.Run(name, func(t *testing.T) {
			if parallel[name] {
				t.Parallel()
			}
			s := set(t)
			wire.Play(t, file, s.do(t), s.vars)
		})
	}
	for name := range stages {
		if !played[name] {
			t.Errorf("stage %s has no transcript", name)
		}
	}
}

// parallel are the transcripts that wait for real deadlines.
var parallel = map[string]bool{"late": true}

// fill is n spaces, which a JSON text may have at its end.
func fill(n int) string { return string(bytes.Repeat([]byte(" "), n)) }
