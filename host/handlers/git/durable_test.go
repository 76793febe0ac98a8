package git

import (
	"os"
	"strings"
	"testing"
)

// TestCommitIsOnDisk: every git that writes what stays is told to put it on disk before it
// ends; one that writes what goes with the call is not.
func TestCommitIsOnDisk(t *testing.T) {
	b := newBench(t)
	real := gitPath(t)
	dir := b.standIn(`echo "$1 $(` + real + ` config core.fsync) $(` + real + ` config core.fsyncMethod)$(` + real + ` config core.fsyncObjectFiles)" >>DIR/said; exec ` + real + ` "$@"`)
	said := func(op string, members map[string]any) string {
		t.Helper()
		_ = os.Remove(dir + "/said")
		b.ok(op, members)
		text, err := os.ReadFile(dir + "/said")
		must(t, err)
		return string(text)
	}
	b.write(b.tree, "a.txt", "x\n")
	if all := said("diff", nil); !strings.Contains(all, "write-tree none batchfalse") {
		t.Errorf("a diff:\n%s", all)
	}
	for old, want := range map[bool]string{false: "committed,reference batch", true: " true"} {
		b.h.tool.old = old
		b.write(b.tree, "a.txt", want)
		all := said("commit", map[string]any{"message": "m"})
		for _, verb := range []string{"update-index", "write-tree", "commit-tree", "update-ref"} {
			if n := strings.Count(all, "\n"+verb+" "); n == 0 || n != strings.Count(all, "\n"+verb+" "+want) {
				t.Errorf("%s is not told to put what it writes on disk:\n%s", verb, all)
			}
		}
	}
}

// TestLockIsKnownFromTheFirst: whenever an index.lock of ours can be seen, it holds the mark
// by which the next call after a crash knows it.
func TestLockIsKnownFromTheFirst(t *testing.T) {
	dir := t.TempDir()
	stop, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if l, err := lockIndex(dir); err == nil {
				l.release()
			} else {
				t.Error(err)
			}
		}
	}()
	for seen := 0; seen < 300; {
		text, err := os.ReadFile(dir + "/index.lock")
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		if seen++; string(text) != lockMark {
			t.Errorf("a crash now would leave the lock %q", text)
			break
		}
	}
	close(stop)
	<-gone
}
