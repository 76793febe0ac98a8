// Package repos holds a day's work in real repositories: a Go module with vendored
// dependencies, a C program and an npm package, each with its own tests, fetched with the
// official tools. An agent that is the official Go SDK has World's tools alone: it looks
// round, builds, tests, breaks and repairs, adds a test, asks a person and commits. What its
// commands tell must be what the same commands tell outside the sandbox.
package repos

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/worldtest"
)

const (
	episode = "day"
	// startTimeout bounds one start of the daemon, commandTimeout one program run outside,
	// dayTimeout all that an agent does in one repository.
	startTimeout   = 30 * time.Second
	commandTimeout = 3 * time.Minute
	dayTimeout     = 6 * time.Minute
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// daemonBinary is the real program, built once.
var daemonBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "world-repos-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "ailang-worldd")
	out, err := exec.Command("go", "build", "-o", bin, "ailang.dev/world/cmd/ailang-worldd").CombinedOutput()
	os.Stderr.Write(out)
	return bin, err
})

// TestMain takes the binary away again.
func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := daemonBinary(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// site is a store, a repository with an episode's worktree, and a daemon.
type site struct {
	t          *testing.T
	bin, dir   string
	repo, tree string
	token, url string
	cmd        *exec.Cmd
	stderr     bytes.Buffer // whole once the daemon has ended
}

func (s *site) home() string { return filepath.Join(s.dir, "home") }
func (s *site) db() string   { return filepath.Join(s.home(), "store", "world.db") }

// newSite makes a repository and a configuration.
func newSite(t *testing.T, fill func(t *testing.T, dir string), profiles map[string]profile) *site {
	t.Helper()
	bin, err := daemonBinary()
	must(t, err)
	s := &site{t: t, bin: bin, dir: t.TempDir()}
	s.repo = filepath.Join(s.dir, "repo")
	must(t, os.Mkdir(s.repo, 0o755))
	fill(t, s.repo)
	s.git("init", "-q", "-b", "main")
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "as it is published")
	config, err := yaml.Marshal(map[string]any{"exec": map[string]any{"profiles": profiles}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.dir, "world.yaml"), config, 0o600))

	return s
}

// cli runs the real command line, and gives what it printed.
func (s *site) cli(args ...string) string {
	s.t.Helper()
	r := outside(s.t, ".", os.Environ(), append([]string{s.bin}, args...))
	if r.exit != 0 {
		s.t.Fatalf("ailang-worldd %q: exit %d\n%s%s", args, r.exit, r.stdout, r.stderr)
	}
	return r.stdout
}

// git runs git in the repository's main checkout, as its owner.
func (s *site) git(args ...string) string {
	s.t.Helper()
	argv := append([]string{"git", "-C", s.repo, "-c", "user.name=o", "-c", "user.email=o@o.invalid", "-c", "core.hooksPath=/dev/null"}, args...)
	r := outside(s.t, s.repo, os.Environ(), argv)
	if r.exit != 0 {
		s.t.Fatalf("%q: %s", argv, r.stderr)
	}
	return r.stdout
}

// checkout is all that belongs to whoever owns the repository: the branch they are on, what
// is changed in their files, and every ref but the episode's.
func (s *site) checkout() string {
	s.t.Helper()
	var refs []string
	for ref := range strings.Lines(s.git("for-each-ref")) {
		if !strings.HasSuffix(strings.TrimSpace(ref), "refs/heads/world/"+episode) {
			refs = append(refs, ref)
		}
	}
	return s.git("rev-parse", "HEAD", "--abbrev-ref", "HEAD") + s.git("status", "--porcelain", "--ignored") + s.git("config", "--list", "--local") + strings.Join(refs, "")
}

// start is what an operator types: all else follows from it.
func (s *site) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.bin, "up", "--home", s.home(), "--repo", s.repo, "--episode", episode, "--bind", "127.0.0.1:0", "--config", filepath.Join(s.dir, "world.yaml"), "--json")
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	must(s.t, err)
	must(s.t, s.cmd.Start())
	s.t.Cleanup(func() {
		if s.cmd.ProcessState == nil { // the test failed before it came to stop
			s.cmd.Process.Kill()
			s.cmd.Wait()
			s.t.Logf("the daemon said:\n%s", s.stderr.String())
		}
	})
	timer := time.AfterFunc(startTimeout, func() { s.cmd.Process.Kill() })
	defer timer.Stop()
	var up struct {
		URL      string `json:"url"`
		Session  string `json:"session_file"`
		Worktree struct {
			Path string `json:"path"`
		} `json:"worktree"`
	}
	must(s.t, json.NewDecoder(out).Decode(&up))
	token, err := os.ReadFile(up.Session)
	must(s.t, err)
	s.url, s.tree, s.token = up.URL, up.Worktree.Path, strings.TrimSpace(string(token))
}

// stop ends the daemon in good order, and checks the store.
func (s *site) stop() {
	s.t.Helper()
	must(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the daemon ended with %v\n%s", err, s.stderr.String())
	}
	db, err := sqlite.Open(context.Background(), sqlite.Options{Path: s.db(), Logf: s.t.Logf})
	must(s.t, err)
	defer db.Close()
	worldtest.CheckAll(s.t, db)
	open, _, err := db.Unresolved(context.Background(), 0, 10)
	if err != nil || len(open) != 0 {
		s.t.Errorf("left open: %+v, %v", open, err)
	}
}

// result is what a program said.
type result struct {
	exit           int
	stdout, stderr string
}

// outside runs a program without any sandbox.
func outside(t testing.TB, dir string, env, argv []string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%q: %v, %v", argv, err, ctx.Err())
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}
