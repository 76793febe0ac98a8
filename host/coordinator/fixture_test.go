package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/starlark"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
)

// doer performs Test.Do as its payload says, and counts.
type doer struct {
	mu    sync.Mutex
	done  map[world.InvocationID]int
	ready error
	// act, unless nil, runs inside each effect.
	act func(ctx context.Context, r broker.Request)
	// fail is the error of an effect that is to fail as given.
	fail error
	// patience is how long an effect may take; 0 is the usual.
	patience time.Duration
	// answer, unless nil, is what every effect answers.
	answer []byte
}

func (d *doer) Effects() []string { return []string{"Test.Do", "Git.Read"} }

func (d *doer) Ready(context.Context, string, string, string) error { return d.ready }

func (d *doer) Patience(string, string) time.Duration { return d.patience }

func (d *doer) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	d.mu.Lock()
	d.done[r.Invocation]++
	d.mu.Unlock()
	if d.act != nil {
		d.act(ctx, r)
	}
	if d.answer != nil {
		return d.answer, nil
	}
	var p struct{ How string }
	if err := json.Unmarshal(r.Payload, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
		return nil, err
	}
	switch p.How {
	case "ok", "", "dear":
		return []byte(`{"ok":true,"did":"it"}`), nil
	case "refuse":
		return []byte(`{"ok":false,"refused":"no such file"}`), nil
	case "tell":
		return nil, world.Errorf(world.KindStoreFull, "test", "the disk is full")
	case "fail":
		return nil, errors.New("open /secret: broken")
	case "given":
		return nil, d.fail
	case "panic":
		panic("boom")
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []byte(p.How), nil
}

// fixture is a coordinator over a real store and engine.
type fixture struct {
	t       *testing.T
	path    string
	engines capsule.Set
	store   *sqlite.Store
	reg     *registry.Registry
	coord   *coordinator.Coordinator
	doer    *doer
	events  *faultStore
	book    *approvals.Book
	logs    []string
	now     time.Time
}

// faultStore is the real store, with a chance to come between.
type faultStore struct {
	store.Store
	append  func(context.Context, store.Append) (store.Committed, error)
	intend  func(context.Context, store.EffectIntent) (store.Debit, error)
	outcome func(context.Context, store.EffectOutcome) error
}

func (f *faultStore) Append(ctx context.Context, a store.Append) (store.Committed, error) {
	if f.append != nil {
		return f.append(ctx, a)
	}
	return f.Store.Append(ctx, a)
}

func (f *faultStore) IntendEffect(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
	if f.intend != nil {
		return f.intend(ctx, i)
	}
	return f.Store.IntendEffect(ctx, i)
}

func (f *faultStore) RecordOutcome(ctx context.Context, o store.EffectOutcome) error {
	if f.outcome != nil {
		return f.outcome(ctx, o)
	}
	return f.Store.RecordOutcome(ctx, o)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	ctx := context.Background()
	f.path = filepath.Join(t.TempDir(), "w.db")
	s, err := sqlite.Open(ctx, sqlite.Options{Path: f.path, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	f.store, f.events = s, &faultStore{Store: s}
	eng, err := starlark.New(starlark.Config{Trusted: func(world.Ref) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(); f.store.Close() })
	f.reg = registry.New(s, capsule.Set{eng}, func() time.Time { return f.now })
	if err := f.reg.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	f.doer = &doer{done: map[world.InvocationID]int{}}
	handlers, err := broker.Serve(f.doer)
	if err != nil {
		t.Fatal(err)
	}
	f.engines = capsule.Set{eng}
	f.book = &approvals.Book{Store: s, Now: func() time.Time { return f.now }}
	f.coord = coordinator.New(coordinator.Config{
		Store: f.events, Registry: f.reg, Engines: f.engines,
		Broker: &broker.Broker{Store: f.events, Approvals: f.book, Handlers: handlers, Now: func() time.Time { return f.now },
			Logf: func(format string, args ...any) {
				f.doer.mu.Lock()
				defer f.doer.mu.Unlock()
				f.logs = append(f.logs, fmt.Sprintf(format, args...))
			}},
	})
	t.Cleanup(func() { f.replays() })
	return f
}

// replays runs every entry again: it must come out the same.
func (f *fixture) replays() {
	f.t.Helper()
	calls := len(f.doer.done)
	p := &coordinator.Replayer{Store: f.store, Engines: f.engines}
	for i := range f.entries() {
		r, err := p.Replay(context.Background(), i)
		if err != nil || r.Diverged != "" || (r.Skipped == "") == (r.Call == "") {
			f.t.Errorf("entry %d run again: %.2000v, %v", i, r, err)
		}
	}
	if len(f.doer.done) != calls {
		f.t.Error("running entries again called a handler")
	}
}

// reopen closes the store and makes a new coordinator over the file.
func (f *fixture) reopen() {
	f.t.Helper()
	if err := f.store.Close(); err != nil {
		f.t.Fatal(err)
	}
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: f.path, Logf: f.t.Logf})
	if err != nil {
		f.t.Fatal(err)
	}
	f.store, f.events = s, &faultStore{Store: s}
	now := func() time.Time { return f.now }
	f.reg = registry.New(s, f.engines, now)
	handlers, err := broker.Serve(f.doer)
	if err != nil {
		f.t.Fatal(err)
	}
	f.coord = coordinator.New(coordinator.Config{Store: f.events, Registry: f.reg, Engines: f.engines,
		Broker: &broker.Broker{Store: f.events, Handlers: handlers, Now: now, Logf: f.t.Logf}})
}

func (f *fixture) genesis() {
	f.t.Helper()
	obj := world.NewObject("test/genesis", "test", []byte("{}"))
	hash := hashref.SumString("entry 0")
	_, err := f.store.Commit(context.Background(), store.Commit{
		Objects: []world.Object{obj},
		Entry: world.Entry{Header: world.EntryHeader{SemanticsEpoch: 1, TransitionFn: obj.Hash, Interpreter: obj.Hash,
			PrevEntryHash: hashref.Zero, WrittenBy: "test"}, EntryHash: hash, TransitionRef: obj.Hash},
		NextWorld: world.World{Ref: hashref.SumString("world 0"), StateRoot: obj.Hash, LogHead: hash},
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

const do = "Test.Do=s:1"

// publish publishes one transition; needs are EFFECT=SCOPE:COST, the first its access. One
// with "!" at its end needs an approval.
func (f *fixture) publish(id, source string, access string, needs ...string) {
	f.t.Helper()
	need := func(s string) world.Need {
		text, approval := strings.CutSuffix(s, "!")
		g, err := world.ParseGrant(text)
		if err != nil {
			f.t.Fatal(err)
		}
		return world.Need{Effect: g.Effect, Scope: g.Scope, Cost: g.Budget, Approval: approval}
	}
	declared := []world.Need{}
	for _, n := range needs {
		declared = append(declared, need(n))
	}
	text := hashref.MustMarshal([]any{map[string]any{"id": id, "title": id, "description": "", "transitionFnFile": "m.star",
		"inputSchema": map[string]any{}, "outputSchema": map[string]any{}, "access": need(access), "declaredEffects": declared}})
	if _, err := f.reg.Publish(context.Background(), registry.Manifest{Text: text, Files: map[string][]byte{"m.star": []byte(source)}}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) session(grants ...string) world.Session {
	f.t.Helper()
	s := world.Session{ID: hashref.SumString("cred"), Episode: "ep", Created: f.now, Expires: f.now.Add(time.Hour)}
	for _, g := range grants {
		parsed, err := world.ParseGrant(g)
		if err != nil {
			f.t.Fatal(err)
		}
		s.Grants = append(s.Grants, parsed)
	}
	return s
}

func (f *fixture) call(skill, task, args string, s world.Session) (coordinator.Result, error) {
	return f.coord.Invoke(context.Background(), coordinator.Call{Surface: world.SurfaceA2A, Session: s, Skill: skill, Task: task, Args: []byte(args)})
}

func (f *fixture) entries() int64 {
	f.t.Helper()
	h, err := f.store.Head(context.Background())
	if err != nil {
		if world.KindOf(err) == world.KindNoWorld {
			return 0
		}
		f.t.Fatal(err)
	}
	return h.Next
}

func (f *fixture) spent() int64 {
	f.t.Helper()
	n, err := f.store.Spent(context.Background(), "ep", "Test.Do", "s")
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func wantKind(t *testing.T, err error, want world.Kind) {
	t.Helper()
	if err == nil || world.KindOf(err) != want {
		t.Fatalf("error %v is of kind %v, want %v", err, world.KindOf(err), want)
	}
}

func wantUnrecorded(t *testing.T, err error) *world.EffectsUnrecordedError {
	t.Helper()
	var u *world.EffectsUnrecordedError
	if !errors.As(err, &u) {
		t.Fatalf("error %v is not EffectsUnrecorded", err)
	}
	return u
}

// newFixtureOver is another coordinator over a fixture's store, with pause points.
func newFixtureOver(f *fixture, pause func(string)) *coordinator.Coordinator {
	eng, err := starlark.New(starlark.Config{Trusted: func(world.Ref) bool { return true }})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { eng.Close() })
	handlers, err := broker.Serve(f.doer)
	if err != nil {
		f.t.Fatal(err)
	}
	now := func() time.Time { return f.now }
	return coordinator.New(coordinator.Config{
		Store: f.events, Registry: f.reg, Engines: capsule.Set{eng}, Pause: pause,
		Broker: &broker.Broker{Store: f.events, Handlers: handlers, Now: now, Logf: f.t.Logf},
	})
}
