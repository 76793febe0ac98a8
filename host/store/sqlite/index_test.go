package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// openTiny opens a store whose indexes are in small runs.
func openTiny(t testing.TB, path string, step func(string)) *Store {
	t.Helper()
	l := tiny
	l.Step = step
	s, err := Open(context.Background(), Options{Path: path, Limits: l, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// calls appends calls of these names.
func appendCalls(t testing.TB, s store.Store, prefix string, n int) {
	t.Helper()
	for i := range n {
		if _, err := s.Append(context.Background(), storetest.Call(fmt.Sprint(prefix, i))); err != nil {
			t.Fatal(err)
		}
	}
}

// lookUp asks every index for what calls of these names wrote, and tells what it was
// answered.
func lookUp(t testing.TB, s store.Reader, prefix string, n int) string {
	t.Helper()
	ctx := context.Background()
	var out strings.Builder
	say := func(what string, v any, err error) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		fmt.Fprintf(&out, "%s: %+v\n", what, v)
	}
	for i := range n {
		a := storetest.Call(fmt.Sprint(prefix, i))
		inv, err := s.Invocation(ctx, a.Invocation)
		say("invocation", inv, err)
		w, err := s.World(ctx, inv.World)
		say("world", w, err)
		for _, o := range a.Objects {
			m, err := s.Object(ctx, o.Hash)
			say("object", m.ObjectMeta, err)
			refs, err := s.Referrers(ctx, o.Hash, 0, 10)
			say("referrers", refs, err)
		}
	}
	for place := int64(0); ; {
		page, err := s.EpisodeEntries(ctx, storetest.Call("").Invocation.Episode(), place, false, 7)
		say("episode", page, err)
		if len(page) == 0 {
			break
		}
		place = page[len(page)-1] + 1
		back, err := s.EpisodeEntries(ctx, storetest.Call("").Invocation.Episode(), place, true, 9)
		say("back", back, err)
	}
	for _, id := range []string{world.SemInput, world.SemOutput, world.SemRecordV1, "nothing"} {
		after := hashref.None
		for {
			page, err := s.ObjectsBySemanticID(ctx, id, after, 7)
			say(id, page, err)
			if len(page) == 0 {
				break
			}
			after = page[len(page)-1].Hash
		}
	}
	return out.String()
}

// TestIndexesAreRebuilt loses or damages what is derived, and expects it back as it was.
func TestIndexesAreRebuilt(t *testing.T) {
	for name, sql := range map[string]string{
		"blocks":                "DROP TABLE index_blocks;",
		"runs":                  "DROP TABLE index_runs;",
		"parts":                 "DROP TABLE index_parts;",
		"the catalogue's rows":  "DELETE FROM index_runs; DELETE FROM index_parts;",
		"a run's row":           "DELETE FROM index_runs WHERE run = (SELECT min(run) FROM index_runs WHERE state = 2);",
		"a run's row changed":   "UPDATE index_runs SET last_seq = last_seq + 1;",
		"a part's row":          "DELETE FROM index_parts WHERE part = 4;",
		"a part's row changed":  "UPDATE index_parts SET row_count = row_count + 1;",
		"fences lost":           "DELETE FROM index_blocks WHERE (id >> 24) & 15 = 13;",
		"a filter changed":      "UPDATE index_blocks SET data = zeroblob(length(data)) WHERE (id >> 24) & 15 = 8;",
		"the index of sessions": "DROP INDEX sessions_by_id;",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "world.db")
			s := openTiny(t, path, nil)
			commit(t, s, storetest.Genesis())
			appendCalls(t, s, "c", 40)
			before := lookUp(t, s, "c", 40)
			s.Close()
			script(t, path, sql)
			var told []string
			s, err := Open(t.Context(), Options{Path: path, Limits: tiny, Logf: func(f string, args ...any) { told = append(told, fmt.Sprintf(f, args...)) }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if len(told) == 0 || !strings.Contains(told[0], "built anew") {
				t.Errorf("told %q", told)
			}
			storetest.CheckWhole(t, s)
			if diff := cmp.Diff(before, lookUp(t, s, "c", 40)); diff != "" {
				t.Fatalf("the indexes differ:\n%s", diff)
			}
			if _, err := s.Append(t.Context(), storetest.Call("c3")); world.KindOf(err) != world.KindTaskIDUsed {
				t.Fatalf("an id is committed twice: %v", err)
			}
			appendCalls(t, s, "later", 20)
			lookUp(t, s, "later", 20)
		})
	}
}

// TestReindex makes all that is derived anew, of a store that is damaged in ways that are
// only found when a row is asked for.
func TestReindex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	appendCalls(t, s, "c", 40)
	before := lookUp(t, s, "c", 40)
	_, err := Reindex(t.Context(), Options{Path: path})
	if world.KindOf(err) != world.KindLocked {
		t.Fatalf("an open store: %v", err)
	}
	s.Close()
	script(t, path, "UPDATE index_blocks SET data = CAST(data || x'00' AS BLOB) WHERE (id >> 24) & 15 < 7;")
	s = mustOpen(t, path, sqlstore.Hooks{}) // nothing is due to be merged
	if _, err := s.Invocation(t.Context(), storetest.Call("c0").Invocation); world.KindOf(err) != world.KindIntegrity || !strings.Contains(err.Error(), "store reindex") {
		t.Fatalf("%v", err)
	}
	s.Close()
	done, err := Reindex(t.Context(), Options{Path: path, Limits: tiny})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"objects by hash": 121, "entries by hash": 41, "entries by world": 41, "journal by invocation": 40,
		"objects by semantic id": 121, "refs": done.Indexes["refs"], "entries by episode": 40}
	if diff := cmp.Diff(want, done.Indexes); diff != "" || done.Entries != 41 || done.Indexes["refs"] < 41*6 {
		t.Fatalf("%+v\n%s", done, diff)
	}
	s = openTiny(t, path, nil)
	defer s.Close()
	if n := len(s.db.index.cur.Load().mem); n != 0 {
		t.Errorf("%d segments are left in memory", n)
	}
	if diff := cmp.Diff(before, lookUp(t, s, "c", 40)); diff != "" {
		t.Fatalf("the indexes differ:\n%s", diff)
	}
	storetest.CheckWhole(t, s)
	if _, err := Reindex(t.Context(), Options{Path: filepath.Join(t.TempDir(), "none.db")}); world.KindOf(err) != world.KindNotFound {
		t.Fatalf("no store: %v", err)
	}
}

// copyStore copies a store's files as a crash at this moment would leave them.
func copyStore(t testing.TB, path, to string) {
	for _, suffix := range []string{"", "-wal"} {
		in, err := os.Open(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(to + suffix)
		if err == nil {
			_, err = io.Copy(out, in)
			err = errors.Join(err, out.Close(), in.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCrashAtEachStep copies the files at each step of the indexes' work, and expects of
// each copy that all is there that was acknowledged by then.
func TestCrashAtEachStep(t *testing.T) {
	const each = 4 // copies of one kind of step
	dir := t.TempDir()
	path := filepath.Join(dir, "world.db")
	type crash struct {
		path, step string
		acked      int64
	}
	var crashes []crash
	var acked atomic.Int64
	seen := map[string]int{}
	s := openTiny(t, path, func(step string) {
		if seen[step]++; seen[step] > each {
			return
		}
		c := crash{path: filepath.Join(dir, fmt.Sprintf("crash%d.db", len(crashes))), step: step, acked: acked.Load()}
		copyStore(t, path, c.path)
		crashes = append(crashes, c)
	})
	commit(t, s, storetest.Genesis())
	for i := range 100 {
		if _, err := s.Append(t.Context(), storetest.Call(fmt.Sprint("c", i))); err != nil {
			t.Fatal(err)
		}
		acked.Store(int64(i + 1))
	}
	want := lookUp(t, s, "c", 100)
	s.Close()
	for _, step := range []string{"flush begun", "flush slice", "flush whole", "flush landed", "merge begun", "merge slice", "merge whole", "merge landed", "drop"} {
		if seen[step] == 0 {
			t.Errorf("%s was never reached", step)
		}
	}
	for _, c := range crashes {
		s := openTiny(t, c.path, nil)
		if n := len(storetest.CheckWhole(t, s)); int64(n) < c.acked+1 {
			t.Fatalf("crash at %s: %d entries, acknowledged %d", c.step, n, c.acked+1)
		}
		next := head(t, s).Next - 1 // all calls are the same as before, so the log must be too
		for i := next; i < 100; i++ {
			if _, err := s.Append(t.Context(), storetest.Call(fmt.Sprint("c", i))); err != nil {
				t.Fatalf("crash at %s: %v", c.step, err)
			}
		}
		if diff := cmp.Diff(want, lookUp(t, s, "c", 100)); diff != "" {
			t.Fatalf("crash at %s: the indexes differ:\n%s", c.step, diff)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkBlocks(t, c.path)
	}
}

// checkBlocks sees that every block belongs to a run of the catalogue, and that the whole
// runs follow one another.
func checkBlocks(t testing.TB, path string) {
	t.Helper()
	c := connection(t, path)
	defer c.Close()
	if _, err := c.readCatalogue(false); err != nil {
		t.Fatal(err)
	}
	_, err := c.one("SELECT count(*) FROM index_blocks WHERE id >> 28 NOT IN (SELECT run FROM index_runs)", nil, func(k *cols) error {
		if n := k.int(); n != 0 {
			t.Errorf("%d blocks belong to no run", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRunsAreWrittenMergedAndDropped sees that lookups stay logarithmic, and that no space
// is lost.
func TestRunsAreWrittenMergedAndDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	appendCalls(t, s, "c", 400)
	st := s.db.index.cur.Load()
	if n := len(st.runs.runs); n == 0 || n > 16 || st.runs.runs[0].level < 2 {
		t.Errorf("%d runs, the oldest of level %d", n, st.runs.runs[0].level)
	}
	if !slices.IsSortedFunc(st.runs.runs, func(a, b *run) int { return b.level - a.level }) {
		t.Error("a newer run has a higher level")
	}
	s.Close()
	checkBlocks(t, path)
	if _, err := Reindex(t.Context(), Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	c := connection(t, path)
	defer c.Close()
	if _, err := c.one("SELECT count(*) FROM index_runs", nil, func(k *cols) error {
		if n := k.int(); n != 1 {
			t.Errorf("%d runs after a reindex", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestReadsRaceWithRuns reads back, by every index, what was just acknowledged or long ago,
// while runs are written, merged and dropped.
func TestReadsRaceWithRuns(t *testing.T) {
	s := openTiny(t, filepath.Join(t.TempDir(), "world.db"), nil)
	commit(t, s, storetest.Genesis())
	const writers, each = 4, 60
	var acked [writers]atomic.Int64
	var wg, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				a := storetest.Call(fmt.Sprintf("w%d-%d", w, i))
				if _, err := s.Append(t.Context(), a); err != nil {
					t.Error(err)
					return
				}
				acked[w].Store(int64(i + 1))
				raceRead(t, s, a)
			}
		})
	}
	for r := range writers {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if n := acked[r].Load(); n > 0 {
					raceRead(t, s, storetest.Call(fmt.Sprintf("w%d-%d", r, int64(i)%n)))
				}
				if _, err := s.Scan(t.Context(), 5, func(h store.Hole) { t.Errorf("hole: %+v", h) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	readers.Wait()
	storetest.CheckWhole(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func raceRead(t *testing.T, s *Store, a store.Append) {
	ctx := t.Context()
	inv, err := s.Invocation(ctx, a.Invocation)
	if err != nil || inv.State != store.StateCommitted {
		t.Errorf("%s: %+v, %v", a.Invocation, inv, err)
		return
	}
	if _, err := s.World(ctx, inv.World); err != nil {
		t.Errorf("world of %s: %v", a.Invocation, err)
	}
	if _, err := s.Object(ctx, a.TransitionRef); err != nil {
		t.Errorf("record of %s: %v", a.Invocation, err)
	}
	if refs, err := s.Referrers(ctx, a.TransitionRef, 0, 10); err != nil || len(refs) != 1 || refs[0].Index != inv.EntryIndex {
		t.Errorf("referrers of %s: %+v, %v", a.TransitionRef, refs, err)
	}
	before := hashref.MustParse(a.TransitionRef.String()[:hashref.TextLen-2] + "00")
	list, err := s.ObjectsBySemanticID(ctx, world.SemRecordV1, before, 10)
	if err != nil || !slices.ContainsFunc(list, func(m world.ObjectMeta) bool { return m.Hash == a.TransitionRef }) && before != a.TransitionRef {
		t.Errorf("listing after %s: %+v, %v", before, list, err)
	}
}

// TestGapIsSeen reads after a batch is durable, and before the indexes in memory have it.
func TestGapIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	s := openTiny(t, path, nil)
	defer s.Close()
	commit(t, s, storetest.Genesis())
	appendCalls(t, s, "old", 3)
	st := s.db.index.acquire()
	defer st.release()
	appendCalls(t, s, "new", 30)
	c, err := s.db.connectReader()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.seen = seen{state: st}
	err = c.snapshot(func(r sqlstore.Rows) error {
		for i := range 30 {
			a := storetest.Call(fmt.Sprint("new", i))
			if _, ok, err := r.Object(a.TransitionRef, true); err != nil || !ok {
				t.Errorf("object: %v, %v", ok, err)
			}
			if rows, err := r.Journal(a.Invocation, 10); err != nil || len(rows) != 1 {
				t.Errorf("journal: %v, %v", rows, err)
			}
			if rows, err := r.Refs(a.TransitionRef, 0, 10); err != nil || len(rows) != 1 {
				t.Errorf("refs: %v, %v", rows, err)
			}
		}
		rows, err := r.ObjectsBySemanticID(world.SemRecordV1, hashref.None, 100)
		if len(rows) != 33 {
			t.Errorf("%d records", len(rows))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestUpgrade opens a file of the format before the index by episode.
func TestUpgrade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	appendCalls(t, s, "c", 40)
	before, id := lookUp(t, s, "c", 40), s.ID()
	s.Close()
	script(t, path, fmt.Sprintf("DELETE FROM index_parts WHERE part = %[1]d; DELETE FROM index_blocks WHERE (id >> %[2]d) & 7 = %[1]d;"+
		"UPDATE meta SET version = %[3]d, sum = %[4]d; PRAGMA user_version = %[3]d;", byEpisode, partBits, oldest, sqlstore.SumMeta(id, oldest)))

	_, err := OpenReadOnly(t.Context(), Options{Path: path})
	if world.KindOf(err) != world.KindSchema || !strings.Contains(err.Error(), "older version") {
		t.Fatalf("to be read: %v", err)
	}
	for range 2 {
		s := openTiny(t, path, nil)
		if diff := cmp.Diff(before, lookUp(t, s, "c", 40)); diff != "" || s.ID() != id {
			t.Errorf("%s", diff)
		}
		storetest.CheckWhole(t, s)
		s.Close()
	}
	r, err := OpenReadOnly(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if diff := cmp.Diff(before, lookUp(t, r, "c", 40)); diff != "" {
		t.Errorf("%s", diff)
	}
}
