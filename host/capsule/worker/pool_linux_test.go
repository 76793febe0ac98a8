package worker

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

func TestWorkerIsReplaced(t *testing.T) {
	e := newFront(t)
	defer e.Close()
	var pid int
	for _, tt := range []struct {
		name string
		make func()
	}{
		{"after a failure", func() {
			_, err := e.Run(t.Context(), capsule.NewSource([]byte("fail")), nil)
			if world.KindOf(err) != world.KindExecution {
				t.Error(err)
			}
		}},
		{"after many runs", func() { e.workers.idle[0].runs = Runs - 1; runEcho(t, e) }},
		{"when it keeps much", func() {
			if _, err := e.Run(t.Context(), capsule.NewSource(fmt.Appendf(nil, "keep %d", Keep+1)), nil); err != nil {
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

// TestWorkerSurroundings: a worker has an empty environment, its own process group, none
// of this process's files, and limits.
func TestWorkerSurroundings(t *testing.T) {
	mine, err := os.CreateTemp(t.TempDir(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	e := newFront(t)
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
	var pages uint64
	if raw, err := os.ReadFile(filepath.Join(proc, "statm")); err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscan(string(raw), &pages); err != nil {
		t.Fatal(err)
	}
	size := pages * uint64(os.Getpagesize())
	for resource, max := range map[int]uint64{unix.RLIMIT_AS: size + Memory*Shadow, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_CORE: 0} {
		var limit unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &limit); err != nil || limit.Cur > max || limit.Max > max {
			t.Errorf("rlimit %d: %+v, %v", resource, limit, err)
		}
	}
}

// TestMemory: what fits is run; what does not is killed before it takes more.
func TestMemory(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	take := func(bytes int) Request {
		return Request{Op: OpRun, Source: capsule.NewSource(fmt.Appendf(nil, "take %d", bytes))}
	}
	if out, _, err := Alone(t.Context(), []string{self, workerVerb}, take(200<<20)); err != nil || out.Status != OK {
		t.Errorf("200 MiB: %+v, %v", out, err)
	}
	out, ended, err := Alone(t.Context(), []string{self, workerVerb}, take(16<<30))
	if err != nil || out.Status != Execution || !out.died {
		t.Errorf("16 GiB: %+v, %v", out, err)
	}
	peak := uint64(ended.SysUsage().(*syscall.Rusage).Maxrss) << 10
	if peak > Memory*Shadow+64<<20 {
		t.Errorf("the worker took %d MiB", peak>>20)
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
