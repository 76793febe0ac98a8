package worker

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// words is the machine of these tests: its sources are a word, and what the word needs.
type words struct{}

var kept []byte

func (words) Handle(_ context.Context, req Request) Result {
	word, arg, _ := strings.Cut(string(req.Source.Text), " ")
	n, _ := strconv.Atoi(arg)
	switch {
	case word == "broken":
		return Unloadable("it is broken")
	case req.Op == OpCheck:
		return Result{}
	case word == "echo":
		return Result{Out: req.Input}
	case word == "fail":
		return Failed("on purpose")
	case word == "spin":
		for i := 0; ; i++ {
			kept = append(kept[:0], byte(i))
		}
	case word == "take", word == "keep":
		taken := make([]byte, n)
		for i := 0; i < n; i += 4096 {
			taken[i] = 1
		}
		if word == "keep" {
			kept = taken
		}
		return Result{Out: []byte(strconv.Itoa(len(taken)))}
	}
	return Unloadable("unknown word " + word)
}

// Verbs make the test binary the processes that tests need.
const (
	workerVerb = "worker"
	parentVerb = "parent" // tells its worker's pid and then waits for a run that does not end
	spinVerb   = "spin"   // spins under a processor limit of no time at all, which the kernel rounds up
)

func TestMain(m *testing.M) {
	verbs := map[string]func() error{
		workerVerb: func() error {
			return Main(os.Stdin, os.Stdout, func() (Machine, error) { return words{}, nil })
		},
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

func parentMain() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	e := NewFront(Config{Name: "test", Local: words{}, Command: []string{self, workerVerb}})
	if _, err := e.Run(context.Background(), echo, nil); err != nil {
		return err
	}
	fmt.Println(idlePIDs(e)[0])
	_, err = e.Run(context.Background(), long, nil)
	return err
}

func spinMain() error {
	if err := limitProcess(Memory*Shadow, os.Exit); err != nil {
		return err
	}
	if err := allowCPU(0); err != nil {
		return err
	}
	return fmt.Errorf("the run ended: %v", words{}.Handle(context.Background(), Request{Op: OpRun, Source: long}))
}
