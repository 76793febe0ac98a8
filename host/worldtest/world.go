// Package worldtest is the harness of end-to-end tests: a real daemon over a real store in
// a temporary folder, real listeners, a client per actor, and checkers of the invariants
// that run when a test ends. It is imported by tests only. The invariants are listed in
// docs/invariants.md.
package worldtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/cli/worktree"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/handlers/model"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// Options says how a world differs from the usual: a genesis, the shipped packs published,
// a workspace root.
type Options struct {
	NoGenesis    bool
	NoPacks      bool
	NoWorkspace  bool
	PrivateReads bool
	PublicURL    string
	Handlers     []broker.Handler
	Pause        func(step string)
	Now          func() time.Time
	// WorkerCommand starts a worker for sources that do not ship inside the binary.
	WorkerCommand []string
	// AilangBin is the AILANG binary that is pinned. Restart looks at it again.
	AilangBin string
	// Profiles are commands that agents may run; SandboxCommand makes the test binary call
	// sandbox.Main.
	Profiles       []exec.Profile
	SandboxCommand []string
	Policy         *policy.Set
	// ToolAilangBin is the AILANG toolchain that agents may use, and ExamplesDir what they may
	// search; they need SandboxCommand.
	ToolAilangBin, ExamplesDir string
	// Plans and Issuers are of users' tokens.
	Plans   authority.Plans
	Issuers []authority.IssuerConfig
	// Models are what Model.Infer may ask.
	Models []model.Model
}

// World is one running daemon.
type World struct {
	T    testing.TB
	Dir  string // holds store/ and ws/
	DB   string
	URL  string
	Core *daemon.Core
	Ops  admin.Ops

	opts   Options
	stderr lines
	stop   func()
}

// lines collects what the daemon says.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// Start makes a world and ends it, checked, with the test.
func Start(t testing.TB, opts Options) *World {
	t.Helper()
	w := &World{T: t, Dir: t.TempDir(), opts: opts}
	w.DB = filepath.Join(w.Dir, "store", "world.db")
	for _, dir := range []string{"store", "ws"} {
		w.must(os.Mkdir(filepath.Join(w.Dir, dir), 0o700))
	}
	w.open()
	ctx := context.Background()
	if !opts.NoGenesis {
		_, err := w.Ops.Genesis(ctx, "test")
		w.must(err)
	}
	if !opts.NoPacks {
		for _, name := range []string{"workspace", "se-tools"} {
			w.PublishPack(name)
		}
	}
	t.Cleanup(w.end)
	return w
}

func (w *World) open() {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	core, err := daemon.OpenCore(ctx, daemon.CoreConfig{
		DB: w.DB, Now: w.opts.Now, Pause: w.opts.Pause, Logf: w.stderr.logf, WorkerCommand: w.opts.WorkerCommand,
		AilangBin: w.opts.AilangBin, TempDir: w.T.TempDir(),
	})
	w.must(err)
	cfg := daemon.Config{
		Bind: "127.0.0.1:0", PrivateReads: w.opts.PrivateReads, PublicURL: w.opts.PublicURL,
		RuntimeDir: w.Dir, Handlers: w.opts.Handlers, Git: worktree.FindGit(os.Environ()),
		Profiles: w.opts.Profiles, SandboxCommand: w.opts.SandboxCommand, Policy: w.opts.Policy,
		ToolAilangBin: w.opts.ToolAilangBin, ExamplesDir: w.opts.ExamplesDir,
		Plans: w.opts.Plans, Issuers: w.opts.Issuers, Models: w.opts.Models,
	}
	if !w.opts.NoWorkspace {
		cfg.WorkspaceRoot = filepath.Join(w.Dir, "ws")
	}
	d, err := daemon.New(ctx, core, cfg)
	w.must(err)
	up, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- d.Run(ctx, func(url string) { up <- url }) }()
	select {
	case w.URL = <-up:
	case err := <-done:
		w.T.Fatalf("daemon did not start: %v", err)
	}
	w.Core, w.Ops = core, core.Ops(w.URL)
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.T.Errorf("daemon ended with: %v", err)
		}
	}
}

// RestartWith is Restart with another AILANG binary, or with "" for none.
func (w *World) RestartWith(ailangBin string) {
	w.T.Helper()
	w.opts.AilangBin = ailangBin
	w.Restart()
}

// RestartWithoutTools is Restart without the AILANG toolchain and its examples.
func (w *World) RestartWithoutTools() {
	w.T.Helper()
	w.opts.ToolAilangBin, w.opts.ExamplesDir = "", ""
	w.Restart()
}

// Restart stops the daemon in good order and starts it again on the same store.
func (w *World) Restart() {
	w.T.Helper()
	w.stop()
	w.must(w.Core.Close())
	w.open()
}

func (w *World) end() {
	w.stop()
	CheckAll(w.T, w.Core.Store)
	CheckProvenance(w.T, w.Core.Store)
	CheckReplay(w.T, w.Core)
	w.must(w.Core.Close())
	if w.T.Failed() && w.Stderr() != "" {
		w.T.Logf("the daemon said:\n%s", w.Stderr())
	}
}

func (w *World) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Stderr is what the daemon said so far, a line each.
func (w *World) Stderr() string {
	w.stderr.mu.Lock()
	defer w.stderr.mu.Unlock()
	return strings.Join(w.stderr.all, "\n")
}

// Mint makes a session of an hour; grants are EFFECT=SCOPE:BUDGET.
func (w *World) Mint(episode string, grants ...string) string {
	w.T.Helper()
	gs := make([]world.Grant, len(grants))
	for i, text := range grants {
		g, err := world.ParseGrant(text)
		w.must(err)
		gs[i] = g
	}
	m, err := w.Ops.Mint(context.Background(), admin.MintRequest{Episode: episode, Grants: gs, TTL: time.Hour})
	w.must(err)
	return m.Credential
}

// MintToken makes a user's token.
func (w *World) MintToken(subject, plan, ttl string) string {
	w.T.Helper()
	m, err := w.Ops.MintToken(context.Background(), admin.TokenRequest{Subject: subject, Plan: plan, TTL: ttl})
	w.must(err)
	return m.Credential
}

// Coding is what an agent that reads and writes is granted.
func Coding(budget int) []string {
	var grants []string
	for _, effect := range []string{"Workspace.Read", "Workspace.Write", "Git.Read", "Git.Commit"} {
		grants = append(grants, fmt.Sprintf("%s=worktree:%d", effect, budget))
	}
	return grants
}

// Worktree makes the episode's worktree, a real git worktree of a fresh repository with
// these files, and gives its path.
func (w *World) Worktree(episode string, files map[string]string) string {
	w.T.Helper()
	repo := filepath.Join(w.T.TempDir(), "repo")
	w.must(os.MkdirAll(repo, 0o755))
	w.git(repo, "init", "-q", "-b", "main")
	for name, text := range files {
		path := filepath.Join(repo, filepath.FromSlash(name))
		w.must(os.MkdirAll(filepath.Dir(path), 0o755))
		w.must(os.WriteFile(path, []byte(text), 0o644))
	}
	w.git(repo, "add", "-A")
	w.git(repo, "commit", "-q", "--allow-empty", "-m", "first")
	path := filepath.Join(w.Dir, "ws", episode)
	w.git(repo, "worktree", "add", "-q", "-b", "world/"+episode, path, "HEAD")
	return path
}

func (w *World) git(dir string, args ...string) {
	w.T.Helper()
	cmd := osexec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "core.hooksPath=/dev/null"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		w.T.Fatalf("git %v: %v\n%s", args, err, out.String())
	}
}

// PublishPack publishes a shipped pack.
func (w *World) PublishPack(name string) registry.Published {
	w.T.Helper()
	p, err := packs.Load(name)
	w.must(err)
	return w.Publish(string(p.Manifest), p.Files)
}

// Publish publishes a manifest with its sources.
func (w *World) Publish(manifest string, files map[string][]byte) registry.Published {
	w.T.Helper()
	p, err := w.Ops.Publish(context.Background(), registry.Manifest{Text: []byte(manifest), Files: files})
	w.must(err)
	return p
}
