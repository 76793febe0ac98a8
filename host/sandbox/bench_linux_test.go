package sandbox

import (
	"flag"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// program is what is started as process 1, in place of the test binary: -sandbox=PATH.
var program = flag.String("sandbox", "", "a built ailang-worldd to start as the sandbox's first process")

// BenchmarkTrue is what a sandbox costs: the command true in it, beside a bare fork and exec
// of it. The median is what to look at.
func BenchmarkTrue(b *testing.B) {
	exe := *program
	if exe == "" {
		exe = testBinary(b)
	}
	s := New(Config{Command: []string{exe, verb}, Logf: b.Logf})
	dir := b.TempDir()
	spec := Spec{Argv: []string{"/bin/true"}, Dir: dir, Tree: &Tree{Path: dir, Denied: func([]string) bool { return false }}, Limits: limits()}
	for name, do := range map[string]func() error{
		"bare": func() error { return exec.Command("/bin/true").Run() },
		"sandbox": func() error {
			res, err := s.Run(b.Context(), spec)
			if err == nil && res.Exit != 0 {
				b.Fatalf("%+v", res)
			}
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := do(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		})
	}
}
