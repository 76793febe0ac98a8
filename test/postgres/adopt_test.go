package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	worldd "ailang.dev/world/host/daemon"
	store_pg "ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/world"
)

// stepVerb makes the test binary a daemon that kills itself at a step of a call.
const stepVerb = "world-kill-at"

// serveUntil serves a world, and ends by SIGKILL when a call reaches the step. dir holds what
// stands beside the database, and the worktrees.
func serveUntil(step, db, dir string) error {
	ctx := context.Background()
	logf := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	core, err := worldd.OpenCore(ctx, worldd.CoreConfig{DB: db, DataDir: filepath.Join(dir, "data"), Logf: logf, Pause: func(at string) {
		if at == step {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		return err
	}
	d, err := worldd.New(ctx, core, worldd.Config{Bind: "127.0.0.1:0", WorkspaceRoot: filepath.Join(dir, "ws"), RuntimeDir: dir})
	if err != nil {
		return err
	}
	return d.Run(ctx, func(url string) { fmt.Println("ailang-worldd listening on " + url) })
}

// TestAKilledDaemonIsToldOnce kills a daemon between an intent and its effect. One of those that
// are alive tells it, once, and no other does, also not one that starts later; it is told again
// only when the one that told it is no more itself.
func TestAKilledDaemonIsToldOnce(t *testing.T) {
	f := newFleet(t, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := f.launch(self, stepVerb, "effect.intended", f.db, f.dir)
	alive := []*daemon{f.start(), f.start()}
	tk := &task{id: "left-open", episode: episode, effect: true}
	if err := f.send(killed, f.token, tk); err == nil {
		t.Fatalf("the call was answered: %+v", tk)
	}
	line := "indeterminate effect e1 of " + string(world.AgentInvocation(episode, tk.id))
	told := func() (total int, by *daemon) {
		for _, d := range alive {
			if n := strings.Count(d.stderr.String(), line); n > 0 {
				total, by = total+n, d
			}
		}
		return total, by
	}
	wait := func(want int) *daemon {
		t.Helper()
		for until := time.Now().Add(2*store_pg.WriterTTL + 30*time.Second); ; time.Sleep(100 * time.Millisecond) {
			switch n, by := told(); {
			case n == want:
				return by
			case n > want || time.Now().After(until):
				t.Fatalf("told %d times, want %d", n, want)
			}
		}
	}
	teller := wait(1)
	alive = append(alive, f.start())
	// Two more looks of each, and nobody says it again.
	time.Sleep(2 * worldd.WatchEvery)
	if n, _ := told(); n != 1 {
		t.Fatalf("told %d times", n)
	}
	if got := f.lines()[tk.id]; got != 0 {
		t.Errorf("the effect was done %d times", got)
	}
	f.settled(alive[2], f.token, tk)
	if tk.acked || !strings.HasPrefix(tk.answered, unrecorded) {
		t.Errorf("%+v", tk)
	}
	teller.kill()
	wait(2)
}
