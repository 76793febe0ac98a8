package sandbox

import (
	"fmt"
	"os"
	"testing"
)

// verb makes the test binary process 1 of a sandbox.
const verb = "sandbox-init"

// verbs are what the test binary does in place of tests.
var verbs = map[string]func() error{verb: Main, giveVerb: giveStreams, holdVerb: holdStreams}

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && verbs[os.Args[1]] != nil {
		if err := verbs[os.Args[1]](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
