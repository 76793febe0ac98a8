package worker

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitProcess puts this process under its rlimits. How well RLIMIT_DATA is kept depends on
// the kernel; where it is not, a run is bounded by its deadline and the stack alone.
func limitProcess(memory uint64, exit func(int)) error {
	for _, l := range []struct {
		what int
		max  uint64
	}{
		{unix.RLIMIT_DATA, memory},
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, 0},
	} {
		limit := unix.Rlimit{}
		limit.Cur, limit.Max = l.max, l.max
		if err := unix.Setrlimit(l.what, &limit); err != nil {
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
	limit.Cur = min(uint64(used.Utime.Sec+used.Stime.Sec)+uint64(d/time.Second)+2, limit.Max)
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

// workerAttr gives a worker its own process group; the end of its stdin tells it that the
// daemon is gone.
func workerAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
