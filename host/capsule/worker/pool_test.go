package worker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

var (
	echo = capsule.NewSource([]byte("echo"))
	long = capsule.NewSource([]byte("spin"))
)

func newFront(t testing.TB) *Front {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return NewFront(Config{Name: "test", SourceName: "source", Local: words{}, Command: []string{self, workerVerb}})
}

func runEcho(t *testing.T, e *Front) {
	t.Helper()
	if out, err := e.Run(t.Context(), echo, []byte(`{"a":1}`)); err != nil || string(out) != `{"a":1}` {
		t.Fatalf("echo: %q, %v", out, err)
	}
}

// idlePIDs are the processes that wait for work, the next one to be used last.
func idlePIDs(e *Front) []int {
	e.workers.mu.Lock()
	defer e.workers.mu.Unlock()
	var pids []int
	for _, w := range e.workers.idle {
		pids = append(pids, w.cmd.Process.Pid)
	}
	return pids
}

func onePID(t *testing.T, e *Front) int {
	t.Helper()
	pids := idlePIDs(e)
	if len(pids) != 1 {
		t.Fatalf("%d workers are idle, want one", len(pids))
	}
	return pids[0]
}

func TestWorkerIsReused(t *testing.T) {
	e := newFront(t)
	defer e.Close()
	runEcho(t, e)
	pid := onePID(t, e)
	for range 20 {
		runEcho(t, e)
	}
	if _, err := e.Run(t.Context(), capsule.NewSource([]byte("broken")), nil); world.KindOf(err) != world.KindConvention {
		t.Error(err)
	}
	if got := onePID(t, e); got != pid {
		t.Errorf("worker %d was replaced by %d", pid, got)
	}
}

// TestNinthWaits: when every slot is taken, the next run waits within its context, and runs
// when one comes free.
func TestNinthWaits(t *testing.T) {
	e := newFront(t)
	defer e.Close()
	for range Workers {
		e.workers.slots <- struct{}{}
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Run(short, echo, nil); world.KindOf(err) != world.KindDeadline {
		t.Errorf("with a short deadline: %v", err)
	}
	ninth := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), echo, []byte("{}"))
		ninth <- err
	}()
	<-e.workers.slots
	if err := <-ninth; err != nil {
		t.Errorf("after one came free: %v", err)
	}
	for range Workers - 1 {
		<-e.workers.slots
	}
}

// TestAtMostWorkers: many runs at once share the few processes, and all come through.
func TestAtMostWorkers(t *testing.T) {
	e := newFront(t)
	defer e.Close()
	var wg sync.WaitGroup
	for range 8 * Workers {
		wg.Go(func() {
			if out, err := e.Run(t.Context(), echo, []byte("{}")); err != nil || string(out) != "{}" {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
	wg.Wait()
	if n := len(idlePIDs(e)); n < 1 || n > Workers {
		t.Errorf("%d workers are idle, want 1 to %d", n, Workers)
	}
}

// TestNoWorkerCanBeHad: without a worker, or with a program that is none, a source that is
// not trusted fails, and is never run in this process.
func TestNoWorkerCanBeHad(t *testing.T) {
	for name, tt := range map[string]struct {
		command []string
		cause   string
	}{
		"no command":   {nil, "no worker command"},
		"no program":   {[]string{"/nonexistent/worker"}, "no worker could be started"},
		"ends at once": {[]string{"/bin/sh", "-c", "echo 'fatal error: on purpose' >&2; exit 7"}, "exit status 7: fatal error: on purpose: on purpose"},
		"talks":        {[]string{"/bin/sh", "-c", "head -c 100000 /dev/zero >&2; printf '\\377\\377\\377\\377'; exec cat"}, "malformed"},
		"says little":  {[]string{"/bin/sh", "-c", "printf '\\000\\000\\000\\003abc'; exec cat"}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewFront(Config{Name: "test", Local: words{}, Command: tt.command})
			defer e.Close()
			_, err := e.Run(t.Context(), echo, []byte("{}"))
			if world.KindOf(err) != world.KindExecution || !strings.Contains(err.Error(), tt.cause) {
				t.Errorf("got %v", err)
			}
			if len(err.Error()) > 2*maxStderr {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestHangupEndsWorker: without the parent-death signal, too, a busy worker ends when its
// pipe is closed.
func TestHangupEndsWorker(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, req := range map[string][]byte{"busy": Request{Op: OpRun, Source: long}.frame(), "idle": nil} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(self, workerVerb)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := stdin.Write(req); err != nil {
				t.Fatal(err)
			}
			stdin.Close()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				_ = cmd.Process.Kill()
				t.Error("the worker lives on")
			}
		})
	}
}

// TestProcessorLimit: a worker that spins past its processor time ends by itself.
func TestProcessorLimit(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, spinVerb)
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != exitCPU {
		t.Errorf("ended with %v, want exit code %d", err, exitCPU)
	}
}
