package exec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

func TestArguments(t *testing.T) {
	p := Profile{Name: "p", Argv: []string{"echo"}, Args: Args{Max: 2, MaxBytes: 10, Pattern: `\./[a-z/]+|-run=x|ab`}}
	flags := p
	flags.Name, flags.Args.Flags = "flags", true
	none := Profile{Name: "none", Argv: []string{"echo"}}
	free := Profile{Name: "free", Argv: []string{"echo"}, Args: Args{Max: 1}}
	r := newRig(t, p, flags, none, free)
	for _, c := range []struct {
		profile string
		args    []string
		refused string
	}{
		{"p", []string{"./a/b", "ab"}, ""},
		{"p", []string{"ab", "ab", "ab"}, `3 arguments; profile "p" takes at most 2`},
		{"p", []string{"./aaaaaaaaa"}, `argument 1 is 11 bytes long; profile "p" takes at most 10`},
		{"p", []string{"ab", "abc"}, `argument 2 does not match what profile "p" takes: \./[a-z/]+|-run=x|ab`}, // the whole of it, on each side of |
		{"p", []string{"xab"}, `argument 1 does not match what profile "p" takes: \./[a-z/]+|-run=x|ab`},
		{"p", []string{"-run=x"}, `argument 1 begins with "-": profile "p" takes no flags`},
		{"p", []string{"ab\n"}, `argument 1 does not match what profile "p" takes: \./[a-z/]+|-run=x|ab`},
		{"flags", []string{"-run=x"}, ""},
		{"none", []string{"a"}, `profile "none" takes no arguments`},
		{"none", nil, ""},
		{"free", []string{"é /x; $(y) 'z'"}, ""},
		{"free", []string{""}, ""},
		{"free", []string{"a\nb"}, "argument 1 holds characters that do not print"},
		{"free", []string{"a\x1bb"}, "argument 1 holds characters that do not print"},
		{"free", []string{"a\x00b"}, "argument 1 is not text"},
		{"free", []string{strings.Repeat("a", 4097)}, `argument 1 is 4097 bytes long; profile "free" takes at most 4096`},
	} {
		payload := obj{"profile": c.profile}
		if c.args != nil {
			payload["args"] = c.args
		}
		want := ran(obj{"stdout": strings.Join(c.args, " ") + "\n"})
		if c.refused != "" {
			want = obj{"ok": false, "refused": c.refused}
		}
		r.want(broker.HandlerTimeout, payload, want)
	}
	r.want(broker.HandlerTimeout, obj{"profile": "nope"}, obj{"ok": false, "refused": `there is no profile "nope"; there are: ` +
		`flags: echo (up to 2 arguments that match \./[a-z/]+|-run=x|ab, flags too); free: echo (up to 1 arguments); none: echo (no arguments); ` +
		`p: echo (up to 2 arguments that match \./[a-z/]+|-run=x|ab)`})
}

func TestPayloadContract(t *testing.T) {
	r := newRig(t, shell("p", "true"))
	for _, payload := range []obj{
		{}, {"profile": 1}, {"profile": "p", "args": "x"}, {"profile": "p", "args": nil}, {"profile": "p", "more": 1}, {"profile": "p", "args": []any{1}},
		{"op": "run", "profile": "p"}, {"op": "job"}, {"op": "job", "job": "x"}, {"op": "job", "job": "x", "action": "stop"}, {"op": 1, "job": "x", "action": "poll"},
		{"op": "job", "job": "x", "action": "poll", "profile": "p"},
	} {
		if out, err := r.raw(broker.HandlerTimeout, payload); world.KindOf(err) != world.KindBadRequest || world.Message(err) == "" {
			t.Errorf("%v: %s %v", payload, out, err)
		}
	}
	for _, need := range []world.Need{{Effect: "Workspace.Read", Scope: Scope}, {Effect: Effect, Scope: "other"}} {
		if _, err := r.h.Perform(t.Context(), broker.Request{Episode: episode, Need: need, Payload: []byte(`{"profile":"p"}`)}); world.KindOf(err) != world.KindNoHandler {
			t.Errorf("%v: %v", need, err)
		}
	}
}

func TestReady(t *testing.T) {
	r := newRig(t, shell("p", "true"))
	link := filepath.Join(filepath.Dir(r.tree), "link")
	must(t, os.Symlink(r.tree, link))
	ctx := t.Context()
	must(t, r.h.Ready(ctx, episode, Effect, Scope))
	for _, c := range [][3]string{{"none", Effect, Scope}, {"link", Effect, Scope}, {"../ep", Effect, Scope}, {episode, "Workspace.Read", Scope}, {episode, Effect, "other"}} {
		if err := r.h.Ready(ctx, c[0], c[1], c[2]); err == nil || world.Message(err) == "" {
			t.Errorf("%v: %v", c, err)
		}
	}
	bare, err := New(ctx, Config{Root: filepath.Dir(r.tree)})
	must(t, err)
	if err := bare.Ready(ctx, episode, Effect, Scope); world.KindOf(err) != world.KindNoHandler {
		t.Errorf("without profiles: %v", err)
	}
	must(t, bare.Close(ctx))
	must(t, os.Remove(link))
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644))
	exe, err := os.Executable()
	must(t, err)
	box := sandbox.New(sandbox.Config{Command: []string{exe, verb}})
	ok := Profile{Name: "p", Argv: []string{"true"}}
	with := func(change func(*Profile)) []Profile {
		p := ok
		change(&p)
		return []Profile{p}
	}
	for name, c := range map[string]struct {
		profiles []Profile
		says     string
	}{
		"name":           {with(func(p *Profile) { p.Name = "-" }), "must be 1 to 64"},
		"twice":          {[]Profile{ok, ok}, "is declared twice"},
		"too many":       {make([]Profile, MaxProfiles+1), "at most"},
		"no argv":        {with(func(p *Profile) { p.Argv = nil }), "argv must name a program"},
		"NUL":            {with(func(p *Profile) { p.Argv = []string{"true", "a\x00"} }), "argv holds a NUL"},
		"description":    {with(func(p *Profile) { p.Description = strings.Repeat("x", MaxDescription+1) }), "description is longer"},
		"relative":       {with(func(p *Profile) { p.ReadOnly = []string{"a"} }), "read_only"},
		"missing path":   {with(func(p *Profile) { p.ReadOnly = []string{"/no/such"} }), `read_only "/no/such" cannot be used`},
		"env":            {with(func(p *Profile) { p.Env = map[string]string{"A=": ""} }), "env"},
		"not in PATH":    {with(func(p *Profile) { p.Argv = []string{"no-such-program"} }), "is in no folder of PATH"},
		"not visible":    {with(func(p *Profile) { p.Argv = []string{filepath.Join(dir, "plain")} }), "add its folder to read_only"},
		"no program":     {with(func(p *Profile) { p.Argv, p.ReadOnly = []string{filepath.Join(dir, "plain")}, []string{dir} }), "is no program"},
		"max":            {with(func(p *Profile) { p.Args.Max = MaxExtra + 1 }), "args.max"},
		"max bytes":      {with(func(p *Profile) { p.Args.MaxBytes = MaxExtraBytes + 1 }), "args.max_bytes"},
		"pattern":        {with(func(p *Profile) { p.Args.Pattern = "(" }), "args.pattern"},
		"long pattern":   {with(func(p *Profile) { p.Args.Pattern = strings.Repeat("a", MaxPattern+1) }), "args.pattern"},
		"timeout":        {with(func(p *Profile) { p.Limits.Timeout = time.Minute }), "limits.timeout"},
		"job timeout":    {with(func(p *Profile) { p.Job, p.Limits.Timeout = true, MaxTimeout+1 }), "limits.timeout"},
		"keep":           {with(func(p *Profile) { p.Limits.Keep = MaxKeep + 1 }), "limits.keep"},
		"negative":       {with(func(p *Profile) { p.Limits.CPU = -1 }), "limits.cpu"},
		"job, no ledger": {with(func(p *Profile) { p.Job = true }), "nothing keeps account of jobs"},
	} {
		h, err := New(t.Context(), Config{Root: dir, Profiles: c.profiles, Sandbox: box})
		if h != nil || world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(t.Context(), Config{Root: filepath.Join(dir, "no")}); world.KindOf(err) != world.KindBadRequest {
		t.Errorf("missing root: %v", err)
	}
}

// A host that cannot confine commands serves none: what is missing is told, and how to get it.
func TestHostThatCannotConfine(t *testing.T) {
	dir := t.TempDir()
	_, err := New(t.Context(), Config{Root: dir, Profiles: []Profile{{Name: "p", Argv: []string{"true"}}},
		Sandbox: sandbox.New(sandbox.Config{Command: []string{"/bin/false"}})})
	if world.KindOf(err) != world.KindNoHandler || !strings.Contains(world.Message(err), "cannot confine commands") || !strings.Contains(world.Message(err), "missing: ") {
		t.Errorf("%v", err)
	}
}

func TestToolsNameTheProfile(t *testing.T) {
	secret := shell("a", "true")
	secret.Env = map[string]string{"TOKEN": "s3cret"}
	r := newRig(t, secret, shell("b", "true"))
	seen := map[string]bool{}
	for _, o := range r.h.Objects() {
		if o.SemanticID == world.SemTool {
			seen[o.Hash.String()] = true
		}
		if strings.Contains(string(o.Payload), "s3cret") {
			t.Errorf("a variable's value stands in %s", o.Payload)
		}
	}
	if len(seen) != 3 { // one a profile, and the handler's own
		t.Errorf("%d tool objects", len(seen))
	}
}

func TestWorktreeInProfiles(t *testing.T) {
	p := Profile{Name: "p", Argv: []string{"sh", "-c", "echo $A {worktree}/y"}, Env: map[string]string{"A": "{worktree}/x"}}
	r := newRig(t, p)
	r.want(broker.HandlerTimeout, obj{"profile": "p"}, ran(obj{"stdout": r.tree + "/x " + r.tree + "/y\n"}))
}

func TestCallIsCanceled(t *testing.T) {
	r := newRig(t, jobProfile("slow", "echo x >began; sleep 100"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(r.tree, "began")); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, err := r.h.Perform(ctx, broker.Request{Episode: episode, Need: world.Need{Effect: Effect, Scope: Scope}, Payload: []byte(`{"profile":"slow"}`)})
	if world.KindOf(err) != world.KindCanceled {
		t.Errorf("%v", err)
	}
}

func TestLedgerRefuses(t *testing.T) {
	r := newRig(t, jobProfile("slow", "sleep 100"))
	r.ledger.refuse = errors.New("no")
	if _, err := r.raw(short, obj{"profile": "slow"}); err == nil || !strings.Contains(world.Message(err), "was ended") {
		t.Errorf("%v", err)
	}
	if len(r.h.jobs.all) != 0 {
		t.Errorf("jobs: %v", r.h.jobs.all)
	}
}

func TestJobsAreBounded(t *testing.T) {
	r := newRigWith(t, Config{Profiles: []Profile{jobProfile("slow", "sleep 100")}})
	r.h.cfg.Slots = capsule.NewSlots(MaxEpisodeJobs + 1)
	answers := make(chan obj, MaxEpisodeJobs+1)
	for range MaxEpisodeJobs + 1 {
		go func() { answers <- r.call(short, obj{"profile": "slow"}) }()
	}
	running, ended := 0, 0
	for range MaxEpisodeJobs + 1 {
		switch a := <-answers; {
		case a["running"] == true:
			running++
		case strings.Contains(a["note"].(string), "too many jobs"):
			ended++
		}
	}
	if running != MaxEpisodeJobs || ended != 1 {
		t.Errorf("%d run, %d were ended", running, ended)
	}
}

// Ended jobs are forgotten by number and by age.
func TestJobsAreForgotten(t *testing.T) {
	now := time.Unix(0, 0)
	s := newJobs(func() time.Time { return now })
	over := make(chan struct{})
	close(over)
	add := func(id, of string, done chan struct{}) {
		if !s.add(&job{Job: Job{ID: id, Episode: of}, done: done, ended: now}) {
			t.Fatalf("%s was not taken", id)
		}
	}
	add("running", "a", make(chan struct{}))
	for i := range MaxKept + 2 {
		add(string(rune('A'+i)), "a", over)
	}
	add("other", "b", over)
	got := []bool{s.find("a", "A") != nil, s.find("a", "B") != nil, s.find("a", "C") != nil, s.find("b", "other") != nil, s.find("a", "other") != nil}
	if d := cmp.Diff([]bool{false, false, true, true, false}, got); d != "" {
		t.Error(d)
	}
	now = now.Add(KeepJob + time.Second)
	if s.find("a", "C") != nil || s.find("b", "other") != nil || s.find("a", "running") == nil {
		t.Error("age does not count as it should")
	}
}

// The end of the daemon ends jobs, and each is told as that.
func TestClose(t *testing.T) {
	r := newRig(t, jobProfile("slow", "sleep 100"))
	id, _ := r.call(short, obj{"profile": "slow"})["job"].(string)
	must(t, r.h.Close(t.Context()))
	if got := r.ledger.results[id]; got != "the daemon stopped before the job ended" {
		t.Errorf("the ledger has %q", got)
	}
	if _, err := r.raw(short, obj{"op": "job", "job": id, "action": "poll"}); world.KindOf(err) != world.KindCanceled {
		t.Errorf("poll: %v", err)
	}
	if _, err := r.raw(short, obj{"profile": "slow"}); world.KindOf(err) != world.KindCanceled {
		t.Errorf("a run after the end: %v", err)
	}
}
