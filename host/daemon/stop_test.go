package daemon

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// waiting performs Workspace.Read by waiting until it is opened.
type waiting struct{ entered, opened chan struct{} }

func (waiting) Effects() []string                                   { return []string{"Workspace.Read"} }
func (waiting) Ready(context.Context, string, string, string) error { return nil }
func (w waiting) Perform(context.Context, broker.Request) ([]byte, error) {
	close(w.entered)
	<-w.opened
	return []byte(`{"ok":true}`), nil
}

// TestAStopWaitsForEffects: a call whose surface has given it up is still waited for before
// the store is closed.
func TestAStopWaitsForEffects(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	core, err := OpenCore(ctx, CoreConfig{DB: filepath.Join(t.TempDir(), "w.db"), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { core.Close() })
	h := waiting{make(chan struct{}), make(chan struct{})}
	d, err := New(ctx, core, Config{Bind: "127.0.0.1:0", RuntimeDir: t.TempDir(), Handlers: []broker.Handler{h}})
	if err != nil {
		t.Fatal(err)
	}
	pack, err := packs.Load("workspace")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := core.Registry.Publish(ctx, registry.Manifest{Text: pack.Manifest, Files: pack.Files}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.Ops("").Genesis(ctx, ""); err != nil {
		t.Fatal(err)
	}
	up, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- d.Run(ctx, func(string) { close(up) }) }()
	<-up
	called := make(chan error, 1)
	go func() {
		s := world.Session{Episode: "ep", Expires: time.Now().Add(time.Hour), Grants: []world.Grant{{Effect: "Workspace.Read", Scope: "worktree", Budget: 9}}}
		_, err := d.coord.Invoke(context.Background(), coordinator.Call{Surface: world.SurfaceA2A, Session: s, Skill: "workspace-read", Args: []byte(`{"path":"a"}`)})
		called <- err
	}()
	<-h.entered
	stop()
	select {
	case err := <-stopped:
		t.Fatalf("the daemon stopped while an effect was running: %v", err)
	case <-time.After(200 * time.Millisecond): // it has nothing else to wait for
	}
	close(h.opened)
	if err := <-called; err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}
