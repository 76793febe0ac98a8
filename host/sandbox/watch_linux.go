package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// How often process 1 looks at what runs: soon after the start often, later less. What can
// be taken between two looks is not bounded by the watcher.
const (
	watchFirst = 5 * time.Millisecond
	watchLast  = 40 * time.Millisecond
)

// tellEvery is how often the time taken so far is told: a run that is killed from outside
// tells nothing more.
const tellEvery = time.Second

// tick is the unit of processor times in /proc, on every Linux.
const tick = time.Second / 100

// watcher ends the run when its processes together take more than they may: processor time
// always, memory and number where no control group bounds them.
type watcher struct {
	limits Limits
	walled bool
	say    func(report)

	limit Limit
	told  time.Time // when the time taken was told last
}

// start watches until the function that it gives is called, which gives the limit that was
// met.
func (w *watcher) start() (stop func() Limit) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		every := watchFirst
		for {
			select {
			case <-quit:
				return
			case <-time.After(every):
			}
			every = min(every*3/2, watchLast)
			if l := w.look(); l != LimitNone {
				w.limit = l
				_ = unix.Kill(-1, unix.SIGKILL) // all but this process
			}
		}
	}()
	return func() Limit {
		close(quit)
		<-gone
		return w.limit
	}
}

// use is what the processes of the run take together.
type use struct {
	cpu     time.Duration
	memory  int64
	threads int
}

func (w *watcher) look() Limit {
	if w.limit != LimitNone {
		return w.limit // and kill again: one may have been started meanwhile
	}
	u := w.use()
	if now := time.Now(); now.Sub(w.told) >= tellEvery {
		w.told = now
		w.say(report{Running: true, CPU: u.cpu})
	}
	switch {
	case u.cpu > w.limits.CPU:
		return LimitCPU
	case w.walled:
		return LimitNone
	case u.memory > w.limits.Memory:
		return LimitMemory
	case u.threads >= w.limits.Processes:
		return LimitProcesses
	}
	return LimitNone
}

// use adds up what /proc tells of each process, what the ended ones took, and what is kept
// in folders in memory.
func (w *watcher) use() use {
	u := use{cpu: childrenCPU()}
	names, err := readNames("/proc")
	if err != nil {
		return u
	}
	for _, n := range names {
		if n[0] < '0' || n[0] > '9' || n == "1" {
			continue
		}
		w.add(&u, "/proc/"+n)
	}
	if !w.walled {
		u.memory += filled("/tmp") + filled("/dev/shm")
	}
	return u
}

// readNames reads a directory without looking at what it holds.
func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// add adds one process. One that has just ended adds nothing; its parent's does.
func (w *watcher) add(u *use, dir string) {
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return
	}
	// Behind the name, which is in brackets: state is field 3, utime 14 to cstime 17,
	// num_threads 20.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 18 {
		return
	}
	for _, f := range fields[11:15] {
		n, _ := strconv.ParseInt(f, 10, 64)
		u.cpu += time.Duration(n) * tick
	}
	n, _ := strconv.Atoi(fields[17])
	u.threads += n
	if !w.walled {
		u.memory += resident(dir)
	}
}

// resident is a process's own memory and its part of shared memory, in bytes.
func resident(dir string) int64 {
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return 0
	}
	var sum int64
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "RssAnon", "RssShmem", "VmSwap", "VmPTE":
			kib, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
			n, _ := strconv.ParseInt(string(kib), 10, 64)
			sum += n << 10
		}
	}
	return sum
}

// filled is how many bytes a folder in memory holds.
func filled(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}

// childrenCPU is what the processes that were waited for took, with theirs.
func childrenCPU() time.Duration {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// signalled is what shells add to a signal's number to make an exit code.
const signalled = 128

// report tells how the command ended. A limit of a single process shows in the signal that
// it ended by, or in what a shell makes of that.
func (w *watcher) report(s unix.WaitStatus, met Limit) report {
	r := report{Exit: -1, Limit: met, CPU: w.use().cpu}
	if s.Signaled() {
		r.Signal = int(s.Signal())
	} else {
		r.Exit = s.ExitStatus()
	}
	if met != LimitNone {
		return r
	}
	switch {
	case r.Signal == int(unix.SIGXFSZ), r.Exit == signalled+int(unix.SIGXFSZ):
		r.Limit = LimitFileSize
	case r.Signal == int(unix.SIGXCPU), r.Exit == signalled+int(unix.SIGXCPU):
		r.Limit = LimitCPU
	}
	return r
}
