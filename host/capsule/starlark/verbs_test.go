package starlark

import (
	"fmt"
	"os"
	"testing"
)

// workerVerb makes the test binary a worker, as the daemon's hidden verb does.
const workerVerb = "starlark-worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerVerb {
		if err := WorkerMain(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
