package postgres

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/store"
	store_pg "ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/store/postgres/pgtest"
)

// mixed sends calls by several callers to each daemon, at most n each and until stop is closed.
// Those that were not settled are sent again to the daemon that is named last.
func (f *fleet) mixed(prefix string, daemons []*daemon, callers, n int, half func()) []*task {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []*task
	sent := 0
	for i, d := range daemons {
		for c := range callers {
			wg.Go(func() {
				for k := range n {
					tk := &task{id: fmt.Sprintf("%s-d%d-c%d-n%d", prefix, i, c, k), episode: episode, effect: k%3 != 0, rounds: k%3 == 2}
					mu.Lock()
					all = append(all, tk)
					if sent++; half != nil && sent == len(daemons)*callers*n/2 {
						half()
					}
					mu.Unlock()
					if err := f.send(d, f.token, tk); err != nil {
						return // its daemon is gone
					}
				}
			})
		}
	}
	wg.Wait()
	return all
}

// TestThreeDaemons lets three daemons serve one world: what is published and revoked by one is so
// for all at the next request, one budget is never overspent, edits of one file by all of them
// follow one another, and one that is killed loses its turns and nothing else.
func TestThreeDaemons(t *testing.T) {
	f := newFleet(t, "")
	three := []*daemon{f.start(), f.start(), f.start()}
	each := func(what string, check func(*task) bool, token string) {
		t.Helper()
		for i, d := range three {
			tk := &task{id: fmt.Sprintf("each-%s-%d", strings.ReplaceAll(what, " ", "-"), i), episode: "other"}
			if err := f.send(d, token, tk); err != nil || !check(tk) {
				t.Errorf("%s: daemon %d answers %+v, %v", what, i, tk, err)
			}
		}
	}
	acked := func(tk *task) bool { return tk.acked }
	refused := func(tk *task) bool { return !tk.acked && tk.answered != "" }
	other := f.mint("other", 10)
	each("minted", acked, other)
	f.run(f.bin, "transitions", "remove", "--db", f.db, "tools.echo")
	each("removed", refused, other)
	f.run(f.bin, "transitions", "publish", "--db", f.db, "--manifest", filepath.Join("..", "..", "packs", "examples", "manifest.json"), "--yes")
	each("published again", acked, other)
	f.run(f.bin, "session", "revoke", "--db", f.db, "--episode", "other")
	each("revoked", refused, other)

	tasks := f.mixed("all", three, 3, 9, nil)
	for _, tk := range tasks {
		if !tk.acked {
			t.Errorf("%+v", tk)
		}
	}
	more := f.mixed("killed", three, 3, 9, func() { three[2].cmd.Process.Kill() })
	for _, tk := range more {
		if !tk.acked {
			f.settled(three[0], f.token, tk)
		}
	}
	f.account(append(tasks, more...))
	f.told(three)
	if out, errs, err := f.try(f.bin, "verify", "--deep", "--db", f.db); err != nil {
		t.Errorf("verify: %v\n%s%s", err, out, errs)
	}
	three[0].stop(t)
	three[1].stop(t)
	if n, _, err := store_pg.Writers(ctx, store_pg.Options{URL: f.db}); err != nil || n > 1 { // the killed one, until its time is over
		t.Errorf("%d daemons are said to be alive, %v", n, err)
	}
}

// told waits until one of those that are alive has told what the killed one left open.
func (f *fleet) told(all []*daemon) {
	f.t.Helper()
	s, err := store_pg.OpenReadOnly(ctx, store_pg.Options{URL: f.db})
	if err != nil {
		f.t.Fatal(err)
	}
	defer s.Close()
	open, _, err := s.Unresolved(ctx, 0, store.MaxPage)
	if err != nil {
		f.t.Fatal(err)
	}
	until := time.Now().Add(store_pg.WriterTTL + 15*time.Second)
	for _, inv := range open {
		for !strings.Contains(all[0].stderr.String()+all[1].stderr.String(), string(inv.ID)) {
			if time.Now().After(until) {
				f.t.Fatalf("%s is open, and is not told:\n%s\n%s", inv.ID, all[0].stderr, all[1].stderr)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for i, d := range all[:2] {
		for line := range strings.SplitSeq(d.stderr.String(), "\n") {
			if strings.HasPrefix(line, "indeterminate") && len(open) == 0 {
				f.t.Errorf("daemon %d tells of what is not open: %s", i, line)
			}
		}
	}
}

// TestBudgetOverDaemons spends one small budget from three daemons at once.
func TestBudgetOverDaemons(t *testing.T) {
	f := newFleet(t, "")
	three := []*daemon{f.start(), f.start(), f.start()}
	const budget = 7
	f.token = f.mint("small", budget)
	if err := os.MkdirAll(filepath.Join(f.dir, "ws", "small"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "ws", "small", shared), []byte(end), 0o644); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	ok, denied := 0, 0
	for i, d := range three {
		for c := range 6 {
			wg.Go(func() {
				tk := &task{id: fmt.Sprintf("b%d-%d", i, c), episode: "small", effect: true}
				if err := f.send(d, f.token, tk); err != nil || !tk.acked {
					t.Errorf("%+v, %v", tk, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if tk.denied {
					denied++
				} else {
					ok++
				}
			})
		}
	}
	wg.Wait()
	s, err := store_pg.OpenReadOnly(ctx, store_pg.Options{URL: f.db})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spent, err := s.Spent(ctx, "small", "Workspace.Write", "worktree")
	if err != nil || spent != budget || ok != budget || ok+denied != 18 {
		t.Errorf("%d edits, %d denied, spent %d of %d, %v", ok, denied, spent, budget, err)
	}
}

// TestFailover streams a world to a replica, ends the primary under load as a crash would, and
// promotes the replica: two daemons go on with it, and nothing that was acknowledged is lost.
func TestFailover(t *testing.T) {
	if cluster == nil {
		t.Skip(pgtestMissing)
	}
	primary, replica := pair(t)
	database := primary.Database(t)
	for patience := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := replica.Exec(database, "SELECT 1") // the database comes there a moment later
		if err == nil {
			break
		}
		if time.Now().After(patience) {
			t.Fatal(err)
		}
	}
	servers := func(first, second *pgtest.Cluster) string {
		return fmt.Sprintf("postgres://world:%s@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable", password, first.Port, second.Port, database)
	}
	// The order in which they are named, and what the URL wishes for, changes nothing.
	f := newFleet(t, servers(replica, primary))
	two := []*daemon{f.start(), f.start("--db", servers(primary, replica)+"&target_session_attrs=read-write")}
	before := f.mixed("before", two, 3, 6, nil)
	for _, tk := range before {
		if !tk.acked {
			t.Errorf("%+v", tk)
		}
	}
	f.run(f.bin, "verify", "--db", f.db+"&target_session_attrs=standby")
	failed := make(chan error, 1)
	during := f.mixed("during", two, 3, 18, func() {
		go func() {
			err := primary.Halt("immediate")
			if err == nil {
				err = replica.Promote()
			}
			failed <- err
		}()
	})
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, tk := range during {
		if !tk.acked {
			lost++
			f.settled(two[0], f.token, tk)
		}
	}
	after := f.mixed("after", two, 3, 6, nil)
	for _, tk := range after {
		if !tk.acked {
			t.Errorf("%+v", tk)
		}
	}
	f.account(append(append(before, during...), after...))
	t.Logf("%d calls were not answered with a result while the database changed hands", lost)
	for _, wish := range []string{"", "&target_session_attrs=primary", "&target_session_attrs=read-write", "&target_session_attrs=prefer-standby"} {
		if out, errs, err := f.try(f.bin, "verify", "--deep", "--db", servers(primary, replica)+wish); err != nil {
			t.Errorf("verify with %q: %v\n%s%s", wish, err, out, errs)
		}
	}
	if out, errs, err := f.try(f.bin, "verify", "--db", f.db+"&target_session_attrs=standby"); err == nil || !strings.Contains(errs, "cannot be reached") {
		t.Errorf("no server is a standby any more: %v\n%s%s", err, out, errs)
	}
}

// TestReplicaReads has the workbench read a replica, which it says, and the database itself while
// the replica is away.
func TestReplicaReads(t *testing.T) {
	if cluster == nil {
		t.Skip(pgtestMissing)
	}
	primary, replica := pair(t)
	database := primary.Database(t)
	f := newFleet(t, primary.URL(database))
	d := f.start("--replica", replica.URL(database))
	tk := &task{id: "seen", episode: episode, effect: true}
	if err := f.send(d, f.token, tk); err != nil || !tk.acked {
		t.Fatalf("%+v, %v", tk, err)
	}
	page := func() string {
		t.Helper()
		resp, err := http.Get(d.url + "/workbench/find?q=" + fmt.Sprint(tk.entry))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	wait := func(what ...string) {
		t.Helper()
		until := time.Now().Add(20 * time.Second)
		for {
			got, missing := page(), ""
			for _, w := range what {
				if !strings.Contains(got, w) {
					missing = w
				}
			}
			if missing == "" {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("the page does not say %q:\n%s", missing, got)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	wait("read from a replica, 0 entries behind", "workspace-edit")
	// A replica that does not replay falls behind.
	if err := replica.Exec("postgres", "SELECT pg_wal_replay_pause()"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		more := &task{id: fmt.Sprint("more", i), episode: episode}
		if err := f.send(d, f.token, more); err != nil || !more.acked {
			t.Fatalf("%+v, %v", more, err)
		}
	}
	wait("read from a replica, 3 entries behind")
	if err := replica.Exec("postgres", "SELECT pg_wal_replay_resume()"); err != nil {
		t.Fatal(err)
	}
	wait("read from a replica, 0 entries behind")
	if err := primary.Exec("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	if err := replica.Halt("fast"); err != nil {
		t.Fatal(err)
	}
	wait("the replica is away, the database itself was read", "workspace-edit")
	d.stop(t)
	if _, errs, err := f.try(f.bin, "serve", "--db", f.db, "--replica", cluster.URL(cluster.Database(t))); err == nil {
		t.Errorf("a replica without a world was accepted: %s", errs)
	}
}
