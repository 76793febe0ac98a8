package ailang

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/capsule"
)

// What one process may take. Each is for a process, and so also holds what left its run.
const (
	// AddressSpace is in bytes. A program in Go reserves some 1.2 GiB before its first line.
	AddressSpace = 5 << 29
	// FileSize is in bytes of one file.
	FileSize = 1 << 20
	// OpenFiles counts descriptors.
	OpenFiles = 128
	// Processes counts processes and threads of one run. It is set only in a user namespace,
	// where it counts the run's alone, but for kernels before 5.14: there, as elsewhere, it
	// counts all of the user's, and where those are more a run fails.
	Processes = 128
)

// walls knows how far this system lets a process be confined. The most is tried first, and
// what it was that held is kept.
type walls struct {
	mu    sync.Mutex
	found bool
	level int
	why   error // why the level before was not granted
}

// apart are the namespaces that keep a run from the network and from what other processes
// share in memory. They cost some half a millisecond.
const apart = unix.CLONE_NEWNET | unix.CLONE_NEWIPC

// levels, from most to least. A process namespace without a user namespace is for the
// privileged alone, and is preferred: starting in a user namespace copies the daemon's page
// tables.
var levels = []func(*syscall.SysProcAttr){
	func(a *syscall.SysProcAttr) { a.Cloneflags = unix.CLONE_NEWPID | apart },
	func(a *syscall.SysProcAttr) { a.Cloneflags = unix.CLONE_NEWPID },
	func(a *syscall.SysProcAttr) { asUser(a, unix.CLONE_NEWPID|apart) },
	func(a *syscall.SysProcAttr) { asUser(a, unix.CLONE_NEWPID) },
	func(*syscall.SysProcAttr) {},
}

const (
	levelUser  = 2 // it and the next have a user namespace
	levelGroup = 4 // the process group alone
)

// asUser adds a user namespace that knows the daemon's user alone.
func asUser(a *syscall.SysProcAttr, flags uintptr) {
	a.Cloneflags = flags | unix.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
}

// isApart tells whether a level has the namespaces of apart.
func isApart(level int) bool { return level == 0 || level == levelUser }

// refusals are how systems say that a namespace is not granted.
var refusals = []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSPC, unix.EUSERS, unix.ENOSYS}

// start starts a command behind the best walls there are, and limits it. Between its start
// and its limits lies the moment in which the binary itself starts, and has read no source.
func (w *walls) start(command func() *exec.Cmd) (*exec.Cmd, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for level := w.level; ; level++ {
		cmd := command()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		levels[level](cmd.SysProcAttr)
		err := cmd.Start()
		if err == nil {
			w.found, w.level = true, level
			return cmd, limit(cmd, limits(level))
		}
		refused := slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
		if w.found || !refused || level == levelGroup {
			return nil, err
		}
		w.why = err
	}
}

func (w *walls) unconfined() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.level < levelGroup {
		return nil
	}
	return w.why
}

func (w *walls) networked() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if isApart(w.level) {
		return nil
	}
	return w.why
}

// huntRounds bounds how often hunt looks again: what was found may have started more.
const huntRounds = 8

// hunt ends what left a run's group where no namespace ends it: every process whose working
// folder is the run's. What has gone to another folder is not found.
func (w *walls) hunt(dir string) {
	if w.unconfined() == nil {
		return
	}
	for range huntRounds {
		links, _ := filepath.Glob("/proc/[0-9]*/cwd")
		found := false
		for _, link := range links {
			at, err := os.Readlink(link)
			if err != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
				found = unix.Kill(pid, unix.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
	}
}

// limits are the rlimits at a level of walls.
func limits(level int) map[int]uint64 {
	all := map[int]uint64{
		unix.RLIMIT_AS: AddressSpace, unix.RLIMIT_FSIZE: FileSize, unix.RLIMIT_NOFILE: OpenFiles, unix.RLIMIT_CORE: 0,
		unix.RLIMIT_CPU: uint64(capsule.PhaseTimeout/time.Second)*uint64(runtime.NumCPU()) + 2,
	}
	if level >= levelUser && level < levelGroup {
		all[unix.RLIMIT_NPROC] = Processes
	}
	return all
}

// limit sets a process's rlimits. Those of the daemon are never raised, which only the
// privileged may. One that cannot be limited is ended, and the error says nothing of the
// binary: what stands behind it is not to be found in it.
func limit(cmd *exec.Cmd, limits map[int]uint64) error {
	for what, most := range limits {
		var has unix.Rlimit
		err := unix.Prlimit(cmd.Process.Pid, what, nil, &has)
		if err == nil {
			most = min(most, has.Max)
			err = unix.Prlimit(cmd.Process.Pid, what, &unix.Rlimit{Cur: most, Max: most}, nil)
		}
		if err != nil && err != unix.ESRCH { // ESRCH: it has ended
			kill(cmd.Process.Pid)
			_ = cmd.Wait()
			return fmt.Errorf("rlimit %d: %v", what, err)
		}
	}
	return nil
}

// MemoryFolder is a folder that is kept in memory and can be written to, or "". A scratch
// folder there costs a tenth of a millisecond; on a disk whose journal the store keeps busy
// it costs several.
func MemoryFolder() string {
	const dir = "/dev/shm"
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Type != unix.TMPFS_MAGIC || unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		return ""
	}
	return dir
}

// keepDescriptors marks all descriptors as closed by exec: those that the daemon was itself
// started with are not, if whoever started it left some open. What a Go program means to
// hand to a child it duplicates in the child.
func keepDescriptors() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	entries, _ := os.ReadDir("/proc/self/fd") // a kernel before 5.11
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// privilegesEnd keeps what this thread starts from gaining privileges by what it executes.
// A kernel that does not know this has none to gain in a namespace either.
func privilegesEnd() { _ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// awaitEnd returns when a child has ended, and leaves it to be waited for: until then its
// number, and its group's, are nobody else's.
func awaitEnd(pid int) {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}
