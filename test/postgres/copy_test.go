package postgres

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/hashref"
	store_pg "ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/store/postgres/pgtest"
	"ailang.dev/world/host/world"
)

const (
	pgtestMissing = pgtest.Missing
	password      = pgtest.Password
)

// pair is a primary and a replica without which it acknowledges nothing.
func pair(t *testing.T) (primary, replica *pgtest.Cluster) {
	t.Helper()
	primary, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { primary.Remove() })
	if replica, err = primary.Replica(true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { replica.Remove() })
	return primary, replica
}

// TestStoreCopy moves a world with calls in it from a file to a database and back to another
// file. verify agrees each time, on the same entries, and what is not empty is refused.
func TestStoreCopy(t *testing.T) {
	url := cluster.URL(cluster.Database(t)) + "?schema=moved"
	dir := t.TempDir()
	file, back := filepath.Join(dir, "world.db"), filepath.Join(dir, "back.db")
	f := newFleet(t, file)
	d := f.start()
	tasks := f.mixed("before", []*daemon{d}, 2, 9, nil)
	if _, errs, err := f.try(f.bin, "store", "copy", file, url); err == nil || !strings.Contains(errs, "is open in process") {
		t.Errorf("a store with a daemon was copied: %v %s", err, errs)
	}
	d.stop(t)
	archive := filepath.Join(dir, "world.db.archive")
	if err := os.MkdirAll(archive, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(archive, "note"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := f.verify(file)
	head := f.run(f.bin, "log", "tail", "-n", "500", "--raw", "--db", file)
	f.run(f.bin, "store", "copy", file, url)
	if diff := cmp.Diff(want, f.verify(url)); diff != "" {
		t.Errorf("after the move to a database (-file +database):\n%s", diff)
	}
	if got := f.run(f.bin, "log", "tail", "-n", "500", "--raw", "--db", url); got != head {
		t.Errorf("the log is another one:\n%s", cmp.Diff(head, got))
	}
	if _, errs, err := f.try(f.bin, "store", "copy", file, url); err == nil || !strings.Contains(errs, "already") {
		t.Errorf("a world was copied over another: %v %s", err, errs)
	}
	notes, err := filepath.Glob(filepath.Join(f.dir, "data", "ailang-world", "postgres", "*", "world.archive", "note"))
	if err != nil || len(notes) != 1 {
		t.Errorf("the archive was not copied: %v, %v", notes, err)
	}

	// It goes on where it was moved to, for the same session.
	f.db = url
	d = f.start()
	tasks = append(tasks, f.mixed("after", []*daemon{d}, 2, 9, nil)...)
	if _, errs, err := f.try(f.bin, "store", "copy", url, back); err == nil || !strings.Contains(errs, "daemon") {
		t.Errorf("a world with a daemon was copied: %v %s", err, errs)
	}
	d.stop(t)
	f.account(tasks)
	want = f.verify(url)
	f.run(f.bin, "store", "copy", url, back)
	if diff := cmp.Diff(want, f.verify(back)); diff != "" {
		t.Errorf("after the move back (-database +file):\n%s", diff)
	}
	if _, errs, err := f.try(f.bin, "store", "copy", url, back); err == nil || !strings.Contains(errs, "already") {
		t.Errorf("a file was written over: %v %s", err, errs)
	}
	f.db = back
	d = f.start()
	for _, tk := range tasks { // an acknowledged task is the same entry for ever
		if err := f.send(d, f.token, tk); err != nil || !tk.acked {
			t.Fatalf("%+v, %v", tk, err)
		}
	}
	d.stop(t)
}

// verify is what verify --deep says of a store, without what differs from run to run.
func (f *fleet) verify(db string) (m map[string]any) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.run(f.bin, "verify", "--deep", "--json", "--db", db)), &m); err != nil {
		f.t.Fatal(err)
	}
	for _, differs := range []string{"took", "seconds", "took_ms", "elapsed", "duration_ms"} {
		delete(m, differs)
	}
	return m
}

// TestDumpAndRestore takes a world out of one database by PostgreSQL's own tools and puts it into
// another: it proves itself there, and goes on.
func TestDumpAndRestore(t *testing.T) {
	from, to := cluster.Database(t), cluster.Database(t)
	f := newFleet(t, cluster.URL(from))
	d := f.start()
	tasks := f.mixed("before", []*daemon{d}, 2, 9, nil)
	d.stop(t)
	want := f.verify(f.db)
	bin, _ := pgtest.Bin()
	dump := filepath.Join(t.TempDir(), "dump.sql")
	f.run(filepath.Join(bin, "pg_dump"), "-d", cluster.AdminURL(from), "-f", dump)
	f.run(filepath.Join(bin, "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-d", cluster.AdminURL(to), "-f", dump)
	f.db = cluster.URL(to)
	if diff := cmp.Diff(want, f.verify(f.db)); diff != "" {
		t.Errorf("after the restore (-dumped +restored):\n%s", diff)
	}
	d = f.start()
	for _, tk := range tasks { // an acknowledged task is the same entry for ever
		if err := f.send(d, f.token, tk); err != nil || !tk.acked {
			t.Fatalf("%+v, %v", tk, err)
		}
	}
	f.account(tasks)
	d.stop(t)
}

// TestStoreCopyOfAWorldAtWork writes to a world while it is copied: the copy is refused, and
// where it was to go nothing is.
func TestStoreCopyOfAWorldAtWork(t *testing.T) {
	f := newFleet(t, "")
	database := cluster.Database(t)
	url := cluster.URL(database) + "?schema=moved"
	to, err := store_pg.Open(ctx, store_pg.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	// The copy, which has begun to read, waits for the row that is locked here.
	locks, conn := connect(t, database), connect(t, database)
	if _, err := locks.Exec(ctx, "BEGIN; SELECT 1 FROM moved.head FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		_, errs, _ := f.try(f.bin, "store", "copy", f.db, url)
		ended <- errs
	}()
	for waits := false; !waits; {
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits); err != nil {
			t.Fatal(err)
		}
		select {
		case errs := <-ended:
			t.Fatalf("it did not wait: %s", errs)
		default:
		}
	}
	from, err := store_pg.Open(ctx, store_pg.Options{URL: f.db})
	if err != nil {
		t.Fatal(err)
	}
	err = from.PutSession(ctx, world.Session{ID: hashref.SumString("late"), Episode: "ep", Created: time.Unix(1, 0), Expires: time.Unix(9e8, 0)})
	if err := errors.Join(err, from.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := locks.Exec(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if errs := <-ended; !strings.Contains(errs, "something was written to the world") {
		t.Errorf("a world at work was copied: %s", errs)
	}
	var entries int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM moved.entries").Scan(&entries); err != nil || entries != 0 {
		t.Errorf("%d entries were left there, %v", entries, err)
	}
	f.run(f.bin, "store", "copy", f.db, url)
}

func connect(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(ctx, cluster.AdminURL(database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ctx) })
	return c
}

// TestVerbsOverADatabase asks the verbs of an operator beside a daemon and without one.
func TestVerbsOverADatabase(t *testing.T) {
	f := newFleet(t, "")
	for _, beside := range []bool{false, true} {
		if beside {
			resp, err := http.Get(f.start().url + "/v1/health")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.Contains(string(text), "postgres://world@127.0.0.1") || strings.Contains(string(text), password) {
				t.Errorf("health: %s, %v", text, err)
			}
		}
		for _, args := range [][]string{
			{"session", "list"}, {"transitions", "list"}, {"approvals", "list"}, {"log", "tail"}, {"verify", "--deep"}, {"token", "list"},
			{"store", "reindex"}, {"corpus", "list"}, {"why", "0"}, {"episode", "show", episode},
		} {
			if out, errs, err := f.try(f.bin, append(args, "--db", f.db)...); err != nil {
				t.Errorf("beside a daemon %v: %v: %v\n%s%s", beside, args, err, out, errs)
			}
		}
	}
	out, errs, err := f.try(f.bin, "doctor", "--db", f.db, "--workspace-root", filepath.Join(f.dir, "ws"))
	if !strings.Contains(out, "entries; the newest prove themselves") {
		t.Errorf("doctor: %v\n%s%s", err, out, errs)
	}
	if _, errs, err := f.try(f.bin, "session", "list", "--db", f.db+"?schema=nowhere"); err == nil || !strings.Contains(errs, "genesis") {
		t.Errorf("a world that is not there: %v %s", err, errs)
	}
}
