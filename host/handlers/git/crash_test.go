package git

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crashAt tells the test's own binary to be a daemon that is killed in the midst of a
// commit: "<stage> <workspace root> <scratch>".
const crashAt = "GIT_HANDLER_CRASH_AT"

// TestKilledInTheMidst kills a process at each step of a commit. What is there after is
// whole, and the next commit finds nothing in its way.
func TestKilledInTheMidst(t *testing.T) {
	if spec := os.Getenv(crashAt); spec != "" {
		crash(t, strings.Fields(spec))
		return
	}
	for _, stage := range []string{"locked", "listed", "indexed"} {
		t.Run(stage, func(t *testing.T) {
			b := newBench(t)
			first := b.git(b.tree, "rev-parse", "HEAD")
			b.write(b.tree, "a.txt", "x\n")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledInTheMidst$")
			cmd.Env = append(os.Environ(), crashAt+"="+stage+" "+filepath.Dir(b.tree)+" "+b.h.cfg.Scratch)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the process was not killed: %v\n%s", err, out)
			}
			dir := b.repo + "/.git/worktrees/ep"
			if text, err := os.ReadFile(dir + "/index.lock"); err != nil || string(text) != lockMark {
				t.Errorf("the lock is %q, %v", text, err)
			}
			if got := b.git(b.tree, "rev-parse", "HEAD"); got != first {
				t.Errorf("the branch moved to %s", got)
			}
			want := " M a.txt"
			if stage == "indexed" {
				want = "M  a.txt"
			}
			status := b.plain(b.tree, "status", "--porcelain")
			if got, err := status.Output(); err != nil || strings.TrimRight(string(got), "\n") != want {
				t.Errorf("%q, %v", got, err)
			}
			b.h = b.handler(b.h.cfg.Scratch) // the next start
			b.ok("commit", map[string]any{"message": "m"})
			if got := b.git(b.tree, "status", "--porcelain"); got != "" {
				t.Errorf("%q", got)
			}
			b.nothingLeft()
		})
	}
}

// crash commits, and is killed on the way.
func crash(t *testing.T, spec []string) {
	h, err := New(t.Context(), Config{Root: spec[1], Git: gitPath(t), Scratch: spec[2], Store: "store1", Now: time.Now,
		LogEnd: func(context.Context) (int64, error) { return 7, nil }})
	must(t, err)
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	switch spec[0] {
	case "locked":
		h.hooks.locked = die
	case "listed":
		h.hooks.listed = die
	case "indexed":
		h.hooks.indexed = die
	}
	out, err := h.Perform(t.Context(), request("commit", map[string]any{"message": "m"}))
	t.Errorf("it lives: %s, %v", out, err)
}
