package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of a worker process. They only kill: none of them is ever part of a result.
const (
	// Memory is how many bytes of address space a worker may take over what it starts
	// with.
	Memory = 512 << 20
	// Stack is how large, in bytes, the stack of one goroutine may grow in it; a deep
	// nesting meets this bound first.
	Stack = 64 << 20
	// CPU is the processor time of one operation: a backstop for callers without a
	// deadline, far over capsule.PhaseTimeout.
	CPU = 10 * time.Second
)

// Exit codes of a worker.
const (
	exitOrphan = 3 // its pipe was closed while it worked
	exitCPU    = 4 // CPU is spent
)

// Main is what the hidden verb of Config.Command does: it limits its own process, makes
// the machine, then answers requests from stdin on stdout until stdin ends. If stdin is a pipe
// and its other end is closed, the daemon is gone, and the process exits at once, also in
// the middle of a builtin call. It writes nothing to stderr but the reason of its own death.
func Main(stdin io.Reader, stdout io.Writer, newMachine func() (Machine, error)) error {
	debug.SetMaxStack(Stack)
	debug.SetMemoryLimit(Memory * 3 / 4) // the collector works harder before the kernel refuses
	if err := limitProcess(Memory*Shadow, os.Exit); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if pipe, ok := stdin.(*os.File); ok {
		go func() {
			awaitHangup(int(pipe.Fd()))
			os.Exit(exitOrphan)
		}()
	}
	m, err := newMachine()
	if err != nil {
		return err
	}
	return serve(stdin, stdout, m)
}

// serve answers requests one after the other, on one goroutine: a second one to read ahead
// would cost as much as a small run.
func serve(stdin io.Reader, stdout io.Writer, m Machine) error {
	in := bufio.NewReader(stdin)
	for {
		body, err := readFrame(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = answer(m, body, stdout)
		}
		if err != nil {
			return err
		}
	}
}

func answer(m Machine, body []byte, stdout io.Writer) error {
	req, err := parseRequest(body)
	if err != nil {
		return err
	}
	if err := allowCPU(CPU); err != nil {
		return err
	}
	res := m.Handle(context.Background(), req)
	_, err = stdout.Write(res.frame(heapInUse()))
	return err
}

// heapInUse is what live and dead objects take; the pool replaces a worker that keeps much.
func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
