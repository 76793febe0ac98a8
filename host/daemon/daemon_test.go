package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

func openCore(t *testing.T, db string, logf func(string, ...any)) *daemon.Core {
	t.Helper()
	core, err := daemon.OpenCore(context.Background(), daemon.CoreConfig{DB: db, Logf: logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { core.Close() })
	return core
}

func TestStartIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"store/inside", "ws", "linked", "real"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"ws-link": "ws", "linked/ep1": "../real", "by-another-name": "store/inside"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "malta.yaml"), []byte("id: malta\nname: Malta\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "gozo.yaml"), []byte("id: gozo\nname: Gozo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	core := openCore(t, filepath.Join(dir, "store", "world.db"), t.Logf)
	at := func(p string) string { return filepath.Join(dir, p) }
	for name, c := range map[string]struct {
		cfg  daemon.Config
		want string
	}{
		"root missing":               {daemon.Config{WorkspaceRoot: at("absent")}, "cannot be used"},
		"root is a file":             {daemon.Config{WorkspaceRoot: at("file")}, "is not a folder"},
		"root is a symlink":          {daemon.Config{WorkspaceRoot: at("ws-link")}, "is a symlink"},
		"root in the store's folder": {daemon.Config{WorkspaceRoot: at("store/inside")}, "must not lie inside one another"},
		"root is the store's folder": {daemon.Config{WorkspaceRoot: at("store")}, "must not lie inside one another"},
		"root holds the store":       {daemon.Config{WorkspaceRoot: dir}, "must not lie inside one another"},
		"root through a symlink":     {daemon.Config{WorkspaceRoot: at("by-another-name") + "/."}, "must not lie inside one another"},
		"worktree is a symlink":      {daemon.Config{WorkspaceRoot: at("linked")}, "ep1 is a symlink"},
		"calendar missing":           {daemon.Config{Calendars: []string{at("absent.yaml")}}, "the calendar cannot be opened"},
		"calendar that is a folder":  {daemon.Config{Calendars: []string{at("ws")}}, "cannot be read"},
		"calendar that is empty":     {daemon.Config{Calendars: []string{at("file")}}, "file is wrong: is empty"},
		"calendar of a taken id":     {daemon.Config{Calendars: []string{at("malta.yaml")}}, `there is a calendar "malta" already`},
		"bind to all":                {daemon.Config{Bind: "0.0.0.0:0"}, "loopback"},
		"bind to a name":             {daemon.Config{Bind: "example.org:80"}, "loopback"},
		"bind without port":          {daemon.Config{Bind: "127.0.0.1"}, "host:port"},
		"bind to nothing":            {daemon.Config{Bind: ":7644"}, "loopback"},
		"public URL with a path":     {daemon.Config{PublicURL: "https://x.example/world"}, "public URL"},
		"public URL without scheme":  {daemon.Config{PublicURL: "x.example"}, "public URL"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cfg.Bind == "" {
				c.cfg.Bind = "127.0.0.1:0"
			}
			_, err := daemon.New(context.Background(), core, c.cfg)
			if world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := daemon.New(context.Background(), core, daemon.Config{Bind: "127.0.0.1:0", WorkspaceRoot: at("ws"), Calendars: []string{at("gozo.yaml")}}); err != nil {
		t.Fatalf("a sound root, and a sound calendar: %v", err)
	}
}

func TestAWholeStoreStartsInSilence(t *testing.T) {
	var said lines
	core := openCore(t, filepath.Join(t.TempDir(), "world.db"), said.logf)
	if _, err := core.Ops("").Genesis(context.Background(), "g"); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.New(context.Background(), core, daemon.Config{Bind: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	if len(said.all) != 0 {
		t.Fatalf("%q", said.all)
	}
}

// TestWhatWasLeftOpenIsTold: an intent without an outcome is told at every start, and a
// start neither retries nor closes it.
func TestWhatWasLeftOpenIsTold(t *testing.T) {
	var said lines
	ctx := context.Background()
	core := openCore(t, filepath.Join(t.TempDir(), "world.db"), said.logf)
	req := world.NewObject(world.SemRequest, "test", []byte("{}"))
	if _, err := core.Store.IntendEffect(ctx, store.EffectIntent{
		Invocation: "a2a:ep:t", Digest: hashref.SumString("d"), EffectID: "e1", Episode: "ep",
		Need: world.Need{Effect: "E", Scope: "s", Cost: 1}, Budget: 5, Request: req,
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		said.all = nil
		if _, err := daemon.New(ctx, core, daemon.Config{Bind: "127.0.0.1:0"}); err != nil {
			t.Fatal(err)
		}
		want := "indeterminate effect e1 of a2a:ep:t: intended, outcome unknown, not retried; request " + req.Hash.String()
		if len(said.all) != 1 || said.all[0] != want {
			t.Fatalf("%q, want %q", said.all, want)
		}
	}
}
