package corpus_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/world"
)

func TestRebuild(t *testing.T) {
	d := newDesk(t, three)
	before := dump(t, d.dir)
	for name, damage := range map[string]func(path string){
		"lost":      func(path string) { must(t, os.Remove(path)) },
		"no index":  func(path string) { must(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 999)), 0o600)) },
		"cut short": func(path string) { must(t, os.Truncate(path, 8192)) },
		"torn list": func(path string) {
			f, err := os.OpenFile(strings.TrimSuffix(path, ".db")+".list", os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			f.WriteString(`{"id":"torn`)
			must(t, f.Close())
			must(t, os.Remove(path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d.lib.Close()
			damage(filepath.Join(d.dir, "library.db"))
			_, err := d.lib.Search(t.Context(), "library", corpus.Query{Query: "grace"})
			if k := world.KindOf(err); k != world.KindIntegrity || !strings.Contains(err.Error(), "corpus rebuild library") {
				t.Errorf("a search of a damaged index: %v", err)
			}
			n, err := corpus.Rebuild(t.Context(), d.dir, "library", d.shelf, func(id string, err error) { t.Errorf("%s: %v", id, err) })
			must(t, err)
			if n != 3 {
				t.Errorf("%d documents", n)
			}
			if diff := cmp.Diff(before, dump(t, d.dir)); diff != "" {
				t.Error(diff)
			}
			if got := d.places(corpus.Query{Query: "fruits"}); len(got) != 1 {
				t.Errorf("%v", got)
			}
		})
	}
	gone := maps.Clone(d.shelf.all)
	for ref := range gone {
		delete(d.shelf.all, ref)
		break
	}
	missing := 0
	if n, err := corpus.Rebuild(t.Context(), d.dir, "library", d.shelf, func(string, error) { missing++ }); err != nil || n != 2 || missing != 1 {
		t.Errorf("%d documents, %d missing, %v", n, missing, err)
	}
}

// TestAFlippedByteIsTold: a row that does not prove itself is not shown.
func TestAFlippedByteIsTold(t *testing.T) {
	for _, sql := range []string{
		"UPDATE passages SET text = replace(text, 'real', 'unreal')", "UPDATE passages SET section = '9'", "UPDATE documents SET ref = replace(ref, 'a', 'b')",
		"UPDATE documents SET title = title || 'x'", "DELETE FROM documents", "DELETE FROM meta",
	} {
		d := newDesk(t, map[string]string{"eucharist.md": three["eucharist.md"]})
		c, err := sqlite.OpenConn(filepath.Join(d.dir, "library.db"), sqlite.OpenReadWrite)
		must(t, err)
		must(t, sqlitex.Execute(c, sql, nil))
		must(t, c.Close())
		if _, err := d.lib.Search(t.Context(), "library", corpus.Query{Query: "real presence"}); world.KindOf(err) != world.KindIntegrity {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestReadersSeeWhatIsThere: an index that another process changes, or puts another in the
// place of, is read as it is, by many at once.
func TestReadersSeeWhatIsThere(t *testing.T) {
	d := newDesk(t, three)
	stop, searched := make(chan struct{}), make(chan error, 8)
	for range cap(searched) {
		go func() {
			for {
				select {
				case <-stop:
					searched <- nil
					return
				default:
				}
				if f, err := d.lib.Search(context.Background(), "library", corpus.Query{Query: "grace fruits"}); err != nil || len(f.Passages) < 4 {
					searched <- fmt.Errorf("%v %w", f, err)
					return
				}
			}
		}()
	}
	for i := range 5 {
		if i%2 == 1 {
			n, err := corpus.Rebuild(t.Context(), d.dir, "library", d.shelf, func(id string, err error) { t.Errorf("%s: %v", id, err) })
			must(t, err)
			if n != 4 {
				t.Errorf("%d documents", n)
			}
		}
		d.write(map[string]string{"new.txt": fmt.Sprintf("New\n\nNumber %d of grace.\n", i)})
		d.add()
		if got := d.search(corpus.Query{Query: fmt.Sprintf(`"number %d"`, i)}); len(got.Passages) != 1 {
			t.Errorf("change %d is not seen", i)
		}
	}
	close(stop)
	for range cap(searched) {
		must(t, <-searched)
	}
}

func TestOneChangesAtATime(t *testing.T) {
	d := newDesk(t, three)
	w, err := corpus.OpenWriter(t.Context(), d.dir, "library")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := corpus.OpenWriter(ctx, d.dir, "library"); world.KindOf(err) != world.KindLocked {
		t.Errorf("%v", err)
	}
	must(t, w.Close())
	for _, name := range []string{"", "A", "a/b", "..", "-a", strings.Repeat("a", 65), "a_b"} {
		if _, err := corpus.OpenWriter(t.Context(), d.dir, name); world.KindOf(err) != world.KindBadRequest {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// faulty is a shelf that cannot be read just now.
type faulty struct{}

func (faulty) Object(context.Context, world.Ref) (world.Object, error) {
	return world.Object{}, world.Errorf(world.KindInternal, "test", "the disk is away")
}

// TestRebuildKeepsWhatThereIs: without its list, or while documents cannot be read, an index
// is not made anew, and the one that there is stays.
func TestRebuildKeepsWhatThereIs(t *testing.T) {
	d := newDesk(t, three)
	before := dump(t, d.dir)
	missing := func(id string, err error) { t.Errorf("%s: %v", id, err) }
	if _, err := corpus.Rebuild(t.Context(), d.dir, "library", faulty{}, missing); world.KindOf(err) != world.KindInternal {
		t.Errorf("a store that is away: %v", err)
	}
	must(t, os.Rename(filepath.Join(d.dir, "library.list"), filepath.Join(d.dir, "kept")))
	if _, err := corpus.Rebuild(t.Context(), d.dir, "library", d.shelf, missing); world.KindOf(err) != world.KindIntegrity || !strings.Contains(err.Error(), "library.list") {
		t.Errorf("no list: %v", err)
	}
	must(t, os.Rename(filepath.Join(d.dir, "kept"), filepath.Join(d.dir, "library.list")))
	if diff := cmp.Diff(before, dump(t, d.dir)); diff != "" {
		t.Error(diff)
	}
}

// TestTheListIsTrue: what could not be written into the index is not listed, a line that
// cannot be read is told, and that something was removed is known.
func TestTheListIsTrue(t *testing.T) {
	d := newDesk(t, three)
	path := filepath.Join(d.dir, "library.list")
	before, err := os.ReadFile(path)
	must(t, err)
	c, err := sqlite.OpenConn(filepath.Join(d.dir, "library.db"), sqlite.OpenReadWrite)
	must(t, err)
	must(t, sqlitex.Execute(c, "BEGIN IMMEDIATE", nil))
	w, err := corpus.OpenWriter(t.Context(), d.dir, "library")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.Remove(ctx, []string{"eucharist"}); err == nil {
		t.Error("an index that another holds was changed")
	}
	must(t, c.Close())
	after, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("a change that failed is listed: %s", diff)
	}
	must(t, w.Remove(t.Context(), []string{"eucharist"}))
	must(t, w.Finish(t.Context()))
	removed, err := w.Removed()
	must(t, err)
	if want := map[string]bool{filepath.Join(d.files, "eucharist.md"): true}; !maps.Equal(removed, want) {
		t.Errorf("removed: %v", removed)
	}
	must(t, w.Close())
	after, err = os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append([]byte("{no line\n"), after...), 0o600))
	told := ""
	n, err := corpus.Rebuild(t.Context(), d.dir, "library", d.shelf, func(id string, err error) { told += id + ": " + err.Error() })
	must(t, err)
	if n != 2 || told != "line 1 of the list: it cannot be read" {
		t.Errorf("%d documents, %q", n, told)
	}
}

// TestWhatIsLostIsTold: an index that is lost is not made anew empty by whoever adds, a list that
// is lost is written again, and a rebuild leaves out nothing that the index has.
func TestWhatIsLostIsTold(t *testing.T) {
	d := newDesk(t, three)
	before := dump(t, d.dir)
	index, list := filepath.Join(d.dir, "library.db"), filepath.Join(d.dir, "library.list")
	must(t, d.lib.Close())
	must(t, os.Rename(index, index+".away"))
	if _, err := corpus.OpenWriter(t.Context(), d.dir, "library"); world.KindOf(err) != world.KindIntegrity || !strings.Contains(err.Error(), "corpus rebuild library") {
		t.Errorf("an add to a lost index: %v", err)
	}
	if names, err := corpus.Names(d.dir); err != nil || !slices.Equal(names, []string{"library"}) {
		t.Errorf("%v %v", names, err)
	}
	must(t, os.Rename(index+".away", index))
	must(t, os.Remove(list))
	d.write(map[string]string{"new.txt": "New\n\nOf grace.\n"})
	d.add()
	must(t, d.lib.Close())
	lines, err := os.ReadFile(list)
	must(t, err)
	if n := strings.Count(string(lines), "\n"); n != len(three)+1 {
		t.Errorf("%d lines", n)
	}
	// A list that lost its beginning.
	must(t, os.WriteFile(list, lines[strings.Index(string(lines), "\n")+1:], 0o600))
	n, err := corpus.Rebuild(t.Context(), d.dir, "library", d.shelf, func(id string, err error) { t.Errorf("%s: %v", id, err) })
	must(t, err)
	if n != len(three)+1 {
		t.Errorf("%d documents", n)
	}
	for k := range before {
		if _, ok := dump(t, d.dir)[k]; !ok {
			t.Errorf("%s is gone", k)
		}
	}
}

// TestRebuildKeepsIDs: of an id that the list has twice, as after a kill before the index was
// written, the document keeps it that had it, and the other takes none that is another's.
func TestRebuildKeepsIDs(t *testing.T) {
	d := newDesk(t, map[string]string{"b/readme.md": "# B\n\nOf grace.\n", "c/readme.md": "# C\n\nOf grace.\n"})
	list := filepath.Join(d.dir, "library.list")
	lines, err := os.ReadFile(list)
	must(t, err)
	killed := strings.ReplaceAll(strings.SplitAfter(string(lines), "\n")[0], "b/readme", "a/readme")
	must(t, os.WriteFile(list, append([]byte(killed), lines...), 0o600))
	ids := func() map[string]string {
		all, err := d.lib.Documents(t.Context(), "library", "", 10)
		must(t, err)
		of := map[string]string{}
		for _, doc := range all {
			of[filepath.Base(filepath.Dir(doc.Origin))] = doc.ID
		}
		return of
	}
	if got := ids(); got["b"] != "readme" || got["c"] != "readme-2" {
		t.Fatalf("%v", got)
	}
	n, err := corpus.Rebuild(t.Context(), d.dir, "library", d.shelf, func(id string, err error) { t.Errorf("%s: %v", id, err) })
	must(t, err)
	if got := ids(); n != 3 || got["b"] != "readme" || got["c"] != "readme-2" || got["a"] != "readme-3" {
		t.Errorf("%d documents: %v", n, got)
	}
}
