package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/postgres/pgtest"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

func openStore(t *testing.T, url string, hooks sqlstore.Hooks) *Store {
	t.Helper()
	s, err := Open(ctx, Options{URL: url, Hooks: hooks, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestRoundTrips holds a batch to two ways to the server and back, whether it is one call or
// 64, of any kind that is frequent, as a proxy between counts them.
func TestRoundTrips(t *testing.T) {
	var gate chan struct{}
	s, proxy, _ := proxied(t, sqlstore.Hooks{BeforeTake: func() {
		if gate != nil {
			<-gate
		}
	}})
	if _, err := s.Commit(ctx, storetest.Genesis()); err != nil {
		t.Fatal(err)
	}
	batch := func(name string, n int, write func(i int) error) {
		t.Helper()
		gate = make(chan struct{})
		before := proxy.Ways()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				if err := write(i); err != nil {
					t.Error(err)
				}
			})
		}
		for s.Waiting() < n-1 {
			runtime.Gosched() // the writer waits before the gate with the first one in hand
		}
		close(gate)
		wg.Wait()
		got := proxy.Ways() - before
		gate = nil
		t.Logf("%s, %d together: %d round trips", name, n, got)
		if got != 2 {
			t.Errorf("%s, %d together: %d round trips, want 2", name, n, got)
		}
	}
	// A connection has its statements prepared once, which is a way of its own.
	for _, what := range []string{"append", "intent", "outcome"} {
		oneWrite(t, s, what, "warm "+what, func() {})
	}
	s.db.reads.Wait()
	for _, n := range []int{1, 64} {
		batch("pure calls", n, func(i int) error {
			_, err := s.Append(ctx, storetest.Call(fmt.Sprintf("c%d.%d", n, i)))
			return err
		})
		batch("intents", n, func(i int) error {
			_, err := s.IntendEffect(ctx, storetest.Intent(world.InvocationID(fmt.Sprintf("a2a:ep:i%d.%d", n, i)), "e", 1, 1_000_000))
			return err
		})
		batch("outcomes", n, func(i int) error {
			rec := world.NewObject("r", "test", fmt.Appendf(nil, `{"record":"%d.%d"}`, n, i))
			return s.RecordOutcome(ctx, store.EffectOutcome{Invocation: world.InvocationID(fmt.Sprintf("a2a:ep:i%d.%d", n, i)), EffectID: "e", Record: rec.Hash, Objects: []world.Object{rec}})
		})
	}
	whole(t, s)
}

// TestPasswordIsNeverTold looks for the password in what an error and the display say, of
// URLs right and wrong.
func TestPasswordIsNeverTold(t *testing.T) {
	const secret = "s3cr3t%21word"
	for _, url := range []string{
		"postgres://u:" + secret + "@127.0.0.1:1/db",
		"postgres://u@127.0.0.1:1/db?password=" + secret + "&sslpassword=" + secret,
		"postgres://u:" + secret + "@127.0.0.1:notaport/db",
		"postgres://u:12#" + secret + "@127.0.0.1:1/db",
		"postgres://u:12/" + secret + "@127.0.0.1:1/db",
		"postgres://u:12?" + secret + "@127.0.0.1:1/db",
		"postgres://u:p@1/" + secret + "@127.0.0.1:1/db",
		"postgres://u:" + secret + "@%zz/db",
		"postgres://u:" + secret + "@127.0.0.1:1/db?sslmode=no",
		"postgres://u:" + secret + "@127.0.0.1:1/db?schema=pg_x",
		"postgres://u:" + secret + "@127.0.0.1:1/db?connect_timeout=x&password=" + secret,
	} {
		var logged strings.Builder
		d := &database{patience: 1, closed: make(chan struct{}), logf: func(f string, a ...any) { fmt.Fprintf(&logged, f, a...) }}
		tgt, err := ParseTarget(url)
		if err == nil {
			d.target = tgt
			err = d.open(ctx)
		}
		if err == nil {
			t.Fatalf("%s opened", url)
		}
		for _, said := range []string{err.Error(), logged.String(), Display(url)} {
			if strings.Contains(said, "s3cr3t") {
				t.Errorf("%q tells the password", said)
			}
		}
	}
	if cluster == nil {
		return
	}
	wrong := strings.Replace(cluster.URL("postgres"), pgtest.Password, "s3cr3t", 1)
	if _, err := Open(ctx, Options{URL: wrong}); err == nil || strings.Contains(err.Error(), "s3cr3t") || world.KindOf(err) == world.KindTimeout {
		t.Errorf("a wrong password: %v", err)
	}
}

// FuzzTarget: a URL is refused or read, and whatever stands beside its password, or in it, nothing
// that is shown of it holds that.
func FuzzTarget(f *testing.F) {
	for _, c := range [][2]string{{"127.0.0.1:1/db", ""}, {"a:1,b:2/db", "schema=x&sslmode=no"}, {"%zz/db", "schema=pg_x"}, {"h:notaport/db", "connect_timeout=x"}, {"/", "host=/run;x&%"},
		{"[::1]/d", "search_path=a,b"}, {"u:p@h/db", "schema=%00"}, {"h/db#frag", "sslpassword=x&service=y"}, {"#", ""}, {"/", ""}, {"?", ""}, {"@1/x", ""}, {"%", ""}} {
		f.Add(c[0], c[1])
	}
	const secret = "s3cr3tw0rd"
	f.Fuzz(func(t *testing.T, rest, query string) {
		for _, url := range []string{"postgres://u:" + secret + "@" + rest + "?" + query, "postgres://u:1" + rest + secret + "@h/db?" + query} {
			said := Display(url)
			if tgt, err := ParseTarget(url); err != nil {
				said += err.Error()
			} else {
				said += tgt.display
			}
			if strings.Contains(said, secret) {
				t.Errorf("of %q it is told: %s", url, said)
			}
		}
	})
}

// TestSeveralWorlds keeps two worlds in one database, and refuses what is none.
func TestSeveralWorlds(t *testing.T) {
	database := cluster.Database(t)
	one := openStore(t, cluster.URL(database)+"?schema=one", sqlstore.Hooks{})
	two := openStore(t, cluster.URL(database)+"?schema=Two+%22quoted%22", sqlstore.Hooks{})
	byPath := openStore(t, cluster.URL(database)+"?search_path=one", sqlstore.Hooks{})
	if one.ID() == two.ID() || one.ID() != byPath.ID() {
		t.Fatalf("ids %s, %s, %s", one.ID(), two.ID(), byPath.ID())
	}
	if _, err := one.Commit(ctx, storetest.Genesis()); err != nil {
		t.Fatal(err)
	}
	if _, err := byPath.Append(ctx, storetest.Call("c")); err != nil {
		t.Fatal(err)
	}
	if head, err := one.Head(ctx); err != nil || head.Next != 2 {
		t.Fatalf("%+v, %v", head, err)
	}
	if _, err := two.Head(ctx); world.KindOf(err) != world.KindNoWorld {
		t.Fatalf("%v", err)
	}
	_, err := Open(ctx, Options{URL: cluster.URL(database) + "?search_path=nowhere"})
	if world.KindOf(err) != world.KindSchema {
		t.Fatalf("%v", err)
	}
}

// TestMigrations opens one new database from many sides at once, finds one store, and refuses
// tables of a newer version.
func TestMigrations(t *testing.T) {
	database := cluster.Database(t)
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			s, err := Open(ctx, Options{URL: cluster.URL(database) + "?schema=w", Logf: t.Logf})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = s.ID()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("ids %v", ids)
		}
	}
	if err := cluster.Exec(database, fmt.Sprintf("INSERT INTO w.migrations VALUES (%d, now())", Version+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Options{URL: cluster.URL(database) + "?schema=w"}); world.KindOf(err) != world.KindSchema {
		t.Fatalf("%v", err)
	}
}

// TestWhoIsGoneForLongIsForgotten opens a world whose daemons crashed long ago, and one that
// slept as long: it says again that it is alive.
func TestWhoIsGoneForLongIsForgotten(t *testing.T) {
	all, database := daemons(t, 2)
	crashed, slept := all[0], all[1]
	for i, s := range all {
		if _, err := s.TakeEpisode(ctx, fmt.Sprint("ep", i)); err != nil {
			t.Fatal(err)
		}
	}
	count := func(what string) (n int) {
		t.Helper()
		o := &opener{database: database}
		if err := o.admin(t).QueryRow(ctx, "SELECT count(*) FROM "+what).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	ago := func(table, column string) {
		t.Helper()
		if err := cluster.Exec(database, "UPDATE "+table+" SET "+column+" = clock_timestamp() - interval '25 hours'"); err != nil {
			t.Fatal(err)
		}
	}
	ago("leases", "wanted_till")
	openStore(t, cluster.URL(database), sqlstore.Hooks{})
	if w, l := count("writers"), count("leases"); w != 3 || l != 2 {
		t.Errorf("of daemons at work there are %d rows and %d episodes", w, l)
	}
	ago("writers", "until")
	openStore(t, cluster.URL(database), sqlstore.Hooks{})
	if w, l := count("writers"), count("leases"); w != 1 || l != 0 {
		t.Errorf("of daemons that are gone there are %d rows and %d episodes", w-1, l)
	}
	beat(t, slept)
	if n := count("writers WHERE id = '" + slept.db.writerID + "' AND until > clock_timestamp()"); n != 1 {
		t.Error("a daemon that slept is not known again")
	}
	if n := count("writers WHERE id = '" + crashed.db.writerID + "'"); n != 0 {
		t.Error("a daemon that crashed is known again")
	}
	whole(t, slept)
}

// TestReplicaOfAnotherWorld has a copy that was away come back as a copy of another world: the
// world itself is read.
func TestReplicaOfAnotherWorld(t *testing.T) {
	s := openStore(t, cluster.URL(cluster.Database(t)), sqlstore.Hooks{})
	other, p, _ := proxied(t, sqlstore.Hooks{})
	for _, s := range []*Store{s, other} {
		if _, err := s.Commit(ctx, storetest.Genesis()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Append(ctx, storetest.Call("mine")); err != nil {
		t.Fatal(err)
	}
	url := other.db.target.config.ConnString()
	if _, err := OpenReplica(ctx, s, Options{URL: url, Logf: t.Logf}); world.KindOf(err) != world.KindSchema {
		t.Errorf("a copy of another world was opened: %v", err)
	}
	p.Refuse(true)
	r, err := OpenReplica(ctx, s, Options{URL: url, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.Refuse(false)
	for range 2 {
		if head, err := r.Head(ctx); err != nil || head.Next != 2 {
			t.Errorf("the other world was read: %+v, %v", head, err)
		}
	}
}

// TestMissingIndexesAreBuilt opens a store whose indexes are gone, and reindexes one whose
// references are.
func TestMissingIndexesAreBuilt(t *testing.T) {
	database := cluster.Database(t)
	s := openStore(t, cluster.URL(database), sqlstore.Hooks{})
	if _, err := s.Commit(ctx, storetest.Genesis()); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if _, err := s.Append(ctx, storetest.Call(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	whole(t, s)
	s.Close()
	for index := range indexOf() {
		if err := cluster.Exec(database, "DROP INDEX "+index); err != nil {
			t.Fatal(err)
		}
	}
	s = openStore(t, cluster.URL(database), sqlstore.Hooks{})
	if names, err := s.ObjectsBySemanticID(ctx, world.SemInput, world.Ref{}, 100); err != nil || len(names) == 0 {
		t.Fatalf("%d, %v", len(names), err)
	}
	s.Close()
	if err := cluster.Exec(database, "DELETE FROM refs WHERE seq % 3 = 0"); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, cluster.URL(database), sqlstore.Hooks{})
	holes := 0
	if _, err := s.Audit(ctx, func(store.Hole) { holes++ }); err != nil || holes != 1 {
		t.Fatalf("%d holes, %v", holes, err)
	}
	s.Close()
	if _, _, err := Reindex(ctx, Options{URL: cluster.URL(database), Logf: t.Logf}); err != nil {
		t.Fatal(err)
	}
	whole(t, openStore(t, cluster.URL(database), sqlstore.Hooks{}))
}

// TestSchemaIsPlain holds the statements to what other engines of the protocol run too.
func TestSchemaIsPlain(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, more...) {
		if strings.HasSuffix(f, "_test.go") || f == "doc.go" {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"advisory", "LISTEN", "NOTIFY", "DO $", "SEQUENCE", "bigserial", "IDENTITY", "nextval", "TRIGGER", "FUNCTION"} {
			if strings.Contains(string(b), word) {
				t.Errorf("%s has %s", f, word)
			}
		}
	}
}

// FuzzText: whatever the bytes, they are kept as text that a database takes, and read back as they were.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", `a\b`, "\x00", "\xff\xfe", `\x41`, "näme", "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kept := encodeText(s)
		if strings.Contains(kept, "\x00") || !plain(strings.ReplaceAll(kept, `\`, "")) {
			t.Fatalf("%q is kept as %q, which is no text", s, kept)
		}
		if back, err := decodeText(kept); err != nil || back != s {
			t.Fatalf("%q reads back as %q, %v", s, back, err)
		}
	})
}
