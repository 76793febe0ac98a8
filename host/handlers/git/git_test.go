package git

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

const episode = "ep"

// bench is a repository of a person's, with a worktree for the episode as the command line
// makes it, and a handler.
type bench struct {
	testing.TB
	h                *Handler
	home, repo, tree string
	logEnd           int64
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{TB: t, logEnd: 7}
	top := t.TempDir()
	b.home, b.repo, b.tree = filepath.Join(top, "home"), filepath.Join(top, "repo"), filepath.Join(top, "ws", episode)
	for _, d := range []string{b.home, b.repo, filepath.Dir(b.tree), filepath.Join(top, "scratch")} {
		must(t, os.Mkdir(d, 0o755))
	}
	b.git(b.repo, "init", "-q", "-b", "main")
	b.write(b.repo, "a.txt", "one\ntwo\nthree\n")
	b.write(b.repo, "dir/b.txt", "b\n")
	b.git(b.repo, "add", "-A")
	b.git(b.repo, "commit", "-q", "-m", "first")
	b.git(b.repo, "worktree", "add", "-q", "-b", "world/"+episode, b.tree, "HEAD")
	b.h = b.handler(filepath.Join(top, "scratch"))
	return b
}

func (b *bench) handler(scratch string) *Handler {
	b.Helper()
	h, err := New(b.Context(), Config{
		Root: filepath.Dir(b.tree), Git: gitPath(b.TB), Scratch: scratch, Store: "store1",
		LogEnd: func(context.Context) (int64, error) { return b.logEnd, nil },
		Now:    func() time.Time { return time.Unix(1_700_000_000, 0) },
	})
	must(b.TB, err)
	return h
}

func gitPath(t testing.TB) string {
	t.Helper()
	p, err := exec.LookPath("git")
	must(t, err)
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) write(dir, name, text string) {
	b.Helper()
	at := filepath.Join(dir, name)
	must(b.TB, os.MkdirAll(filepath.Dir(at), 0o755))
	must(b.TB, os.WriteFile(at, []byte(text), 0o644))
}

// plain is git as the person runs it.
func (b *bench) plain(dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.Context(), gitPath(b.TB), args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + b.home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@x", "GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@x"}
	return cmd
}

func (b *bench) git(dir string, args ...string) string {
	b.Helper()
	out, err := b.plain(dir, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// perform does an effect, given the payload's members as Go values.
func (b *bench) perform(ctx context.Context, op string, members map[string]any) ([]byte, error) {
	b.Helper()
	must(b.TB, b.h.Ready(ctx, episode, effectOf(op), Scope))
	return b.h.Perform(ctx, request(op, members))
}

// attempt is perform without being ready.
func (b *bench) attempt(op string, members map[string]any) ([]byte, error) {
	if op != "commit" {
		members = nil
	}
	return b.h.Perform(b.Context(), request(op, members))
}

func effectOf(op string) string {
	if op == "commit" {
		return EffectCommit
	}
	return EffectRead
}

func request(op string, members map[string]any) broker.Request {
	effect := effectOf(op)
	all := map[string]any{"op": op}
	for k, v := range members {
		all[k] = v
	}
	return broker.Request{Episode: episode, EffectID: "e1", Payload: hashref.MustMarshal(all),
		Need: world.Need{Effect: effect, Scope: Scope, Cost: 1}}
}

// do is perform for what is answered.
func (b *bench) do(op string, members map[string]any) map[string]any {
	b.Helper()
	out, err := b.perform(b.Context(), op, members)
	if err != nil {
		b.Fatalf("%s %v: %v", op, members, err)
	}
	var v map[string]any
	must(b.TB, json.Unmarshal(out, &v))
	if v["tool"] != b.h.stamp || v["policy_digest"] != policy.Default().For(episode).Digest() {
		b.Fatalf("%s: who did it is not told: %v", op, v)
	}
	return v
}

// ok demands an answer that is no refusal.
func (b *bench) ok(op string, members map[string]any) map[string]any {
	b.Helper()
	v := b.do(op, members)
	if v["ok"] != true {
		b.Fatalf("%s %v: refused: %v", op, members, v["refused"])
	}
	return v
}

// refused demands a refusal that holds some words.
func (b *bench) refused(op string, members map[string]any, words string) {
	b.Helper()
	v := b.do(op, members)
	if text, _ := v["refused"].(string); v["ok"] != false || !strings.Contains(text, words) {
		b.Errorf("%s %v: got %v, want a refusal with %q", op, members, v, words)
	}
}

// forBench is a bench whose worktree has files enough to be looked at.
func forBench(tb testing.TB) (h *Handler, tree string, plain func(dir string, args ...string) *exec.Cmd) {
	b := newBench(tb)
	for i := range 1000 {
		b.write(b.tree, fmt.Sprintf("d%d/f%d", i%10, i), "x\n")
	}
	b.git(b.tree, "add", "-A")
	b.git(b.tree, "commit", "-qm", "many")
	return b.h, b.tree, b.plain
}
