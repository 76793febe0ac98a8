package starlark

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

var (
	echo = capsule.NewSource([]byte("def main(text):\n    return text\n"))
	long = capsule.NewSource([]byte("def main(text):\n    return str(max(range(1 << 62)))\n"))
)

func runEcho(t *testing.T, e *Engine) {
	t.Helper()
	if out, err := e.Run(t.Context(), echo, []byte(`{"a":1}`)); err != nil || string(out) != `{"a":1}` {
		t.Fatalf("echo: %q, %v", out, err)
	}
}

// idlePIDs are the processes that wait for work, the next one to be used last.
func idlePIDs(e *Engine) []int {
	e.workers.mu.Lock()
	defer e.workers.mu.Unlock()
	var pids []int
	for _, w := range e.workers.idle {
		pids = append(pids, w.cmd.Process.Pid)
	}
	return pids
}

func onePID(t *testing.T, e *Engine) int {
	t.Helper()
	pids := idlePIDs(e)
	if len(pids) != 1 {
		t.Fatalf("%d workers are idle, want one", len(pids))
	}
	return pids[0]
}

func TestWorkerIsReused(t *testing.T) {
	e := newEngine(t, nil)
	defer e.Close()
	runEcho(t, e)
	pid := onePID(t, e)
	for range 20 {
		runEcho(t, e)
	}
	if _, err := e.Run(t.Context(), capsule.NewSource([]byte("}")), nil); world.KindOf(err) != world.KindConvention {
		t.Error(err)
	}
	if got := onePID(t, e); got != pid {
		t.Errorf("worker %d was replaced by %d", pid, got)
	}
}

func TestWorkerIsReplaced(t *testing.T) {
	e := newEngine(t, nil)
	defer e.Close()
	var pid int
	for _, tt := range []struct {
		name string
		make func()
	}{
		{"after a failure", func() {
			_, err := e.Run(t.Context(), capsule.NewSource([]byte("def main(text):\n    fail(1)\n")), nil)
			if world.KindOf(err) != world.KindExecution {
				t.Error(err)
			}
		}},
		{"after many runs", func() { e.workers.idle[0].runs = WorkerRuns - 1; runEcho(t, e) }},
		{"when it keeps much", func() {
			keeps := fmt.Sprintf("X = \"x\" * %d\n\ndef main(text):\n    return text\n", WorkerKeep+1)
			if _, err := e.Run(t.Context(), capsule.NewSource([]byte(keeps)), nil); err != nil {
				t.Error(err)
			}
		}},
		{"when it was killed from outside", func() { _ = unix.Kill(pid, unix.SIGKILL); awaitExit(t, pid) }},
		{"when it was idle for long", func() { e.workers.endIdle(e.workers.idle[0]) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runEcho(t, e)
			pid = onePID(t, e)
			tt.make()
			runEcho(t, e)
			if got := onePID(t, e); got == pid {
				t.Errorf("worker %d is still used", pid)
			}
			if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
				t.Errorf("worker %d is still there: %v", pid, err)
			}
		})
	}
}

// awaitExit waits until a child is dead; nobody has waited for it yet.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
}

// TestNinthWaits: no more than Workers run; the next one waits within its context and runs
// when one ends.
func TestNinthWaits(t *testing.T) {
	e := newEngine(t, nil)
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, Workers)
	for range Workers {
		go func() {
			_, err := e.Run(ctx, long, nil)
			ended <- err
		}()
	}
	for len(e.workers.slots) < Workers {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond): // until the goroutines above hold their slots
		}
	}
	short, cancelShort := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelShort()
	if _, err := e.Run(short, echo, nil); world.KindOf(err) != world.KindDeadline {
		t.Errorf("the ninth, with a short deadline: %v", err)
	}
	ninth := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), echo, []byte("{}"))
		ninth <- err
	}()
	cancel()
	for range Workers {
		if err := <-ended; world.KindOf(err) != world.KindCanceled {
			t.Error(err)
		}
	}
	if err := <-ninth; err != nil {
		t.Errorf("the ninth: %v", err)
	}
}

// TestWorkerSurroundings: a worker has an empty environment, its own process group, none
// of this process's files, and limits.
func TestWorkerSurroundings(t *testing.T) {
	mine, err := os.CreateTemp(t.TempDir(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	e := newEngine(t, nil)
	defer e.Close()
	runEcho(t, e)
	pid := onePID(t, e)
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	if env, err := os.ReadFile(filepath.Join(proc, "environ")); err != nil || string(env) != "GOTRACEBACK=none\x00" {
		t.Errorf("environment %q, %v", env, err)
	}
	if cwd, err := os.Readlink(filepath.Join(proc, "cwd")); err != nil || cwd != "/" {
		t.Errorf("folder %q, %v", cwd, err)
	}
	if group, err := unix.Getpgid(pid); err != nil || group != pid {
		t.Errorf("process group %d of %d, %v", group, pid, err)
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if err == nil && (target == mine.Name() || strings.HasPrefix(target, "socket:")) {
			t.Errorf("file %s is %s", fd.Name(), target)
		}
	}
	for resource, max := range map[int]uint64{unix.RLIMIT_DATA: 2 * WorkerMemory, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_CORE: 0} {
		var limit unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &limit); err != nil || limit.Cur > max || limit.Max > max {
			t.Errorf("rlimit %d: %+v, %v", resource, limit, err)
		}
	}
}

// TestWorkerMemory: what fits is run, what does not is killed, and the limit says so.
func TestWorkerMemory(t *testing.T) {
	e := newEngine(t, nil)
	defer e.Close()
	of := func(mib int) error {
		src := capsule.NewSource(fmt.Appendf(nil, "def main(text):\n    return str(len(\"x\" * (%d << 20)))\n", mib))
		_, err := e.Run(t.Context(), src, nil)
		return err
	}
	if err := of(200); err != nil {
		t.Errorf("200 MiB: %v", err)
	}
	err := of(WorkerMemory>>20 + 1)
	if world.KindOf(err) != world.KindExecution || !strings.Contains(err.Error(), "memory") {
		t.Errorf("a MiB too much: %v", err)
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
			e, err := New(Config{WorkerCommand: tt.command})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			_, err = e.Run(t.Context(), echo, []byte("{}"))
			if world.KindOf(err) != world.KindExecution || !strings.Contains(err.Error(), tt.cause) {
				t.Errorf("got %v", err)
			}
			if len(err.Error()) > 2*maxStderr {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestWorkerDiesWithItsParent kills a parent in the middle of a builtin call of its worker.
func TestWorkerDiesWithItsParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self, parentVerb)
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	watched := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
	if n, err := unix.Poll(watched, 5000); err != nil || n != 1 {
		t.Errorf("worker %d lives on: %v", pid, err)
	}
}

// parentVerb makes the test binary a parent that tells its worker's pid and then waits for
// a run that does not end.
const parentVerb = "starlark-parent"

func parentMain() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	e, err := New(Config{WorkerCommand: []string{self, workerVerb}})
	if err != nil {
		return err
	}
	if _, err := e.Run(context.Background(), echo, nil); err != nil {
		return err
	}
	fmt.Println(idlePIDs(e)[0])
	_, err = e.Run(context.Background(), long, nil)
	return err
}

// TestHangupEndsWorker: without the parent-death signal, too, a busy worker ends when its
// pipe is closed.
func TestHangupEndsWorker(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, req := range map[string][]byte{"busy": request{op: opRun, src: long}.frame(), "idle": nil} {
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
			case <-time.After(5 * time.Second):
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

// spinVerb makes the test binary spin under a processor limit of no time at all, which the
// kernel rounds up.
const spinVerb = "starlark-spin"

func spinMain() error {
	if err := limitProcess(WorkerMemory, os.Exit); err != nil {
		return err
	}
	if err := allowCPU(0); err != nil {
		return err
	}
	m, err := newMachine()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return fmt.Errorf("the run ended: %v", m.run(ctx, long, nil))
}
