package sandbox

import (
	"fmt"
	"os"
	"testing"
)

// verb makes the test binary process 1 of a sandbox.
const verb = "sandbox-init"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == verb {
		if err := Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
