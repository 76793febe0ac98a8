package postgres

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/postgres/pgtest"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// proxied opens a store whose connections go through a proxy.
func proxied(t *testing.T, hooks sqlstore.Hooks) (*Store, *pgtest.Proxy, string) {
	t.Helper()
	database := cluster.Database(t)
	p := pgtest.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", cluster.Port))
	s, err := Open(ctx, Options{URL: fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", pgtest.Role, pgtest.Password, p.Addr(), database), Hooks: hooks, Logf: t.Logf, beatEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, p, database
}

// whole audits a store and fails the test for each hole.
func whole(t *testing.T, s store.Reader) store.Audited {
	t.Helper()
	storetest.CheckWhole(t, s)
	done, err := s.Audit(ctx, func(h store.Hole) { t.Errorf("hole: %s: %s", h.What, h.Reason) })
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestConnectionCut cuts the writer's connection at each step of a batch, in each way, and
// expects that nothing is lost and nothing done twice: every write is acknowledged, and is
// there once.
func TestConnectionCut(t *testing.T) {
	s, p, _ := proxied(t, sqlstore.Hooks{})
	if _, err := s.Commit(ctx, storetest.Genesis()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for step, name := range []string{"begin", "commit"} {
		for where, how := range map[pgtest.Where]string{pgtest.Unsent: "unsent", pgtest.Half: "half", pgtest.Unnoticed: "unnoticed", pgtest.Unread: "unread"} {
			for _, what := range []string{"append", "intent", "outcome", "session", "commit"} {
				t.Run(name+" "+how+" "+what, func(t *testing.T) {
					// The first write on a connection has its statements prepared, which is a way of
					// its own.
					oneWrite(t, s, what, "before "+name+how+what, func() {})
					cuts := p.Cuts()
					oneWrite(t, s, what, name+how+what, func() { p.Cut(step+1, where) })
					if p.Cuts() != cuts+1 {
						t.Fatal("no connection was cut")
					}
					n += 2
				})
			}
		}
	}
	whole(t, s)
	t.Logf("%d connections cut, %d writes acknowledged, each there once", p.Cuts(), n)
}

// oneWrite makes one write, which must be acknowledged, and accounts for what it changed.
func oneWrite(t *testing.T, s *Store, what, id string, cut func()) {
	t.Helper()
	in := storetest.Intent(world.InvocationID("a2a:ep:"+id), "e", 1, 1_000_000)
	if what == "outcome" {
		if _, err := s.IntendEffect(ctx, in); err != nil {
			t.Fatal(err)
		}
	}
	state := func() (int64, int64) {
		head, err := s.Head(ctx)
		if err != nil {
			t.Fatal(err)
		}
		spent, err := s.Spent(ctx, in.Episode, in.Need.Effect, in.Need.Scope)
		if err != nil {
			t.Fatal(err)
		}
		return head.Next, spent
	}
	next, spent := state()
	head, err := s.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.db.reads.Wait() // their ends are ways there too
	cut()
	entries, costs := int64(0), int64(0)
	switch what {
	case "append":
		_, err = s.Append(ctx, storetest.Call(id))
		entries = 1
	case "intent":
		_, err = s.IntendEffect(ctx, in)
		costs = in.Need.Cost
	case "outcome":
		rec := world.NewObject("r", "test", []byte(`{"record":"`+id+`"}`))
		err = s.RecordOutcome(ctx, store.EffectOutcome{Invocation: in.Invocation, EffectID: "e", Record: rec.Hash, Objects: []world.Object{rec}})
	case "session":
		err = s.PutSession(ctx, world.Session{ID: world.NewObject("", "", []byte(id)).Hash, Episode: "ep", Created: time.Unix(1, 0), Expires: time.Unix(9e8, 0)})
	case "commit":
		_, err = s.Commit(ctx, storetest.NextCommit(head, id))
		entries = 1
	}
	if err != nil {
		t.Fatalf("the write was not acknowledged: %v", err)
	}
	if n, sum := state(); n != next+entries || sum != spent+costs {
		t.Fatalf("the log went from %d to %d, want %d more; spent from %d to %d, want %d more", next, n, entries, spent, sum, costs)
	}
}

// TestDatabaseAwayAtCommit lets the database go away with a commit of which nothing is known,
// and expects every write to be uncertain until it is back, and then the truth.
func TestDatabaseAwayAtCommit(t *testing.T) {
	for where, landed := range map[pgtest.Where]bool{pgtest.Unsent: false, pgtest.Unnoticed: false, pgtest.Unread: true} {
		t.Run(fmt.Sprint(where), func(t *testing.T) {
			s, p, _ := proxied(t, sqlstore.Hooks{})
			if _, err := s.Commit(ctx, storetest.Genesis()); err != nil {
				t.Fatal(err)
			}
			oneWrite(t, s, "append", "before", func() {})
			s.db.reads.Wait()
			s.db.patience = 100 * time.Millisecond
			p.Refuse(true)
			p.Cut(2, where)
			call := storetest.Call("in doubt")
			for _, c := range []store.Append{call, storetest.Call("after it")} {
				if _, err := s.Append(ctx, c); world.KindOf(err) != world.KindUncertain {
					t.Fatalf("%v", err)
				}
			}
			p.Refuse(false)
			s.db.patience = ReconnectFor
			inv, err := s.Invocation(ctx, call.Invocation)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(ctx, storetest.Call("when it is back")); err != nil {
				t.Fatal(err)
			}
			again, err := s.Append(ctx, call)
			if is := world.KindOf(err) == world.KindTaskIDUsed && err != nil; is != landed {
				t.Fatalf("landed %v, but the same call gives %+v, %v", landed, again, err)
			}
			if is := inv.State == store.StateCommitted; is != landed {
				t.Fatalf("landed %v, but the journal says %+v", landed, inv)
			}
			whole(t, s)
		})
	}
}

// TestBackendsKilled ends server processes while calls are made: by the administrator's
// command, which the client is told of, and by SIGKILL, after which the server recovers from
// a crash.
func TestBackendsKilled(t *testing.T) {
	database := cluster.Database(t)
	s, err := Open(ctx, Options{URL: cluster.URL(database), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Commit(ctx, storetest.Genesis()); err != nil {
		t.Fatal(err)
	}
	const callers, kills = 8, 6
	stop := make(chan struct{})
	var mu sync.Mutex
	acknowledged, uncertain := map[world.InvocationID]bool{}, map[world.InvocationID]bool{}
	var wg sync.WaitGroup
	progress := make(chan struct{}, 1)
	for c := range callers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				call := storetest.Call(fmt.Sprintf("k%d.%d", c, i))
				_, err := s.Append(ctx, call)
				mu.Lock()
				switch {
				case err == nil:
					acknowledged[call.Invocation] = true
				case world.KindOf(err) == world.KindUncertain:
					uncertain[call.Invocation] = true
				}
				mu.Unlock()
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	for k := range kills {
		for range 20 {
			<-progress
		}
		if k%3 == 2 {
			if err := cluster.KillBackend(database, "ailang-worldd%"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		err := cluster.Exec(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		<-progress
	}
	close(stop)
	wg.Wait()
	entries := int64(len(storetest.CheckWhole(t, s))) - 1
	for id := range acknowledged {
		if inv, err := s.Invocation(ctx, id); err != nil || inv.State != store.StateCommitted {
			t.Errorf("%s was acknowledged, and is %+v (%v)", id, inv, err)
		}
	}
	landed := int64(0)
	for id := range uncertain {
		if inv, err := s.Invocation(ctx, id); err != nil {
			t.Error(err)
		} else if inv.State == store.StateCommitted {
			landed++
		}
	}
	if entries != int64(len(acknowledged))+landed {
		t.Errorf("%d entries, but %d acknowledged and %d uncertain that landed", entries, len(acknowledged), landed)
	}
	whole(t, s)
	t.Logf("%d kills, %d calls acknowledged, %d uncertain of which %d landed, %d entries", kills, len(acknowledged), len(uncertain), landed, entries)
}
