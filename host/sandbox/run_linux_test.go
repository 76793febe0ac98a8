package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ailang.dev/world/host/world"
)

func limits() Limits {
	return Limits{Wall: 20 * time.Second, CPU: 20 * time.Second, Memory: 256 << 20, Processes: 64, FileSize: 64 << 20, OpenFiles: 256,
		Output: 8 << 20, Keep: 64 << 10, Temp: 64 << 20}
}

func testBinary(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sandboxes are those with control groups, where they can be had, and without.
func sandboxes(t *testing.T, do func(t *testing.T, s *Sandbox)) {
	t.Helper()
	for name, without := range map[string]bool{"groups": false, "watched": true} {
		s := New(Config{Command: []string{testBinary(t), verb}, NoGroups: without, Logf: t.Logf})
		if !without && !s.groups.walled() {
			t.Log("no control groups can be made here: only the watcher is tried")
			continue
		}
		t.Run(name, func(t *testing.T) { do(t, s) })
	}
}

// script is a shell script in a tree.
func script(t *testing.T, text string) Spec {
	t.Helper()
	dir := t.TempDir()
	return Spec{Argv: []string{"sh", "-c", text}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir, Limits: limits(),
		Tree: &Tree{Path: dir, Denied: func(s []string) bool { return s[len(s)-1] == "denied" || s[0] == "denied" }}}
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, []byte(text), 0o644))
	}
}

// lines are a result's output, for comparison.
func lines(res Result) string {
	return strings.TrimSpace(string(res.Stdout.Text) + string(res.Stderr.Text))
}

func TestRun(t *testing.T) {
	sandboxes(t, func(t *testing.T, s *Sandbox) {
		for _, c := range []struct {
			script, out string
			exit        int
			signal      string
		}{
			{"echo out; echo err >&2", "out\nerr", 0, ""},
			{"exit 7", "", 7, ""},
			{"kill -SEGV $$", "", -1, "SIGSEGV"},
			{"cat; echo $?", "0", 0, ""},
			{"hostname; cat /etc/hostname", "sandbox\nsandbox", 0, ""},
			{"(sleep 100 & sleep 100 &) ; echo left", "left", 0, ""},
			{"ls /home /root /run /sys /boot /mnt /opt 2>/dev/null | wc -l", "0", 0, ""},
			{"ls /proc | grep -c '^[0-9]'", "3", 0, ""}, // process 1, ls and grep: the shell executes the last
			{"touch /tmp/x /dev/shm/y && ls /tmp/x /dev/shm/y /var/tmp/x", "/dev/shm/y\n/tmp/x\n/var/tmp/x", 0, ""},
			{"umask; ulimit -n", "0022\n256", 0, ""},
			{"id -u", strconv.Itoa(os.Getuid()), 0, ""},
			{"mkfifo p && (echo through >p &) && cat p", "through", 0, ""},
			{"ln -s sub/x l; mkdir sub; echo y >l; cat sub/x; mv sub/x z; ln z w; cat w", "y\ny", 0, ""},
		} {
			res, err := s.Run(t.Context(), script(t, c.script))
			if err != nil || res.Exit != c.exit || res.Signal != c.signal || lines(res) != c.out && !strings.HasPrefix(c.script, "ls /proc") || res.Limit != LimitNone {
				t.Errorf("%s: %v %+v %q", c.script, err, res, lines(res))
			}
		}
	})
}

func TestStdinAndFolders(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	spec := script(t, "cat; pwd; echo $PWD")
	spec.Stdin, spec.Tree, spec.Dir = []byte("given\n"), nil, ""
	res, err := s.Run(t.Context(), spec)
	if err != nil || lines(res) != "given\n/tmp\n/tmp" {
		t.Errorf("%v %q", err, lines(res))
	}
	shown := t.TempDir()
	put(t, shown, map[string]string{"a": "shown", "hidden/b": "b"})
	must(t, os.Symlink(shown, shown+"-link"))
	spec = script(t, "cat "+shown+"-link/a "+shown+"/a; ls "+shown+"/hidden; touch "+shown+"/new")
	spec.ReadOnly, spec.Hide = []string{shown + "-link"}, []string{shown + "/hidden"}
	res, err = s.Run(t.Context(), spec)
	if err != nil || !strings.HasPrefix(lines(res), "shownshown") || strings.Contains(lines(res), "b\n") || !strings.Contains(lines(res), "Read-only file system") {
		t.Errorf("%v %q", err, lines(res))
	}
}

func TestLimits(t *testing.T) {
	sandboxes(t, func(t *testing.T, s *Sandbox) {
		for _, c := range []struct {
			name   string
			script string
			change func(*Limits)
			limit  Limit
		}{
			{"timeout", "trap '' TERM INT; sleep 100", func(l *Limits) { l.Wall = 300 * time.Millisecond }, LimitTimeout},
			{"cpu", "while :; do :; done", func(l *Limits) { l.CPU = time.Second }, LimitCPU},
			{"cpu of children", "while :; do (while [ $((i=i+1)) -lt 20000 ]; do :; done); done", func(l *Limits) { l.CPU = time.Second }, LimitCPU},
			{"output", "while :; do echo 0123456789; done", func(l *Limits) { l.Output = 1 << 20 }, LimitOutput},
			{"file size", "head -c 10M /dev/zero >f", func(l *Limits) { l.FileSize = 1 << 20 }, LimitFileSize},
			{"memory", "head -c 2G /dev/zero | tail -c 1G", func(*Limits) {}, LimitMemory},
			{"processes", "i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done; wait", func(*Limits) {}, LimitProcesses},
		} {
			spec := script(t, c.script)
			c.change(&spec.Limits)
			res, err := s.Run(t.Context(), spec)
			if err != nil || res.Limit != c.limit {
				t.Errorf("%s: %v %+v", c.name, err, res)
			}
			if c.limit == LimitCPU && res.CPU < time.Second {
				t.Errorf("%s: only %v of processor time are told", c.name, res.CPU)
			}
		}
		spec := script(t, "head -c 100M /dev/zero >/tmp/f; wc -c </tmp/f")
		res, err := s.Run(t.Context(), spec)
		if n, _ := strconv.Atoi(strings.Fields(string(res.Stdout.Text))[0]); err != nil || n > 64<<20 {
			t.Errorf("/tmp holds %d bytes: %v %+v", n, err, res)
		}
	})
}

func TestOutputKeepsBothEnds(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	spec := script(t, "seq 1 100000")
	spec.Limits.Keep = 1000
	res, err := s.Run(t.Context(), spec)
	text := string(res.Stdout.Text)
	if err != nil || !strings.HasPrefix(text, "1\n2\n") || !strings.HasSuffix(text, "\n99999\n100000\n") || !strings.Contains(text, "bytes left out") {
		t.Errorf("%v %q", err, text)
	}
	if res.Stdout.Left != 588895-1000 || res.Stderr.Left != 0 || len(text) > 1100 {
		t.Errorf("%d bytes were left out, %d kept", res.Stdout.Left, len(text))
	}
}

func TestEndOfContext(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Start(ctx, script(t, "trap '' TERM; echo ready; sleep 100"))
	must(t, err)
	cancel()
	res, err := r.Wait()
	if err != nil || res.Exit != -1 || res.Signal != "SIGKILL" || res.Limit != LimitNone {
		t.Errorf("%v %+v", err, res)
	}
	if _, err := s.Run(ctx, script(t, "true")); !errors.Is(err, context.Canceled) {
		t.Errorf("a run after the end: %v", err)
	}
}

// What dies with the process that started it: this test starts itself, kills it, and looks.
func TestEndOfTheDaemon(t *testing.T) {
	if dir := os.Getenv("SANDBOX_TEST_DIR"); dir != "" {
		s := New(Config{Command: []string{testBinary(t), verb}})
		spec := Spec{Argv: []string{"sh", "-c", "setsid sh -c 'while :; do date +%N >beat; sleep 0.01; done' & sleep 1000"}, Env: []string{"PATH=/usr/bin:/bin"},
			Dir: dir, Limits: limits(), Tree: &Tree{Path: dir, Denied: func([]string) bool { return false }}}
		_, err := s.Run(t.Context(), spec)
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := osexec.Command(testBinary(t), "-test.run=^TestEndOfTheDaemon$")
	cmd.Env = append(os.Environ(), "SANDBOX_TEST_DIR="+dir)
	must(t, cmd.Start())
	beat := filepath.Join(dir, "beat")
	until(t, "the command runs", func() bool { _, err := os.Stat(beat); return err == nil })
	must(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	var was []byte
	silent := time.Now()
	until(t, "the command has ended", func() bool {
		now, err := os.ReadFile(beat)
		must(t, err)
		if string(now) != string(was) {
			was, silent = now, time.Now()
		}
		return time.Since(silent) > 2*time.Second // two hundred beats
	})
}

// until waits for what another process does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 10 s it is not so that %s", what)
		}
	}
}

func TestDenied(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	spec := script(t, `echo x >denied/a; echo x >sub/denied; rm -rf sub; mkdir -p new/denied other; echo x >new/denied/a; ln -s /etc other/denied
rm l/denied; chmod 0 new; rm denied/a; cat denied/a sub/denied`)
	tree := spec.Tree.Path
	put(t, tree, map[string]string{"denied/a": "one\n", "sub/denied": "two\n", "sub/b": "b"})
	must(t, os.Mkdir(filepath.Join(tree, "l"), 0o755))
	must(t, os.Symlink("../sub", filepath.Join(tree, "l", "denied")))
	res, err := s.Run(t.Context(), spec)
	must(t, err)
	if d := cmp.Diff([]string{"l/denied", "new/denied", "other/denied"}, res.Removed); d != "" {
		t.Error(d)
	}
	if string(res.Stdout.Text) != "one\ntwo\n" {
		t.Errorf("%q", lines(res))
	}
	if to, err := os.Readlink(filepath.Join(tree, "l", "denied")); err != nil || to != "../sub" {
		t.Errorf("the denied link: %q %v", to, err)
	}
	for name, there := range map[string]bool{"denied/a": true, "sub/denied": true, "sub/b": false, "new/denied": false, "other/denied": false, "other": true} {
		if _, err := os.Lstat(filepath.Join(tree, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Runs that overlap agree on what was there: what the first plants is not a denied path that
// was there, in the eyes of the second.
func TestOverlappingRuns(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	first := script(t, "ln -s /etc denied; touch planted; while [ ! -e go ]; do sleep 0.01; done")
	second := first
	second.Argv = []string{"sh", "-c", "rm -f denied; touch go; true"}
	tree := first.Tree.Path
	r, err := s.Start(t.Context(), first)
	must(t, err)
	until(t, "the first has planted", func() bool { _, err := os.Lstat(filepath.Join(tree, "planted")); return err == nil })
	_, err = s.Run(t.Context(), second)
	must(t, err)
	_, err = r.Wait()
	must(t, err)
	if _, err := os.Lstat(filepath.Join(tree, "denied")); err == nil {
		t.Error("what the first planted is there")
	}
	if len(s.trees.m) != 0 {
		t.Errorf("trees are still kept: %v", s.trees.m)
	}
}

// A tree that changes between being looked at and being mounted is looked at again.
func TestTreeChangesBeforeTheStart(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	spec := script(t, "cat sub/denied/a; echo x >sub/denied/a")
	tree := spec.Tree.Path
	put(t, tree, map[string]string{"sub/denied/a": "one\n", "other/denied/a": "two\n"})
	times := 0
	s.hooks.walked = func() {
		if times++; times == 1 { // what was seen in sub is somewhere else, and something else there
			must(t, os.Rename(filepath.Join(tree, "sub"), filepath.Join(tree, "third")))
			must(t, os.Symlink("other", filepath.Join(tree, "sub")))
		}
	}
	res, err := s.Run(t.Context(), spec)
	if err != nil || times != 2 || string(res.Stdout.Text) != "two\n" || res.Exit == 0 || len(res.Removed) > 0 {
		t.Errorf("%v after %d: %+v %q", err, times, res, lines(res))
	}
	// One that never comes to rest is told.
	s.hooks.walked = func() { must(t, os.RemoveAll(filepath.Join(tree, "denied"))) }
	put(t, tree, map[string]string{"denied/b": "", "rest": ""})
	spec.Tree.Denied = func(segs []string) bool {
		put(t, tree, map[string]string{"denied/b": "", "rest": ""})
		return segs[0] == "denied"
	}
	if _, err := s.Run(t.Context(), spec); err == nil || !strings.Contains(world.Message(err), "the worktree changes") {
		t.Error(err)
	}
}

func TestSocketsInTheTreeAreCovered(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	spec := script(t, "stat -c %F s p; ls -l s; mkfifo made; mkdir -m 0 shut")
	l, err := net.Listen("unix", filepath.Join(spec.Tree.Path, "s"))
	must(t, err)
	defer l.Close()
	must(t, unix.Mkfifo(filepath.Join(spec.Tree.Path, "p"), 0o600))
	res, err := s.Run(t.Context(), spec)
	if err != nil || !strings.HasPrefix(lines(res), "regular empty file\nregular empty file\n") || len(res.Removed) > 0 {
		t.Errorf("%v %q %v", err, lines(res), res.Removed)
	}
	// What the run made of the kind is gone with it, and nothing else.
	names, err := readNames(spec.Tree.Path)
	must(t, err)
	slices.Sort(names)
	if d := cmp.Diff([]string{"p", "s", "shut"}, names); d != "" {
		t.Error(d)
	}
	if fi, err := os.Stat(filepath.Join(spec.Tree.Path, "shut")); err != nil || fi.Mode().Perm() != 0 {
		t.Errorf("the mode of a folder that cannot be read: %v %v", fi, err)
	}
}

func TestRefusals(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	for name, c := range map[string]struct {
		change func(*Spec)
		kind   world.Kind
	}{
		"no command":       {func(s *Spec) { s.Argv = nil }, world.KindBadRequest},
		"NUL":              {func(s *Spec) { s.Argv = []string{"a\x00"} }, world.KindBadRequest},
		"too many":         {func(s *Spec) { s.Argv = make([]string, MaxArgs+1) }, world.KindTooLarge},
		"too long":         {func(s *Spec) { s.Argv = []string{strings.Repeat("a", MaxArgBytes)} }, world.KindTooLarge},
		"stdin":            {func(s *Spec) { s.Stdin = make([]byte, MaxStdin+1) }, world.KindTooLarge},
		"paths":            {func(s *Spec) { s.Hide = make([]string, MaxPaths+1) }, world.KindTooLarge},
		"relative":         {func(s *Spec) { s.ReadOnly = []string{"a"} }, world.KindBadRequest},
		"the root":         {func(s *Spec) { s.ReadOnly = []string{"/"} }, world.KindBadRequest},
		"no limit":         {func(s *Spec) { s.Limits.Memory = 0 }, world.KindBadRequest},
		"keep":             {func(s *Spec) { s.Limits.Keep = MaxKeep + 1 }, world.KindTooLarge},
		"missing path":     {func(s *Spec) { s.ReadOnly = []string{"/no/such"} }, world.KindNotFound},
		"missing program":  {func(s *Spec) { s.Argv = []string{"/no/such"} }, world.KindNotFound},
		"not in PATH":      {func(s *Spec) { s.Argv = []string{"no-such"} }, world.KindNotFound},
		"missing tree":     {func(s *Spec) { s.Tree.Path = "/no/such" }, world.KindNotFound},
		"many sockets":     {manySockets, world.KindTooLarge},
		"a very deep tree": {func(s *Spec) { must(t, os.MkdirAll(s.Tree.Path+strings.Repeat("/d", maxDepth+2), 0o755)) }, world.KindTooLarge},
	} {
		spec := script(t, "true")
		c.change(&spec)
		if _, err := s.Run(t.Context(), spec); world.KindOf(err) != c.kind || world.Message(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.trees.m) != 0 {
		t.Errorf("trees are still kept: %v", s.trees.m)
	}
}

func manySockets(s *Spec) {
	for i := range maxMounts + 1 {
		_ = unix.Mkfifo(filepath.Join(s.Tree.Path, strconv.Itoa(i)), 0o600)
	}
}

// The groups of a daemon that was killed are taken away by the next; those of one that lives
// are not.
func TestGroupsAreSwept(t *testing.T) {
	g := findGroups()
	if !g.walled() {
		t.Skip("no control groups can be made here")
	}
	own, err := g.make(limits())
	must(t, err)
	defer own.remove()
	gone := osexec.Command("true")
	must(t, gone.Run())
	left := filepath.Join(filepath.Dir(own.last()), groupName+strconv.Itoa(gone.Process.Pid)+"-X")
	must(t, os.Mkdir(left, 0o755))
	g.sweep()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed daemon left is there: %v", err)
	}
	_, err = os.Stat(own.last())
	must(t, err)
}

func TestProbe(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}})
	rep := s.Probe(t.Context())
	if !rep.OK() || rep.Text() == "" || rep.Groups != s.groups.walled() {
		t.Errorf("%+v", rep)
	}
	if entries, err := readNames("/proc/self/fd"); err != nil || len(entries) > 64 {
		t.Errorf("%d descriptors are open: %v", len(entries), err)
	}
	// Groups that cannot be entered are done without.
	odd := New(Config{Command: []string{testBinary(t), verb}})
	odd.groups = groups{memory: t.TempDir(), pid: "/no/such"}
	if rep := odd.Probe(t.Context()); !rep.OK() || rep.Groups || !strings.Contains(rep.Text(), "weaker: control groups") {
		t.Errorf("%+v", rep)
	}
	// A program that is no sandbox's first process is told as what is missing.
	rep = New(Config{Command: []string{"/bin/true"}}).Probe(t.Context())
	if rep.OK() || !strings.Contains(rep.Text(), "missing: ") {
		t.Errorf("%+v", rep)
	}
	rep = New(Config{Command: []string{"/no/such"}}).Probe(t.Context())
	if rep.OK() {
		t.Errorf("%+v", rep)
	}
	for step, want := range map[string]string{"mount proc": "systempaths", "capabilities": "user namespaces", "seccomp": "CONFIG_SECCOMP", "mount /usr": "5.14", "other": "docs/sandbox.md"} {
		if m := missing(&StepError{step, "why"}); m.What != step || m.Why != "why" || !strings.Contains(m.How, want) {
			t.Errorf("%s: %+v", step, m)
		}
	}
	if m := missing(errors.New("namespaces: not permitted")); m.What != "user namespaces" || m.How == "" {
		t.Errorf("%+v", m)
	}
}
