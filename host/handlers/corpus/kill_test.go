package corpus_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/corpus/ingest"
	"ailang.dev/world/host/world"
)

var killed = flag.String("killed", "", "for TestAnAddThatIsKilled alone: the folder to add")

// folderStore keeps objects as files, so that they outlive the process.
type folderStore string

func (f folderStore) PutDocuments(_ context.Context, objects []world.Object) error {
	for _, o := range objects {
		if err := os.WriteFile(filepath.Join(string(f), o.Hash.Hex()), o.Payload, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Object reads an object back, for a rebuild.
func (f folderStore) Object(_ context.Context, ref world.Ref) (world.Object, error) {
	payload, err := os.ReadFile(filepath.Join(string(f), ref.Hex()))
	o := world.Object{Payload: payload}
	o.Hash = ref
	return o, err
}

// TestAnAddThatIsKilled kills a process that adds, at any time; then the index holds whole
// documents alone, and another add makes of it what one that was not killed makes.
func TestAnAddThatIsKilled(t *testing.T) {
	if *killed != "" { // the process that is killed
		_, err := ingest.Add(t.Context(), ingest.Request{Dir: filepath.Join(*killed, "dir"), Corpus: "library", Paths: []string{filepath.Join(*killed, "files")},
			Store: folderStore(filepath.Join(*killed, "objects"))})
		must(t, err)
		return
	}
	home := t.TempDir()
	for _, dir := range []string{"files", "objects"} {
		must(t, os.Mkdir(filepath.Join(home, dir), 0o700))
	}
	for i := range 1000 {
		text := fmt.Sprintf("# Document %d\n\n", i)
		for s := range 4 {
			text += fmt.Sprintf("## %d. Part\n\nThe text of part %d, document %d, number%d.\n\n", s+1, s+1, i, i*4+s)
		}
		must(t, os.WriteFile(filepath.Join(home, "files", fmt.Sprintf("d%04d.md", i)), []byte(text), 0o600))
	}
	kills, last := 0, 0
	for delay := time.Millisecond; kills < 30; delay += max(delay/8, 5*time.Millisecond) {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestAnAddThatIsKilled$", "-killed", home)
		must(t, cmd.Start())
		kill := time.AfterFunc(delay, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err == nil {
			break // it was done before
		}
		kills++
		last = wholeDocuments(t, filepath.Join(home, "dir"))
	}
	d := newDesk(t, nil)
	d.files, d.dir = filepath.Join(home, "files"), filepath.Join(home, "dir")
	if r := d.add(); r.Added+r.Unchanged != 1000 || r.Unchanged < last {
		t.Errorf("%+v", r)
	}
	fresh := newDesk(t, nil)
	fresh.files = d.files
	fresh.add()
	if diff := cmp.Diff(dump(t, fresh.dir), dump(t, d.dir)); diff != "" {
		t.Errorf("what was killed and completed is not what was made at once: %s", diff)
	}
	must(t, d.lib.Close())
	for _, o := range d.shelf.all {
		must(t, folderStore(filepath.Join(home, "objects")).PutDocuments(t.Context(), []world.Object{o}))
	}
	n, err := corpus.Rebuild(t.Context(), d.dir, "library", folderStore(filepath.Join(home, "objects")), func(id string, err error) { t.Errorf("%s: %v", id, err) })
	must(t, err)
	if diff := cmp.Diff(dump(t, fresh.dir), dump(t, d.dir)); diff != "" || n != 1000 || kills == 0 {
		t.Errorf("killed %d times, then made anew of the list: %d documents: %s", kills, n, diff)
	}
	t.Logf("killed %d times", kills)
}

// wholeDocuments demands that each document that there is has all its passages.
func wholeDocuments(t *testing.T, dir string) int {
	t.Helper()
	lib := corpus.NewLibrary(dir)
	defer lib.Close()
	if _, err := lib.Status(t.Context(), "library"); world.KindOf(err) == world.KindNotFound && err != nil {
		return 0 // killed before there was an index
	} else if err != nil {
		t.Fatalf("what a kill left: %v", err)
	}
	all := dump(t, dir)
	documents, passages := 0, 0
	for k := range all {
		switch {
		case len(k) > 9 && k[:9] == "document ":
			documents++
		case len(k) > 8 && k[:8] == "passage ":
			passages++
		}
	}
	if passages != 4*documents {
		t.Errorf("%d documents with %d passages", documents, passages)
	}
	return documents
}
