package starlark

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// workerVerb makes the test binary a worker, as the daemon's hidden verb does.
const workerVerb = "starlark-worker"

// TestMain lets the test binary play the processes that tests need.
func TestMain(m *testing.M) {
	verbs := map[string]func() error{
		workerVerb: func() error { return WorkerMain(os.Stdin, os.Stdout) },
		parentVerb: parentMain,
		spinVerb:   spinMain,
	}
	if len(os.Args) > 1 && verbs[os.Args[1]] != nil {
		if err := verbs[os.Args[1]](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
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

// spinVerb makes the test binary spin under a processor limit of no time at all, which the
// kernel rounds up.
const spinVerb = "starlark-spin"

func spinMain() error {
	if err := limitProcess(WorkerMemory*shadow, os.Exit); err != nil {
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
