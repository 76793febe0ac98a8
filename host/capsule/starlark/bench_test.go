package starlark

import (
	"slices"
	"testing"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

// BenchmarkToolPlan is the plan phase of a small tool, in this process and in a worker.
func BenchmarkToolPlan(b *testing.B) {
	for _, bb := range []struct {
		name    string
		trusted func(world.Ref) bool
	}{{"in-process", trustAll}, {"worker", nil}} {
		b.Run(bb.name, func(b *testing.B) {
			e := newEngine(b, bb.trusted)
			defer e.Close()
			src, input := capsule.NewSource([]byte(toolMain)), []byte(`{"args":{"path":"docs/a.md"},"phase":"plan"}`)
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				if _, err := e.Run(b.Context(), src, input); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// BenchmarkNew is the start of an engine, with its proof of the golden vectors.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if err := newEngine(b, nil).Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstRun is a run that has to start its worker.
func BenchmarkFirstRun(b *testing.B) {
	src := capsule.NewSource([]byte(toolMain))
	for b.Loop() {
		b.StopTimer()
		e := newEngine(b, nil)
		b.StartTimer()
		if _, err := e.Run(b.Context(), src, []byte(`{"args":{"path":"a"},"phase":"plan"}`)); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		e.Close()
		b.StartTimer()
	}
}
