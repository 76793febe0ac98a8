package ailang

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ailang.dev/world/host/archive"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/capsuletest"
	"ailang.dev/world/host/world"
)

// TestPinRefuses: what cannot be a release is refused at once, with words about the file,
// and leaves no engine.
func TestPinRefuses(t *testing.T) {
	whole, err := os.ReadFile(standin)
	if err != nil {
		t.Fatal(err)
	}
	file := func(t *testing.T, text []byte, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "ailang")
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fault := func(name string) func(*testing.T) string {
		return func(t *testing.T) string { return release(t, "v1", name) }
	}
	for name, tt := range map[string]struct {
		path func(t *testing.T) string
		want string
	}{
		"missing":  {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, "no such file"},
		"a folder": {func(t *testing.T) string { return t.TempDir() }, "is a folder"},
		"a pipe": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return path
		}, "is not a regular file"},
		"empty":              {func(t *testing.T) string { return file(t, nil, 0o755) }, "is empty"},
		"not executable":     {func(t *testing.T) string { return file(t, whole, 0o644) }, "is not executable"},
		"a script":           {func(t *testing.T) string { return file(t, []byte("#!/bin/sh\necho v1\n"), 0o755) }, "is a script"},
		"a text":             {func(t *testing.T) string { return file(t, []byte("AILANG\n"), 0o755) }, "exec format error"},
		"truncated":          {func(t *testing.T) string { return file(t, whole[:len(whole)/2], 0o755) }, "cannot be pinned"},
		"cut in its header":  {func(t *testing.T) string { return file(t, whole[:40], 0o755) }, "exec format error"},
		"of another machine": {func(t *testing.T) string { return file(t, otherMachine(whole), 0o755) }, "exec format error"},
		"version hangs":      {fault("version hangs"), "--version takes longer than 5s"},
		"version floods":     {fault("version floods"), "--version: it wrote too much to stdout"},
		"version fails":      {fault("version fails"), "--version: exit code 1: Error: no version today"},
		"version is nothing": {fault("version says nothing"), "--version says nothing that is text"},
		"version is no text": {fault("version is no text"), "--version says nothing that is text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := tt.path(t)
			cfg := testConfig(t)
			e, err := Pin(t.Context(), cfg, path)
			if left, err := os.ReadDir(cfg.Archive); len(left) != 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("in the archive: %v, %v", left, err)
			}
			if world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), tt.want) || !strings.Contains(world.Message(err), path) {
				t.Errorf("%v, want %q and the path", err, tt.want)
			}
			if e != nil {
				t.Error("there is an engine")
			}
		})
	}
}

// otherMachine makes the file one of a machine that there is not.
func otherMachine(program []byte) []byte {
	p := append([]byte(nil), program...)
	p[18], p[19] = 0xfe, 0xca // e_machine of an ELF header
	return p
}

// TestBrokenRelease: whatever a release does instead of running a source, the client learns
// nothing of it, the cause says it, and it ends in time.
func TestBrokenRelease(t *testing.T) {
	for fault, tt := range map[string]struct {
		kind  world.Kind // of RunObject; of Run too, but for what only JSON refuses
		cause string
	}{
		"run hangs":           {world.KindExecution, "deadline exceeded"},
		"run floods stdout":   {world.KindExecution, "it wrote too much to stdout"},
		"run floods stderr":   {world.KindExecution, "it wrote too much to stderr"},
		"run exits with 3":    {world.KindExecution, "exit code 3: \ufffd[31mthree\ufffd[0m at last"},
		"run says nonsense":   {world.KindBadOutput, "invalid"},
		"run says nothing":    {world.KindBadOutput, "the binary printed nothing"},
		"run says no text":    {world.KindBadOutput, "no UTF-8"},
		"run says two values": {world.KindBadOutput, "after top-level value"},
		"run has banner":      {world.KindBadOutput, "invalid"},
		"":                    {0, ""},
	} {
		t.Run("a release that "+fault, func(t *testing.T) {
			t.Parallel()
			e := pin(t, testConfig(t), release(t, "v1", fault))
			for range 2 {
				begun := time.Now()
				out, err := capsule.RunObject(t.Context(), e, capsule.NewSource(body("echo")), []byte(`{}`))
				if took := time.Since(begun); took > capsule.PhaseTimeout+capsuletest.Prompt {
					t.Errorf("took %v", took)
				}
				if tt.kind == 0 {
					if err != nil || string(out) != "{}" {
						t.Errorf("%q, %v", out, err)
					}
					continue
				}
				if world.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.cause) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v %v, want %v with %q in one line", world.KindOf(err), err, tt.kind, tt.cause)
				}
				if msg := world.Message(err); msg != "" {
					t.Errorf("the client is told %q", msg)
				}
			}
			if err := e.Check(t.Context(), capsule.NewSource(body("echo"))); err != nil {
				t.Errorf("its check is sound: %v", err)
			}
		})
	}
}

// TestHangIsThePhasesEnd: without a deadline of its own a run ends with its phase.
func TestHangIsThePhasesEnd(t *testing.T) {
	e := pin(t, testConfig(t), standin)
	begun := time.Now()
	_, err := e.Run(t.Context(), capsule.NewSource(body("sleep")), []byte("{}"))
	if took := time.Since(begun); world.KindOf(err) != world.KindExecution || took < capsule.PhaseTimeout || took > capsule.PhaseTimeout+capsuletest.Prompt {
		t.Errorf("after %v: %v", took, err)
	}
}

// TestKilledFromOutside: an end by a signal that was not ours is a failed run.
func TestKilledFromOutside(t *testing.T) {
	e := pin(t, testConfig(t), standin)
	e.started = func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
	_, err := e.Run(t.Context(), capsule.NewSource(body("sleep")), []byte("{}"))
	if world.KindOf(err) != world.KindExecution || !strings.Contains(err.Error(), "signal: killed") {
		t.Error(err)
	}
}

// TestChangedOnDisk: nothing runs while the archived file is not what its name says, and
// all runs again when it is.
func TestChangedOnDisk(t *testing.T) {
	cfg := testConfig(t)
	e := pin(t, cfg, standin)
	path := archive.Path(cfg.Archive, e.Identity().Ref)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o500 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	put := func(text []byte) func() error {
		return func() error { return os.WriteFile(path, text, 0o500) }
	}
	gone := func() error { return os.RemoveAll(path) }
	for _, tt := range []struct {
		name, want string
		change     func() error
	}{
		{"truncated", "its hash does not fit its name", func() error { return os.Truncate(path, 1<<10) }},
		{"emptied", "is empty", func() error { return os.Truncate(path, 0) }},
		{"one bit", "its hash does not fit its name", put(append(append([]byte(nil), whole[:len(whole)-1]...), whole[len(whole)-1]^1))},
		{"of another machine", "its hash does not fit its name", put(otherMachine(whole))},
		{"missing", "no such file", gone},
		{"a folder", "is a folder", func() error { return errors.Join(gone(), os.Mkdir(path, 0o700)) }},
		{"a link", "too many levels of symbolic links", func() error { return errors.Join(gone(), os.Symlink(standin, path)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := errors.Join(os.Chmod(path, 0o700), tt.change()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err := capsule.RunObject(t.Context(), e, capsule.NewSource(body("echo")), []byte("{}"))
				if world.KindOf(err) != world.KindEngineMissing || !strings.Contains(err.Error(), tt.want) || world.Message(err) != "" {
					t.Errorf("%v, want %q", err, tt.want)
				}
				if err := e.Prove(); world.KindOf(err) != world.KindEngineMissing {
					t.Errorf("Prove: %v", err)
				}
			}
			err := e.Check(t.Context(), capsule.NewSource(body("echo")))
			if world.KindOf(err) != world.KindEngineMissing || !strings.Contains(world.Message(err), tt.want) {
				t.Errorf("Check: %v", err)
			}
			if err := gone(); err != nil {
				t.Fatal(err)
			}
			if err := put(whole)(); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Run(t.Context(), capsule.NewSource(body("echo")), []byte("{}")); err != nil {
				t.Errorf("put back: %v", err)
			}
		})
	}
	// What looks changed and is not runs on.
	if err := os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(t.Context(), capsule.NewSource(body("echo")), []byte("{}")); err != nil {
		t.Errorf("touched: %v", err)
	}
}

// TestArgument: an input that fits no argument fails the run before anything is started.
func TestArgument(t *testing.T) {
	e := pin(t, testConfig(t), standin)
	e.started = func(int) { t.Error("something was started") }
	for name, tt := range map[string]struct{ input, want string }{
		"too long":             {strings.Repeat(" ", MaxArgument-1), "131072 bytes as a JSON string, and one argument of a command line at most 131071"},
		"far too long":         {strings.Repeat(" ", capsule.MaxInput), "and one argument of a command line at most 131071"},
		"too long as a string": {strings.Repeat(`"`, MaxArgument/2+1), "131074 bytes as a JSON string"},
		"not UTF-8":            {"{\"a\":\"\xff\"}", "invalid UTF-8"},
	} {
		_, err := e.Run(t.Context(), capsule.NewSource(body("echo")), []byte(tt.input))
		if world.KindOf(err) != world.KindExecution || !strings.Contains(err.Error(), tt.want) || world.Message(err) != "" {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestSlotsAreShared: engines that share slots wait for one another, within their contexts.
func TestSlotsAreShared(t *testing.T) {
	cfg := testConfig(t)
	cfg.Slots = capsule.NewSlots(1)
	a, b := pin(t, cfg, standin), pin(t, cfg, release(t, "another", ""))
	started := make(chan int, 2)
	a.started = func(pid int) { started <- pid }
	b.started = func(int) { t.Error("two at once") }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := a.Run(ctx, capsule.NewSource(body("sleep")), []byte("{}"))
		ended <- err
	}()
	<-started
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := b.Run(short, capsule.NewSource(body("echo")), []byte("{}")); world.KindOf(err) != world.KindDeadline {
		t.Errorf("while the only slot is taken: %v", err)
	}
	cancel()
	if err := <-ended; world.KindOf(err) != world.KindCanceled {
		t.Error(err)
	}
	b.started = nil
	if _, err := b.Run(t.Context(), capsule.NewSource(body("echo")), []byte("{}")); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
}

// TestCheckMessages: the author reads what the binary says.
func TestCheckMessages(t *testing.T) {
	e := pin(t, testConfig(t), standin)
	for statement, want := range map[string]string{
		"shell ls":     `host/capsule/main.ail:6:3: undefined name "shell"`,
		"echo\n  echo": "host/capsule/main.ail:7: main has one statement",
	} {
		err := e.Check(t.Context(), capsule.NewSource(body(statement)))
		if world.KindOf(err) != world.KindConvention || !strings.Contains(world.Message(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
		// A run of it says so too, on stderr.
		if _, err := e.Run(t.Context(), capsule.NewSource(body(statement)), nil); world.KindOf(err) != world.KindConvention || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestCheckTalks: however much a check says on stdout, its exit code decides; only one that
// does not stop is ended.
func TestCheckTalks(t *testing.T) {
	e := pin(t, testConfig(t), release(t, "v1", "check talks"))
	if err := e.Check(t.Context(), capsule.NewSource(body("echo"))); err != nil {
		t.Errorf("a source that loads: %v", err)
	}
	const want = `Error: host/capsule/main.ail:6:3: undefined name "shell"`
	bad := capsule.NewSource(body("shell ls"))
	err := e.Check(t.Context(), bad)
	if msg := world.Message(err); world.KindOf(err) != world.KindConvention || !strings.HasPrefix(msg, want) || len(msg) > maxReport {
		t.Errorf("%d bytes: %v, want %q", len(msg), err, want)
	}
	if _, err := e.Run(t.Context(), bad, []byte("{}")); world.KindOf(err) != world.KindConvention || !strings.Contains(err.Error(), want) {
		t.Errorf("its run: %v, want %q", err, want)
	}
	endless := pin(t, testConfig(t), release(t, "v1", "check floods"))
	if err := endless.Check(t.Context(), capsule.NewSource(body("echo"))); world.KindOf(err) != world.KindConvention || !strings.Contains(err.Error(), "too much to stdout") {
		t.Errorf("one without end: %v", err)
	}
}

// TestScratchIsMadeAgain: whoever clears the place of the scratch folders ends no engine,
// and what is put there under the old name is not used.
func TestScratchIsMadeAgain(t *testing.T) {
	cfg := testConfig(t)
	cfg.Temp = t.TempDir()
	e := pin(t, cfg, standin)
	run := func() error {
		_, err := e.Run(t.Context(), capsule.NewSource(body("echo")), []byte("{}"))
		return err
	}
	for _, replaced := range []bool{false, true} {
		root := e.scratch.root
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		if replaced {
			if err := os.Mkdir(root, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := run(); err != nil || e.scratch.root == root {
			t.Errorf("replaced %v: %v in %s", replaced, err, e.scratch.root)
		}
	}
	if err := os.RemoveAll(cfg.Temp); err != nil {
		t.Fatal(err)
	}
	if run() == nil {
		t.Error("it ran without a folder")
	}
	if err := os.Mkdir(cfg.Temp, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Errorf("after the place is back: %v", err)
	}
}
