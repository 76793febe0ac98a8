package worker

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitProcess puts this process under its rlimits. RLIMIT_AS is what bounds a Go heap: it
// grows by reserving address space and then mapping over the reservation, which
// RLIMIT_DATA lets pass. The runtime reserves much more than it uses from the start, so the
// limit stands over what is reserved now.
func limitProcess(memory uint64, exit func(int)) error {
	base, err := addressSpace()
	if err != nil {
		return err
	}
	for _, l := range []struct {
		what int
		max  uint64
	}{
		{unix.RLIMIT_AS, base + memory},
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, 0},
	} {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.max, Max: l.max}); err != nil {
			return fmt.Errorf("rlimit %d: %w", l.what, err)
		}
	}
	spent := make(chan os.Signal, 1)
	signal.Notify(spent, unix.SIGXCPU)
	go func() {
		<-spent
		fmt.Fprintln(os.Stderr, "processor time of one operation is spent")
		exit(exitCPU)
	}()
	return nil
}

// addressSpace is the size of this process's, in bytes: the first field of statm, in pages.
func addressSpace() (uint64, error) {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	size, _, _ := bytes.Cut(raw, []byte(" "))
	pages, err := strconv.ParseUint(string(size), 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

// allowCPU moves the processor limit to d after what was used so far, rounded up to whole
// seconds.
func allowCPU(d time.Duration) error {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &limit); err != nil {
		return err
	}
	soft := uint64(used.Utime.Sec+used.Stime.Sec) + uint64(d/time.Second) + 2
	if limit.Cur == soft {
		return nil
	}
	limit.Cur = min(soft, limit.Max)
	return unix.Setrlimit(unix.RLIMIT_CPU, &limit)
}

// awaitHangup returns when the other end of a pipe is closed. What is no pipe never hangs up.
func awaitHangup(fd int) {
	for {
		watched := []unix.PollFd{{Fd: int32(fd)}} // hanging up is always reported
		_, err := unix.Poll(watched, -1)
		if err != nil && err != unix.EINTR || watched[0].Revents != 0 {
			return
		}
	}
}

// workerAttr gives a worker its own process group, so that a terminal's interrupt does not
// reach it, and lets it die with the thread that started it.
func workerAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
