package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

var _ broker.Handler = (*Handler)(nil)

const (
	episode = "ep"
	verb    = "sandbox-init"
)

// TestMain makes the test binary process 1 of a sandbox.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == verb {
		if err := sandbox.Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is a handler over a real worktree.
type rig struct {
	t      *testing.T
	h      *Handler
	tree   string
	ledger *ledger
}

func shell(name, script string) Profile {
	return Profile{Name: name, Argv: []string{"sh", "-c", script}, Args: Args{Max: 3}}
}

func jobProfile(name, script string) Profile {
	p := shell(name, script)
	p.Job = true
	return p
}

func newRig(t *testing.T, profiles ...Profile) *rig {
	t.Helper()
	return newRigWith(t, Config{Profiles: profiles})
}

func newRigWith(t *testing.T, c Config) *rig {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	r := &rig{t: t, ledger: &ledger{t: t}}
	c.Root = t.TempDir()
	r.tree = filepath.Join(c.Root, episode)
	must(t, os.Mkdir(r.tree, 0o755))
	c.Sandbox = sandbox.New(sandbox.Config{Command: []string{exe, verb}, Logf: t.Logf})
	c.Slots = capsule.NewSlots(2)
	c.Ledger, c.Logf = r.ledger, t.Logf
	r.h, err = New(t.Context(), c)
	must(t, err)
	t.Cleanup(func() {
		must(t, r.h.Close(context.Background()))
		r.ledger.balanced()
	})
	return r
}

// ledger is a Ledger in memory that fails the test on misuse.
type ledger struct {
	t       *testing.T
	mu      sync.Mutex
	refuse  error
	began   []Job
	results map[string]string
}

func (l *ledger) Begin(ctx context.Context, j Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil || len(j.ID) != 32 || j.Episode == "" || j.Profile == "" || j.Started.IsZero() {
		l.t.Errorf("Begin of %+v", j)
	}
	if l.refuse != nil {
		return l.refuse
	}
	l.began = append(l.began, j)
	return nil
}

func (l *ledger) End(ctx context.Context, j Job, result []byte, failed string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.results == nil {
		l.results = make(map[string]string)
	}
	if _, twice := l.results[j.ID]; twice || ctx.Err() != nil || (result == nil) == (failed == "") {
		l.t.Errorf("End of %s with %s, %q", j.ID, result, failed)
	}
	l.results[j.ID] = string(result) + failed
	return nil
}

func (l *ledger) balanced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.began {
		if _, ok := l.results[j.ID]; !ok {
			l.t.Errorf("job %s has no end", j.ID)
		}
	}
	if len(l.results) != len(l.began) {
		l.t.Errorf("%d began, %d ended", len(l.began), len(l.results))
	}
}

type obj = map[string]any

// short is the deadline of calls that are to outlast it.
const short = callMargin + time.Second

func (r *rig) raw(timeout time.Duration, payload obj) ([]byte, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	return r.h.Perform(ctx, broker.Request{Invocation: "a2a:ep:t", Episode: episode, EffectID: "e1",
		Need: world.Need{Effect: Effect, Scope: Scope, Cost: 1}, Payload: hashref.MustMarshal(payload)})
}

// call performs a payload and gives the answer without what every one has.
func (r *rig) call(timeout time.Duration, payload obj) obj {
	r.t.Helper()
	out, err := r.raw(timeout, payload)
	must(r.t, err)
	if again, err := hashref.CanonicalObject(out); err != nil || string(again) != string(out) {
		r.t.Fatalf("answer is not canonical (%v): %s", err, out)
	}
	return r.plain(out)
}

func (r *rig) plain(out []byte) obj {
	r.t.Helper()
	var v obj
	must(r.t, json.Unmarshal(out, &v))
	known := map[string]bool{}
	for _, o := range r.h.Objects() {
		known[o.Hash.String()] = true
		known[o.Hash.Hex()] = true
	}
	for _, key := range []string{"tool", "policy_digest"} {
		if s, _ := v[key].(string); !known[s] {
			r.t.Errorf("%s is no object of the handler: %s", key, out)
		}
		delete(v, key)
	}
	for _, key := range []string{"duration_ms", "cpu_ms"} {
		if n, ok := v[key].(float64); ok && n >= 0 {
			delete(v, key)
		}
	}
	return v
}

func ran(members obj) obj {
	all := obj{"ok": true, "exit_code": 0.0, "signal": "", "stdout": "", "stderr": "", "truncated": false, "limit": ""}
	for k, v := range members {
		all[k] = v
	}
	return all
}

func (r *rig) want(timeout time.Duration, payload, want obj) {
	r.t.Helper()
	if d := cmp.Diff(want, r.call(timeout, payload)); d != "" {
		r.t.Errorf("%v (-want +got):\n%s", payload, d)
	}
}

func TestRun(t *testing.T) {
	r := newRig(t, shell("echo", `echo "out $0 $1"; echo err >&2; pwd; cat; echo made >file`), shell("fail", "exit 3"), shell("kill", "kill -9 $$"),
		shell("bytes", `printf 'a\377b'`), Profile{Name: "own", Argv: []string{"./tool"}}, Profile{Name: "env", Argv: []string{"env"}, Env: map[string]string{"A": "1", "HOME": "/h"}})
	r.want(broker.HandlerTimeout, obj{"profile": "echo", "args": []string{"x", "y z"}}, ran(obj{"stdout": "out x y z\n" + r.tree + "\n", "stderr": "err\n"}))
	if b, err := os.ReadFile(filepath.Join(r.tree, "file")); err != nil || string(b) != "made\n" {
		t.Errorf("%q %v", b, err)
	}
	r.want(broker.HandlerTimeout, obj{"profile": "fail"}, ran(obj{"ok": false, "exit_code": 3.0}))
	r.want(broker.HandlerTimeout, obj{"profile": "kill"}, ran(obj{"ok": false, "exit_code": -1.0, "signal": "SIGKILL"}))
	r.want(broker.HandlerTimeout, obj{"profile": "bytes"}, ran(obj{"stdout": "a\uFFFDb"}))
	r.want(broker.HandlerTimeout, obj{"profile": "env"}, ran(obj{"stdout": "A=1\nHOME=/h\nLANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin\nTMPDIR=/tmp\nTZ=UTC\n"}))
	if _, err := r.raw(broker.HandlerTimeout, obj{"profile": "own"}); world.KindOf(err) != world.KindNotFound || !strings.Contains(world.Message(err), "cannot be started") {
		t.Errorf("a missing program: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(r.tree, "tool"), []byte("#!/bin/sh\necho own\n"), 0o755))
	r.want(broker.HandlerTimeout, obj{"profile": "own"}, ran(obj{"stdout": "own\n"}))
}

func TestPolicyHoldsInCommands(t *testing.T) {
	set, err := policy.New(policy.Config{Rules: policy.Rules{Deny: []string{"*.pem"}, Allow: []string{".vscode/"}}})
	must(t, err)
	r := newRigWith(t, Config{Policy: set, Profiles: []Profile{
		shell("plant", "mkdir -p .GitHub a/.git .vscode; echo x >.GitHub/x; echo x >a/.git/config; echo x >key.pem; echo x >.vscode/x; echo y >old.pem"),
	}})
	must(t, os.WriteFile(filepath.Join(r.tree, "old.pem"), []byte("old"), 0o644))
	got := r.call(broker.HandlerTimeout, obj{"profile": "plant"})
	if d := cmp.Diff([]any{".GitHub", "a/.git", "key.pem"}, got["removed"]); d != "" {
		t.Error(d)
	}
	if !strings.Contains(got["stderr"].(string), "Read-only file system") || got["ok"] != false {
		t.Errorf("got %v", got)
	}
	for name, there := range map[string]bool{".GitHub": false, "a/.git": false, "key.pem": false, ".vscode/x": true, "a": true} {
		if _, err := os.Lstat(filepath.Join(r.tree, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(r.tree, "old.pem")); string(b) != "old" {
		t.Errorf("old.pem is %q", b)
	}
}

func TestJob(t *testing.T) {
	r := newRig(t, jobProfile("slow", "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last; exit 4"), jobProfile("quick", "echo hi"))
	r.want(broker.HandlerTimeout, obj{"profile": "quick"}, ran(obj{"stdout": "hi\n"}))
	got := r.call(short, obj{"profile": "slow"})
	id, _ := got["job"].(string)
	want := obj{"ok": true, "job": id, "running": true, "stdout": "first\n", "stderr": "", "truncated": false}
	if d := cmp.Diff(want, got); d != "" || len(id) != 32 {
		t.Fatal(d)
	}
	poll := obj{"op": "job", "job": id, "action": "poll"}
	r.want(short, poll, want)
	must(t, os.WriteFile(filepath.Join(r.tree, "go"), nil, 0o644))
	<-r.h.jobs.find(episode, id).done
	end := ran(obj{"ok": false, "exit_code": 4.0, "stdout": "first\nlast\n", "job": id})
	r.want(short, poll, end)
	r.want(short, obj{"op": "job", "job": id, "action": "cancel"}, end)
	if d := cmp.Diff(end, r.plain([]byte(r.ledger.results[id]))); d != "" {
		t.Error(d)
	}
	out, err := r.h.Perform(t.Context(), broker.Request{Episode: "other", Need: world.Need{Effect: Effect, Scope: Scope}, Payload: hashref.MustMarshal(poll)})
	must(t, err)
	if got := r.plain(out); got["ok"] != false || !strings.Contains(got["refused"].(string), "no such job in this episode") {
		t.Errorf("another episode sees the job: %v", got)
	}
}

func TestJobCancel(t *testing.T) {
	r := newRig(t, jobProfile("slow", "echo first; trap '' TERM; sleep 100 & sleep 100"))
	id := r.call(short, obj{"profile": "slow"})["job"]
	r.want(short*3, obj{"op": "job", "job": id, "action": "cancel"},
		ran(obj{"ok": false, "exit_code": -1.0, "signal": "SIGKILL", "stdout": "first\n", "job": id, "canceled": true}))
}

func TestLimitsAreNamed(t *testing.T) {
	slow := shell("slow", "sleep 100")
	slow.Limits.Timeout = time.Second / 2
	r := newRig(t, slow, shell("outlast", "sleep 100"))
	dead := ran(obj{"ok": false, "exit_code": -1.0, "signal": "SIGKILL", "limit": "timeout"})
	r.want(broker.HandlerTimeout, obj{"profile": "slow"}, dead)
	r.want(short, obj{"profile": "outlast"}, dead)
}
