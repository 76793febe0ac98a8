package ailang

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ailang.dev/world/host/archive"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

// levelNames are the levels of walls, from most to least.
var levelNames = []string{"namespaces", "a process namespace", "namespaces and a user's", "a process and a user namespace", "a process group alone"}

// eachLevel tests every level of walls that this system grants.
func eachLevel(t *testing.T, test func(t *testing.T, level int)) {
	e := pin(t, testConfig(t), standin)
	for level, name := range levelNames {
		if level < e.starter.walls.level {
			t.Logf("%s is not granted here: %v", name, e.starter.walls.why)
			continue
		}
		t.Run(name, func(t *testing.T) { test(t, level) })
	}
}

// seen is what the stand-in's surroundings tells.
type seen struct {
	Env, Args, Files, FDs, Namespaces []string
	Limits, Status                    string
	Stdin, StdinError                 string
	Group                             bool
}

func surroundings(t *testing.T, e *Engine) seen {
	t.Helper()
	out, err := e.Run(t.Context(), capsule.NewSource(body("surroundings")), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSurroundings: what a run can see and take, at every level of walls.
func TestSurroundings(t *testing.T) {
	t.Setenv("SECRET", "of the daemon")
	mine, err := os.CreateTemp(t.TempDir(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	inherited, err := unix.FcntlInt(mine.Fd(), unix.F_DUPFD, 100) // as a careless parent leaves one open
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	eachLevel(t, func(t *testing.T, level int) {
		cfg := testConfig(t)
		cfg.Temp = t.TempDir()
		e := pin(t, cfg, standin)
		e.starter.walls.level = level
		s := surroundings(t, e)
		want := environment()
		slices.Sort(want)
		slices.Sort(s.Env)
		if diff := cmp.Diff(want, s.Env); diff != "" {
			t.Errorf("environment -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{".", "host", "host/capsule", "host/capsule/main.ail"}, s.Files); diff != "" {
			t.Errorf("files -want +got:\n%s", diff)
		}
		// The Go runtime of the stand-in opens some of its own.
		s.FDs = slices.DeleteFunc(s.FDs, func(fd string) bool {
			return strings.Contains(fd, " /sys/fs/cgroup/") || strings.Contains(fd, " anon_inode")
		})
		if diff := cmp.Diff([]string{"0 /dev/null", "1 pipe", "2 pipe"}, s.FDs); diff != "" {
			t.Errorf("descriptors -want +got:\n%s", diff)
		}
		if s.Stdin != "" || s.StdinError != "<nil>" || !s.Group || !cmp.Equal(s.Args, []string{"ailang", "run"}) {
			t.Errorf("%q %q %v %q", s.Stdin, s.StdinError, s.Group, s.Args)
		}
		limits := []string{
			fmt.Sprintf("Max address space %d", AddressSpace), fmt.Sprintf("Max file size %d", FileSize),
			fmt.Sprintf("Max open files %d", OpenFiles), "Max core file size 0", "Max cpu time ",
		}
		if level == levelUser || level == levelUser+1 {
			limits = append(limits, fmt.Sprintf("Max processes %d", Processes))
		}
		table := strings.Join(strings.Fields(s.Limits), " ")
		for _, l := range limits {
			if !strings.Contains(table, l) || strings.Contains(table, "Max cpu time unlimited") {
				t.Errorf("no limit %q in %s", l, table)
			}
		}
		if !strings.Contains(s.Status, "NoNewPrivs:\t1") {
			t.Error("it may gain privileges")
		}
		if depth := len(strings.Fields(line(s.Status, "NSpid:"))); depth != map[bool]int{true: 2, false: 1}[level < levelGroup] {
			t.Errorf("%d numbers of the process", depth)
		}
		for i, kind := range []string{"net", "ipc"} {
			mine, err := os.Readlink("/proc/self/ns/" + kind)
			if err != nil || len(s.Namespaces) != 2 || (s.Namespaces[i] != mine) != (level == 0 || level == 2) {
				t.Errorf("%s: %v, the daemon's is %s, %v", kind, s.Namespaces, mine, err)
			}
		}
		// Its folder is gone.
		left, err := filepath.Glob(filepath.Join(cfg.Temp, "ailang-world-*", "*"))
		if err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		e.Close()
		if left, err := os.ReadDir(cfg.Temp); err != nil || len(left) != 0 {
			t.Errorf("left behind by the engine: %v, %v", left, err)
		}
	})
}

func line(text, label string) string {
	_, rest, _ := strings.Cut(text, label)
	rest, _, _ = strings.Cut(rest, "\n")
	return rest
}

// withArgument lists the processes that have an argument.
func withArgument(t *testing.T, arg string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("no process can be listed: %v", err)
	}
	var all []int
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && slices.Contains(strings.Split(string(text), "\x00"), arg) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			all = append(all, pid)
		}
	}
	return all
}

// TestNothingIsLeft: a process that left the group and whose parent is gone ends with the
// run, and the run's answer stands. Where there is no namespace that holds unless it left
// its folder too: then it lives on, the run fails, and the operator was told.
func TestNothingIsLeft(t *testing.T) {
	eachLevel(t, func(t *testing.T, level int) {
		e := pin(t, testConfig(t), standin)
		e.starter.walls.level, e.starter.walls.why = level, unix.EPERM
		for _, verb := range []string{"leave", "stray"} {
			token := fmt.Sprintf("%s-%d-%d", verb, os.Getpid(), level)
			out, err := e.Run(t.Context(), capsule.NewSource(body(verb+" "+token)), []byte(`{"a":1}`))
			left := withArgument(t, token)
			for _, pid := range left {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			if level == levelGroup && verb == "stray" {
				if world.KindOf(err) != world.KindExecution || !strings.Contains(err.Error(), "left a process behind") || len(left) != 1 {
					t.Errorf("%s: %v, left %v", verb, err, left)
				}
			} else if err != nil || string(out) != `{"a":1}` || len(left) != 0 {
				t.Errorf("%s: %q, %v, left %v", verb, out, err, left)
			}
		}
	})
}

// TestManyProcesses: however many a run starts, all end with it.
func TestManyProcesses(t *testing.T) {
	eachLevel(t, func(t *testing.T, level int) {
		e := pin(t, testConfig(t), standin)
		e.starter.walls.level = level
		_, err := e.Run(t.Context(), capsule.NewSource(body("grow")), []byte("{}"))
		if world.KindOf(err) != world.KindExecution {
			t.Error(err)
		}
		if left := withArgument(t, "grown"); len(left) != 0 {
			t.Errorf("%d are left", len(left))
		}
	})
}

// TestWhatTheOperatorIsTold: a system that grants no namespace is told of once, at the pin;
// one that does is not.
func TestWhatTheOperatorIsTold(t *testing.T) {
	var told []string
	cfg := testConfig(t)
	cfg.Logf = func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	e := pin(t, cfg, standin)
	if granted := isApart(e.starter.walls.level); granted != (len(told) == 0) {
		t.Errorf("namespaces are granted: %v; told: %q", granted, told)
	}
	if len(told) > 0 {
		return // this system is itself the other case
	}
	const (
		processes = "ailang: this kernel grants no process namespace (no space left on device): a process that leaves its group and its folder outlives its run\n"
		network   = "ailang: this kernel grants no network namespace (no space left on device): what the binary itself does not forbid can reach the network\n"
	)
	for verb, want := range map[string]string{bareVerb: processes + network, networkVerb: network} {
		cmd := exec.Command(os.Args[0], verb, standin, t.TempDir())
		// In a user namespace of its own a daemon may forbid itself others.
		cmd.SysProcAttr = rootOf(unix.CLONE_NEWUSER)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %v: %q, want %q", verb, err, out, want)
		}
	}
}

// rootOf makes a process the root of namespaces of its own, one of them a user namespace.
func rootOf(flags uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  flags,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

// TestLowerHardLimits: a daemon whose own hard limits are lower, and that may not raise
// them, runs sources under those.
func TestLowerHardLimits(t *testing.T) {
	cmd := exec.Command(os.Args[0], tightVerb, standin, t.TempDir())
	type result struct {
		out []byte
		err error
	}
	ran := make(chan result)
	go func() {
		runtime.LockOSThread() // for good: the thread, and what it starts, has lost a right
		if os.Geteuid() == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_RESOURCE, 0, 0, 0); err != nil {
				t.Error(err)
			}
		}
		out, err := cmd.CombinedOutput()
		ran <- result{out, err}
	}()
	r := <-ran
	var s seen
	if r.err != nil || json.Unmarshal(r.out, &s) != nil {
		t.Fatalf("%v: %s", r.err, r.out)
	}
	if table := strings.Join(strings.Fields(s.Limits), " "); !strings.Contains(table, fmt.Sprintf("Max open files %d %[1]d ", tightFiles)) ||
		!strings.Contains(table, fmt.Sprintf("Max file size %d %[1]d ", FileSize)) {
		t.Error(table)
	}
}

// TestLimitThatCannotBeSet: it ends the process, and is not told as a fault of the binary.
func TestLimitThatCannotBeSet(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const unknown = 1 << 20
	err := limit(cmd, map[int]uint64{unknown: 1})
	if err == nil || cannotRun(err) || cmd.ProcessState == nil {
		t.Errorf("%v, cannot run: %v, %v", err, cannotRun(err), cmd.ProcessState)
	}
}

// TestDiesWithTheDaemon kills a daemon in the middle of a run.
func TestDiesWithTheDaemon(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(self, holdVerb, standin, t.TempDir())
	stdout, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(text)
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	watched := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
	// Sooner than its phase would end.
	if n, err := unix.Poll(watched, 1000); err != nil || n != 1 {
		t.Errorf("process %d lives on: %v", pid, err)
	}
}

// TestSweep: what a killed daemon left behind, also half an archived binary, is removed at
// the next start, and nothing of another store.
func TestSweep(t *testing.T) {
	mine, other := testConfig(t), testConfig(t)
	mine.Temp = t.TempDir()
	other.Temp = mine.Temp
	for _, cfg := range []Config{mine, other} {
		e := pin(t, cfg, standin)
		surroundings(t, e)
		if err := os.WriteFile(filepath.Join(cfg.Archive, archive.Unfinished+"123"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(mine)
	for cfg, want := range map[string]int{mine.Archive: 2, other.Archive: 3} {
		if entries, err := os.ReadDir(cfg); err != nil || len(entries) != want {
			t.Errorf("%d files in an archive, want %d: %v", len(entries), want, err)
		}
	}
	left, err := os.ReadDir(mine.Temp)
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if match, err := filepath.Match(filepath.Base(other.scratchPattern()), left[0].Name()); err != nil || !match {
		t.Errorf("%v is left, want %s", left, other.scratchPattern())
	}
}

// TestNoExecutableMemory: a policy against executing memory does not end an engine.
func TestNoExecutableMemory(t *testing.T) {
	if unix.Access("/proc/sys/vm/memfd_noexec", unix.W_OK) != nil {
		t.Skip("vm.memfd_noexec is for root on Linux 6.3 and later; archive.TestUnsealedIsTold stands in for it")
	}
	cmd := exec.Command(os.Args[0], noexecVerb, standin, t.TempDir())
	cmd.SysProcAttr = rootOf(unix.CLONE_NEWUSER | unix.CLONE_NEWPID) // the policy is of a process namespace
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "can be had (permission denied): what is executed is the archived file") {
		t.Errorf("%v: %q", err, out)
	}
}
