package ailang

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ailang.dev/world/host/capsule"
)

// BenchmarkRun is a run of the stand-in, beside what it cannot be faster than: fork and
// exec of a program that does nothing, and of the stand-in without the engine. They take
// turns, so that all meet the same machine.
func BenchmarkRun(b *testing.B) {
	e := pin(b, testConfig(b), standin)
	src := capsule.NewSource(body("echo"))
	ways := []struct {
		name string
		run  func() error
		took []time.Duration
	}{
		{name: "true", run: func() error { return exec.Command("/bin/true").Run() }},
		{name: "version", run: func() error { return exec.Command(standin, "--version").Run() }},
		{name: "engine", run: func() error {
			_, err := e.Run(b.Context(), src, []byte(`{"args":{},"phase":"plan"}`))
			return err
		}},
	}
	for b.Loop() {
		for i := range ways {
			begun := time.Now()
			if err := ways[i].run(); err != nil {
				b.Fatal(err)
			}
			ways[i].took = append(ways[i].took, time.Since(begun))
		}
	}
	for _, w := range ways {
		slices.Sort(w.took)
		b.ReportMetric(float64(w.took[len(w.took)/2].Microseconds()), w.name+"-p50-µs")
		b.ReportMetric(float64(w.took[len(w.took)*99/100].Microseconds()), w.name+"-p99-µs")
	}
}

// BenchmarkProof is what it costs to know what runs, for a binary of 64 MiB: looking at the
// file before each run, hashing it when it changed, and making the sealed copy once.
func BenchmarkProof(b *testing.B) {
	program, err := os.ReadFile(standin)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "ailang")
	if err := os.WriteFile(path, append(program, make([]byte, 64<<20)...), 0o755); err != nil {
		b.Fatal(err)
	}
	e := pin(b, testConfig(b), path)
	step := func(f func() error) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("looked at", step(e.binary.Prove))
}
