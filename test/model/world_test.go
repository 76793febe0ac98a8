package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/a2a"
	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/starlark"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/handlers/workspace"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/mcp"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/tasks"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// base is what all stories begin with: a store with a genesis in which all is published.
type base struct {
	dir    string
	engine *starlark.Engine
}

var episodes = []string{"ep-0", "ep-1"}

func newBase(t *testing.T) *base {
	t.Helper()
	b := &base{dir: t.TempDir()}
	var err error
	// What a story shows does not depend on how long a flush takes.
	if dir, merr := os.MkdirTemp("/dev/shm", "world-model"); merr == nil && !*onDisk {
		b.dir = dir
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	if b.engine, err = starlark.New(starlark.Config{Trusted: func(world.Ref) bool { return true }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.engine.Close() })
	pack, err := packs.Load("workspace")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"workspace-edit", "workspace-write"} {
		transitions[name].text = string(pack.Files[name+".star"])
	}
	w := &realWorld{base: b, path: filepath.Join(b.dir, "base.db"), dir: b.dir}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := w.ops.Genesis(ctx, "the model's"); err != nil {
		t.Fatal(err)
	}
	var all, ours []map[string]rawJSON
	if err := json.Unmarshal(pack.Manifest, &all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if id := strings.Trim(string(one["id"]), `"`); transitions[id] != nil {
			ours = append(ours, one)
		}
	}
	if _, err := w.ops.Publish(ctx, registry.Manifest{Text: hashref.MustMarshal(ours), Files: pack.Files}); err != nil {
		t.Fatal(err)
	}
	for name, tr := range transitions {
		if !tr.files {
			if err := w.publish(name, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.shut(); err != nil {
		t.Fatal(err)
	}
	return b
}

// doer performs Test.Do and Test.Other as the payload says, and counts.
type doer struct {
	mu   sync.Mutex
	done map[string]int
	ours map[world.InvocationID]bool // whose ids the test chose
}

func (d *doer) Effects() []string { return []string{"Test.Do", "Test.Other"} }

func (d *doer) Ready(context.Context, string, string, string) error { return nil }

func (d *doer) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	d.count(r)
	var p struct {
		How string `json:"how"`
		N   int    `json:"n"`
	}
	if err := json.Unmarshal(r.Payload, &p); err != nil {
		return nil, err
	}
	switch p.How {
	case "ok":
		return fmt.Appendf(nil, `{"ok":true,"n":%d}`, p.N), nil
	case "refuse":
		return []byte(`{"ok":false,"refused":"no such thing"}`), nil
	case "tell":
		return nil, world.Errorf(world.KindStoreFull, "test", "the printer is on fire")
	case "panic":
		panic("as it was asked to")
	case "lie":
		return []byte(`["no object"]`), nil
	case "world":
		return []byte(`{"ok":true,"world":{"effects":[]}}`), nil
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "stuck":
		time.Sleep(stuckTime)
		return []byte(`{"ok":true}`), nil
	}
	return nil, errors.New("a secret cause")
}

func (d *doer) count(r broker.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	who := "chosen"
	if d.ours[r.Invocation] {
		who = string(r.Invocation)
	}
	d.done[who+" "+r.EffectID]++
}

// counting is the workspace's handler, counted.
type counting struct {
	*workspace.Handler
	doer *doer
}

func (c counting) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	c.doer.count(r)
	return c.Handler.Perform(ctx, r)
}

// unsure is the real store, whose answer to some writes is that it does not know.
type unsure struct {
	store.Store
	fault   string
	persist bool
}

var errUnsure = &world.Error{Op: "test", Kind: world.KindUncertain}

// knows does a write, or half of it.
func knows[T any](u *unsure, what string, write func() (T, error)) (T, error) {
	if u.fault != what {
		return write()
	}
	var zero T
	if u.persist {
		if _, err := write(); err != nil {
			return zero, err
		}
	}
	return zero, errUnsure
}

func (u *unsure) Append(ctx context.Context, a store.Append) (store.Committed, error) {
	return knows(u, "append", func() (store.Committed, error) { return u.Store.Append(ctx, a) })
}

func (u *unsure) IntendEffect(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
	return knows(u, "intent", func() (store.Debit, error) { return u.Store.IntendEffect(ctx, i) })
}

func (u *unsure) Commit(ctx context.Context, c store.Commit) (store.Committed, error) {
	return knows(u, "commit", func() (store.Committed, error) { return u.Store.Commit(ctx, c) })
}

func (u *unsure) Keep(ctx context.Context, k store.Kept, replace bool) (store.Kept, error) {
	if k.Kind != "task" {
		return u.Store.Keep(ctx, k, replace)
	}
	return knows(u, "keep", func() (store.Kept, error) { return u.Store.Keep(ctx, k, replace) })
}

func (u *unsure) RecordOutcome(ctx context.Context, o store.EffectOutcome) error {
	_, err := knows(u, "outcome", func() (struct{}, error) { return struct{}{}, u.Store.RecordOutcome(ctx, o) })
	return err
}

// realWorld is what the model is compared with.
type realWorld struct {
	*base
	dir, path string
	copies    int
	fresh     int

	store  *sqlite.Store
	sure   *unsure
	coord  *coordinator.Coordinator
	ops    *admin.Local
	mux    *http.ServeMux
	tasks  *tasks.Handler
	doer   *doer
	creds  []string
	sent   []step // calls with a task's id, as they were sent
	posted []step // messages, as they were sent
	users  []string
	named  map[string]string // invocations of messages as the daemon names them, by the model's
	pause  func(step string)

	m    *reference
	seen int // entries that were compared
	prev world.Ref
}

// limits let the indexes be written, merged and dropped within a story.
var limits = sqlite.Limits{Rows: 60, Slice: 20, Fan: 2}

func (b *base) newWorld(dir string) (*realWorld, error) {
	w := &realWorld{base: b, dir: dir, path: filepath.Join(dir, "world.db"), doer: &doer{done: map[string]int{}, ours: map[world.InvocationID]bool{}}}
	if err := copyStore(filepath.Join(b.dir, "base.db"), w.path); err != nil {
		return nil, err
	}
	for _, e := range episodes {
		if err := os.MkdirAll(filepath.Join(dir, "ws", e), 0o700); err != nil {
			return nil, err
		}
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	w.m = &reference{now: time.Now, skills: map[string]int{}, spent: map[string]int64{}, tasks: map[string]*task{}, performed: map[string]int{},
		files: map[string]string{}, kept: map[string]*keptTask{}, busy: map[string]time.Time{}, commits: map[string]string{}, log: []entry{{writer: "genesis"}}}
	for name := range transitions {
		w.m.skills[name] = 0
	}
	return w, w.people()
}

// copyStore copies a store's files as a kill at this moment would leave them.
func copyStore(from, to string) error {
	for _, end := range []string{"", "-wal"} {
		text, err := os.ReadFile(from + end)
		if errors.Is(err, os.ErrNotExist) && end != "" {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(to+end, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// open opens the store and puts the rooms above it together.
func (w *realWorld) open() error {
	ctx := context.Background()
	silent := func(string, ...any) {}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: w.path, Logf: silent, Limits: limits})
	if err != nil {
		return err
	}
	w.store, w.sure = s, &unsure{Store: s}
	if w.doer == nil {
		w.doer = &doer{done: map[string]int{}, ours: map[world.InvocationID]bool{}}
	}
	root := filepath.Join(w.dir, "ws")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	files, err := workspace.New(workspace.Config{Root: root})
	if err != nil {
		return err
	}
	handlers, err := broker.Serve(w.doer, counting{files, w.doer})
	if err != nil {
		return err
	}
	engines := capsule.Set{w.engine}
	reg := registry.New(s, engines, time.Now)
	auth := &authority.Authority{Store: s, Now: time.Now}
	book := &approvals.Book{Store: s, Now: time.Now}
	if err := errors.Join(reg.Bootstrap(ctx), s.PutObjects(ctx, files.Objects())); err != nil {
		return err
	}
	w.coord = coordinator.New(coordinator.Config{Store: w.sure, Registry: reg, Engines: engines, Pause: w.at,
		Broker: &broker.Broker{Store: w.sure, Approvals: book, Handlers: handlers, Now: time.Now, Logf: silent}})
	people := &authority.Users{Store: s, Now: time.Now, Plans: userPlans}
	w.ops = &admin.Local{Store: s, Authority: auth, Users: people, Registry: reg, Book: book}
	w.mux = http.NewServeMux()
	w.mux.Handle("POST /a2a/", a2a.New(a2a.Config{Sessions: auth, Skills: reg, Calls: w.coord, Logf: silent, Version: world.Version}))
	w.mux.Handle("POST /mcp/", mcp.New(mcp.Config{Sessions: auth, Tools: reg, Calls: w.coord, Logf: silent, Version: world.Version}))
	w.tasks = tasks.New(tasks.Config{Open: []string{"pro"}, Users: people, Gate: func(string) bool { return true }, Limits: &authority.Limiter{Plans: userPlans, Now: time.Now},
		Skills: reg, Calls: w.coord, Tasks: w.sure, Now: time.Now, Logf: silent})
	w.mux.Handle(tasks.Path, w.tasks)
	rest.New(rest.Config{Store: w.sure, Resolve: auth.Resolve, Health: func() rest.Health { return rest.Health{} }, Logf: silent}).Mount(w.mux)
	return nil
}

// at is called at each step of each call.
func (w *realWorld) at(step string) {
	if w.pause != nil {
		w.pause(step)
	}
}

// shut ends what runs and closes the store.
func (w *realWorld) shut() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(w.tasks.Wait(ctx), w.coord.Wait(ctx), w.store.Close())
}

func (w *realWorld) close() error { return w.shut() }

// snapshot copies the store as a kill would leave it now, and gives the copy's path.
func (w *realWorld) snapshot() (string, error) {
	w.copies++
	path := filepath.Join(w.dir, fmt.Sprintf("killed-%d.db", w.copies))
	return path, copyStore(w.path, path)
}

// reopen ends this world and goes on over the store at a path.
func (w *realWorld) reopen(path string) error {
	if err := w.shut(); err != nil {
		return err
	}
	w.m.busy = map[string]time.Time{}
	w.path = path
	return w.open()
}

func (w *realWorld) publish(name string, version int) error {
	tr := transitions[name]
	text := fmt.Sprintf(`[{"id":%q,"title":%q,"description":"","transitionFnFile":"m.star","inputSchema":{},"outputSchema":{},`+
		`"access":{"effect":%q,"scope":%q,"cost":%d},"declaredEffects":%s}]`, name, name, tr.access.effect, tr.access.scope, tr.access.budget, tr.needs)
	_, err := w.ops.Publish(context.Background(), registry.Manifest{Text: []byte(text), Files: map[string][]byte{"m.star": []byte(tr.source(version))}})
	return err
}

// end ends this goroutine as a kill would: what is deferred lets go of locks in memory, and
// nothing more is written.
func end() { runtime.Goexit() }
