package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOutOfDescriptors takes from a daemon at work the right to open any more files, and
// gives it back.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.start()
	// Each caller has its connection: none can be accepted later.
	for round := 0; s.dials.Load() < callers; round++ {
		if round == 20 {
			t.Fatalf("%d callers have %d connections", callers, s.dials.Load())
		}
		s.allDone("before", s.load(fmt.Sprint("before", round), 3))
	}
	var had unix.Rlimit
	limit := func(n uint64) {
		t.Helper()
		if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: had.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &had); err != nil {
		t.Fatal(err)
	}
	limit(3) // less than it has open: what it has it keeps
	hurt := s.load("hurt", 6)
	t.Logf("without descriptors: %v", answers(hurt))
	if answers(hurt)["done"] == len(hurt) {
		t.Error("that no file could be opened was not noticed")
	}
	for _, tk := range hurt {
		if tk.kind == pure && !tk.acked { // needs no file that is not open
			t.Errorf("%s was answered %q", tk.id, tk.told)
		}
	}
	limit(had.Cur)
	s.allDone("with descriptors", s.load("after", 3))
	s.settle()
}

// TestFolderThatIsGone removes the folder in which a daemon was started. Nothing of its work
// depends on it.
func TestFolderThatIsGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.folder = filepath.Join(s.dir, "gone")
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	s.start()
	if err := os.Remove(s.folder); err != nil {
		t.Fatal(err)
	}
	for _, pack := range []string{"human", "magisterium"} { // by the daemon, over its socket
		s.run("transitions", "publish", "--db", s.db, "--manifest", filepath.Join("..", "..", "packs", pack, "manifest.json"), "--yes")
	}
	s.allDone("in a folder that is gone", s.load("gone", 6))
	s.folder = ""
	s.settle()
}

// TestOutOfMemory calls transitions that take all the memory that they can get, between
// others that do not. They fail, each with its call alone, and leave nothing.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	dir := t.TempDir()
	modules := filepath.Join("..", "..", "host", "capsule", "wasm")
	greedy, err := os.ReadFile(filepath.Join(modules, "testdata", "bin", "greedy.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"greedy.wasm":   string(greedy),
		"list.star":     "def main(text):\n    all = []\n    for i in range(1 << 40):\n        all.append(\"x\" * (16 << 20))\n    return \"{}\"\n",
		"one.star":      "def main(text):\n    return json.encode({\"n\": len(\"x\" * (16 << 30))})\n",
		"manifest.json": `[` + declare("greedy.wasm") + `,` + declare("list.star") + `,` + declare("one.star") + `]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.run("transitions", "publish", "--db", s.db, "--manifest", filepath.Join(dir, "manifest.json"), "--yes")
	s.start()
	hungry := make(chan *task)
	go func() {
		defer close(hungry)
		for i := range 6 {
			name := []string{"greedy.wasm", "list.star", "one.star"}[i%3]
			tk := &task{id: fmt.Sprint("hungry-", i), kind: pure}
			if err := s.sendAs(tk, name, map[string]any{"n": i}); err != nil {
				tk.told = err.Error()
			}
			hungry <- tk
		}
	}()
	beside := s.load("beside", 10)
	for tk := range hungry {
		if tk.acked || tk.told != "transition execution failed" {
			t.Errorf("%s: acknowledged %v, answered %q", tk.id, tk.acked, tk.told)
		}
	}
	s.allDone("beside them", beside)
	var rss int
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)); err == nil {
		rss = field(string(status), "VmHWM:")
	}
	t.Logf("at most %d MiB in the daemon", rss>>10)
	if rss == 0 || rss > 512<<10 {
		t.Errorf("the daemon itself took %d kB", rss)
	}
	s.settle()
}

func declare(file string) string {
	return fmt.Sprintf(`{"id":%q,"title":%q,"description":"","transitionFnFile":%q,"inputSchema":{},"outputSchema":{},`+
		`"access":{"effect":"Tools.Echo","scope":"demo","cost":0},"declaredEffects":[]}`, file, file, file)
}

// field is a number of /proc/PID/status, 0 if it is not there.
func field(status, name string) (n int) {
	_, rest, _ := strings.Cut(status, name)
	fmt.Sscan(rest, &n)
	return n
}
