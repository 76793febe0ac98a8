package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// maxStderr is how many bytes of a worker's stderr are kept: the first, where the Go
// runtime says why it ends.
const maxStderr = 2 << 10

// worker is one child process. One goroutine at a time uses it.
type worker struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *head
	runs   int
	heap   uint64      // that its last reply told
	retire *time.Timer // set while it is idle
}

// head keeps the first maxStderr bytes written to it and drops the rest. It is read only
// after the process was waited for.
type head struct{ text []byte }

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), maxStderr-len(h.text))]...)
	return len(p), nil
}

// newWorker starts a process with an empty environment in the root folder.
func newWorker(command []string, starter *starter) (*worker, error) {
	w := &worker{cmd: exec.Command(command[0], command[1:]...), stderr: &head{}}
	w.cmd.Env = []string{"GOTRACEBACK=none"}
	w.cmd.Dir = "/"
	w.cmd.Stderr = w.stderr
	w.cmd.SysProcAttr = workerAttr()
	w.cmd.WaitDelay = time.Second
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.stdin, w.stdout = stdin, bufio.NewReader(stdout)
	if err := starter.start(w.cmd); err != nil {
		return nil, err
	}
	return w, nil
}

// roundTrip sends a Request and reads its reply. The end of ctx kills the process. After
// an error it must be ended.
func (w *worker) roundTrip(ctx context.Context, frame []byte) (Result, error) {
	defer context.AfterFunc(ctx, w.kill)()
	w.runs++
	if _, err := w.stdin.Write(frame); err != nil {
		return Result{}, err
	}
	body, err := readFrame(w.stdout)
	if err != nil {
		return Result{}, err
	}
	res, heap, err := parseResult(body)
	w.heap = heap
	return res, err
}

// kill ends the process; nothing of what it does needs an orderly end.
func (w *worker) kill() { _ = w.cmd.Process.Kill() }

// end kills the process, waits for it, and says how it had ended.
func (w *worker) end() string {
	w.kill()
	_ = w.cmd.Wait() // its error is the state below
	return fmt.Sprintf("the worker ended: %s: %s", w.cmd.ProcessState, reason(string(w.stderr.text)))
}

// reason is what the Go runtime gives as such, or else the first line.
func reason(stderr string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	_, fatal, ok := strings.Cut(stderr, "fatal error: ")
	if !ok {
		return first
	}
	fatal, _, _ = strings.Cut(fatal, "\n")
	return first + ": " + fatal
}

// starter starts all processes from one thread that lives as long as the pool: the signal
// at a parent's death is sent when the thread ends that started the child, and threads of
// the Go runtime may end early.
type starter struct {
	once sync.Once
	work chan func()
	done chan struct{}
}

func newStarter() *starter {
	return &starter{work: make(chan func()), done: make(chan struct{})}
}

func (s *starter) start(cmd *exec.Cmd) error {
	s.once.Do(func() { go s.loop() })
	result := make(chan error, 1)
	select {
	case s.work <- func() { result <- cmd.Start() }:
		return <-result
	case <-s.done:
		return errClosed
	}
}

func (s *starter) loop() {
	runtime.LockOSThread() // never unlocked: the thread ends with the loop
	for {
		select {
		case f := <-s.work:
			f()
		case <-s.done:
			return
		}
	}
}

// stop ends the thread. All children must have ended.
func (s *starter) stop() { close(s.done) }
