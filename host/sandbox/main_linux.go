package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The descriptors that process 1 is started with, beside the command's own three.
const (
	ordersFD  = 3
	reportsFD = 4
	programFD = 5 // if the order says so
)

// Main is what Config.Command leads to: process 1 of a sandbox. It reads its order, builds
// the sandbox, runs the command in it, and reports. It returns when the command has ended;
// the process must then exit, which ends all that the command left. It exits at once when
// whoever gave the order is gone.
func Main() error {
	if os.Getpid() != 1 {
		return errors.New("this is started by the daemon alone")
	}
	if err := unix.CloseRange(ordersFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	orders, reports := os.NewFile(ordersFD, "orders"), os.NewFile(reportsFD, "reports")
	o, err := readOrder(orders)
	if err != nil {
		return err
	}
	go func() { // nothing more comes but the end
		_, _ = io.Copy(io.Discard, orders)
		os.Exit(1)
	}()
	ignored := make(chan os.Signal, 1) // what the command sends here ends nothing
	signal.Notify(ignored)
	b := &box{order: o, reports: reports}
	if err := b.run(); err != nil {
		var s *stepError
		if !errors.As(err, &s) {
			s = &stepError{step: "sandbox", err: err}
		}
		b.say(report{Step: s.step, Why: s.err.Error(), Changed: s.changed, Command: s.command, Exit: -1})
	}
	return nil
}

func readOrder(in io.Reader) (*order, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxOrder {
		return nil, errors.New("the order is too long")
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, err
	}
	var o order
	return &o, json.Unmarshal(text, &o)
}

// stepError is a step that could not be done.
type stepError struct {
	step    string
	err     error
	changed bool // the tree is not as it was
	command bool // the command's fault
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }

// step names what failed.
func step(name string, err error) error {
	var s *stepError
	if err == nil || errors.As(err, &s) {
		return err
	}
	return &stepError{step: name, err: err}
}

// box is a sandbox from the inside.
type box struct {
	order    *order
	reports  *os.File
	landlock int
}

func (b *box) say(r report) {
	text, err := json.Marshal(r)
	if err == nil {
		_, err = b.reports.Write(text)
	}
	if err != nil {
		os.Exit(1) // nobody listens
	}
}

func (b *box) run() error {
	if err := b.build(); err != nil {
		return err
	}
	// From here on nobody of this user can look into this process, or trace it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return step("dumpable", err)
	}
	if err := limitFiles(b.order.Limits); err != nil {
		return step("rlimits", err)
	}
	pid, err := b.child()
	if err != nil || b.order.Probe {
		if err == nil {
			b.say(report{Landlock: b.landlock})
		}
		return err
	}
	_, _ = unix.Close(0), unix.Close(1) // the command's; what kills this process is told on 2
	b.say(report{Started: true})
	w := &watcher{limits: b.order.Limits, walled: b.order.Walled, say: b.say}
	stop := w.start()
	status := reap(pid)
	b.say(w.report(status, stop()))
	return nil
}

// limitFiles sets the limits of a process that process 1 can live with itself, and the
// command's processes inherit.
func limitFiles(l Limits) error {
	for what, most := range map[int]uint64{
		unix.RLIMIT_FSIZE: uint64(l.FileSize), unix.RLIMIT_NOFILE: uint64(l.OpenFiles), unix.RLIMIT_CORE: 0,
		unix.RLIMIT_CPU:      uint64(l.CPU/time.Second) + 2, // the watcher is there first, unless it is held up
		unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_MEMLOCK: 8 << 20,
	} {
		var has unix.Rlimit
		if err := unix.Getrlimit(what, &has); err != nil {
			return err
		}
		most = min(most, has.Max)
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("rlimit %d: %w", what, err)
		}
	}
	return nil
}

// initThreads is how many processes and threads process 1 may need for itself.
const initThreads = 32

// dataFactor and dataBase make the limit on one process's private memory where no control
// group bounds it: a wall behind the watcher, far enough not to be met by what only reserves.
const (
	dataFactor = 2
	dataBase   = 1 << 30
)

// child starts the command from a thread that has given up everything. The thread is never
// used for anything else.
func (b *box) child() (pid int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		pid, err = b.fork()
	}()
	<-done
	if err != nil {
		return 0, err
	}
	// Not from that thread, whose filter forbids it.
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &r); err != nil {
		return 0, step("rlimits", err)
	}
	r.Cur = r.Max
	return pid, step("rlimits", unix.Setrlimit(unix.RLIMIT_NPROC, &r))
}

func (b *box) fork() (int, error) {
	var path string
	switch {
	case b.order.Program:
		path = fmt.Sprintf("/proc/self/fd/%d", programFD)
	case !b.order.Probe:
		var err error
		if path, err = lookup(b.order.Argv[0], b.order.Dir, b.order.Env); err != nil {
			return 0, &stepError{step: "command", err: err, command: true}
		}
	}
	// Process 1 shares the limits of its user with the command. The command gets the soft
	// one for good (the filter lets no process change it), process 1 the room above.
	l := b.order.Limits
	own, err := readNames("/proc/self/task")
	if err != nil {
		return 0, step("rlimits", err)
	}
	// More than may be: what stops at the limit goes up and down below it, and may not be
	// there when the watcher looks.
	most := uint64(l.Processes + l.Processes/4 + len(own) + 8)
	soft := map[int]unix.Rlimit{unix.RLIMIT_NPROC: {Cur: most, Max: most + initThreads}}
	if !b.order.Walled {
		soft[unix.RLIMIT_DATA] = unix.Rlimit{Cur: uint64(l.Memory)*dataFactor + dataBase, Max: uint64(l.Memory)*dataFactor + dataBase}
	}
	for what, r := range soft {
		if err := unix.Setrlimit(what, &r); err != nil {
			return 0, step("rlimits", err)
		}
	}
	if err := b.giveUp(); err != nil {
		return 0, err
	}
	if b.order.Probe {
		return 0, nil
	}
	pid, err := syscall.ForkExec(path, b.order.Argv, &syscall.ProcAttr{
		Dir: b.order.Dir, Env: b.order.Env, Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 0, &stepError{step: "command", err: err, command: true}
	}
	return pid, nil
}

// lookup finds a command as a shell would.
func lookup(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for i := len(env) - 1; i >= 0; i-- {
		path, ok := strings.CutPrefix(env[i], "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(path) {
			at := filepath.Join(d, name)
			if fi, err := os.Stat(at); filepath.IsAbs(d) && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				return at, nil
			}
		}
		break
	}
	return "", errors.New("no such program in PATH")
}

// reap waits for the command, and for all whose parents have ended.
func reap(pid int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0 // there is none left, which cannot be
		case got == pid:
			return status
		}
	}
}
