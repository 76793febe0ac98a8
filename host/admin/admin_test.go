package admin_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/client"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"

	"ailang.dev/world/host/registry"
)

func core(t *testing.T) *daemon.Core {
	t.Helper()
	c, err := daemon.OpenCore(context.Background(), daemon.CoreConfig{DB: filepath.Join(t.TempDir(), "world.db"), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// both runs a test against the open store and through the socket.
func both(t *testing.T, test func(t *testing.T, ops admin.Ops)) {
	t.Run("local", func(t *testing.T) { test(t, core(t).Ops("")) })
	t.Run("socket", func(t *testing.T) {
		local := core(t).Ops("http://127.0.0.1:1")
		local.Shut = nil
		path := filepath.Join(t.TempDir(), "a.sock")
		l, err := admin.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		s := admin.Serve(l, local, t.Logf)
		t.Cleanup(func() { s.Shutdown(context.Background()) })
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o700 {
			t.Fatalf("socket's mode is %v, %v", st.Mode(), err)
		}
		ops, err := client.DialAdmin(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ops.Close() })
		test(t, ops)
	})
}

func TestGenesisNamesItself(t *testing.T) {
	both(t, func(t *testing.T, ops admin.Ops) {
		ctx := context.Background()
		done, err := ops.Genesis(ctx, "keep the tests green")
		if err != nil {
			t.Fatal(err)
		}
		obj := hashref.SumString(`{"goal":"keep the tests green"}`)
		e, w := done.Entry, done.World
		if e.Header.TransitionFn != obj || e.TransitionRef != obj || e.Header.Interpreter != obj || e.Header.PrevEntryHash != hashref.Zero ||
			e.Header.EntryIndex != 0 || w.StateRoot != obj || w.Revision != 0 || w.LogHead != e.EntryHash {
			t.Fatalf("%+v", done)
		}
		if _, err := ops.Genesis(ctx, "again"); world.KindOf(err) != world.KindHeadConflict || !strings.Contains(world.Message(err), "genesis already") {
			t.Fatalf("a second genesis: %v", err)
		}
		if _, err := ops.Genesis(ctx, strings.Repeat("x", admin.MaxGoal+1)); world.KindOf(err) != world.KindBadRequest {
			t.Fatalf("a goal too long: %v", err)
		}
		st, err := ops.Status(ctx)
		if err != nil || st.Entries != 1 || st.Head != w.Ref || st.StoreID == "" || st.PID != os.Getpid() {
			t.Fatalf("%+v, %v", st, err)
		}
	})
}

func TestSessions(t *testing.T) {
	both(t, func(t *testing.T, ops admin.Ops) {
		ctx := context.Background()
		req := admin.MintRequest{Episode: "ep1", TTL: 90 * time.Minute, Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 7}}}
		m, err := ops.Mint(ctx, req)
		if err != nil || len(m.Credential) != 64 || m.Session.Expires.Sub(m.Session.Created) != req.TTL {
			t.Fatalf("%+v, %v", m.Session, err)
		}
		if got, err := ops.Lookup(ctx, m.Credential); err != nil || got.ID != m.Session.ID {
			t.Fatalf("%+v, %v", got, err)
		}
		req.Episode = "ep2"
		if _, err := ops.Mint(ctx, req); err != nil {
			t.Fatal(err)
		}
		if list, err := ops.Sessions(ctx, "ep1"); err != nil || len(list) != 1 || list[0].Grants[0] != req.Grants[0] {
			t.Fatalf("%+v, %v", list, err)
		}
		if list, err := ops.Sessions(ctx, ""); err != nil || len(list) != 2 || list[0].ID != m.Session.ID {
			t.Fatalf("%+v, %v", list, err)
		}
		if err := ops.Revoke(ctx, m.Session.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := ops.Lookup(ctx, m.Credential); world.KindOf(err) != world.KindSessionUnknown {
			t.Fatalf("a revoked session: %v", err)
		}
		if err := ops.Revoke(ctx, hashref.SumString("nobody")); world.KindOf(err) != world.KindNotFound || !strings.Contains(world.Message(err), "no session has") {
			t.Fatalf("%v", err)
		}
		if n, err := ops.RevokeEpisode(ctx, "ep2"); err != nil || n != 1 {
			t.Fatalf("%d, %v", n, err)
		}
		req.Episode = "Bad Name"
		if _, err := ops.Mint(ctx, req); world.KindOf(err) != world.KindBadRequest || world.Message(err) == "" {
			t.Fatalf("%v", err)
		}
	})
}

func TestTransitions(t *testing.T) {
	both(t, func(t *testing.T, ops admin.Ops) {
		ctx := context.Background()
		p, err := packs.Load("workspace")
		if err != nil {
			t.Fatal(err)
		}
		m := registry.Manifest{Text: p.Manifest, Files: p.Files}
		ids, err := ops.Check(ctx, m)
		if err != nil || !slices.Contains(ids, "workspace-write") {
			t.Fatalf("%v, %v", ids, err)
		}
		if snap, err := ops.Transitions(ctx); err != nil || len(snap.Transitions) != 0 {
			t.Fatalf("a check published: %+v, %v", snap, err)
		}
		done, err := ops.Publish(ctx, m)
		if err != nil || len(done.Added) != len(ids) {
			t.Fatalf("%+v, %v", done, err)
		}
		if done, err := ops.Remove(ctx, []string{"workspace-write"}); err != nil || done.Revision != 2 {
			t.Fatalf("%+v, %v", done, err)
		}
		snap, err := ops.Transitions(ctx)
		if err != nil || len(snap.Transitions) != len(ids)-1 || snap.Get("workspace-read") == nil || snap.Revision != 2 {
			t.Fatalf("%+v, %v", snap, err)
		}
		m.Text = []byte("[")
		if _, err := ops.Publish(ctx, m); world.KindOf(err) != world.KindBadRequest || world.Message(err) == "" {
			t.Fatalf("%v", err)
		}
	})
}

func TestSocketPath(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "w.db")
	if p, err := admin.SocketPath(short, "/run/x"); err != nil || p != short+".admin.sock" {
		t.Fatalf("%q, %v", p, err)
	}
	long := filepath.Join(dir, strings.Repeat("d", 120), "w.db")
	p, err := admin.SocketPath(long, "/run/x")
	if err != nil || filepath.Dir(p) != "/run/x" || len(p) > 100 {
		t.Fatalf("%q, %v", p, err)
	}
	if again, _ := admin.SocketPath(long, "/run/x"); again != p {
		t.Fatal("the name of one store changes")
	}
}

func TestListenReplacesOnlyASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := admin.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Listen(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Fatalf("%v", err)
	}
}
