package wasm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/starlark"
)

// starlarkVerb makes the test binary a worker of the engine that this one stands beside.
const starlarkVerb = "starlark-worker"

// tallyStar does what tally.c does.
const tallyStar = `
def main(text):
    return std.pure(text, "tally", [std.string("text")], lambda a: {
        "ok": True, "bytes": len(a["text"]), "words": len(a["text"].split()), "lines": a["text"].count("\n"),
    })
`

// BenchmarkTally is a small tool in a worker: in C, and in Starlark.
func BenchmarkTally(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join("testdata", "tally", "tally.wasm"))
	if err != nil {
		b.Fatal(err)
	}
	star, err := starlark.New(starlark.Config{WorkerCommand: []string{self, starlarkVerb}})
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name   string
		engine capsule.Engine
		source []byte
	}{{"wasm", newEngine(b), module}, {"starlark", star, []byte(tallyStar)}} {
		defer bb.engine.Close()
		b.Run(bb.name, func(b *testing.B) {
			src, input := capsule.NewSource(bb.source), []byte(`{"text":"three small words"}`)
			const want = `{"bytes":17,"lines":0,"ok":true,"words":3}`
			if out, err := capsule.RunObject(b.Context(), bb.engine, src, input); err != nil || string(out) != want {
				b.Fatalf("%s, %v", out, err)
			}
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				if _, err := bb.engine.Run(b.Context(), src, input); err != nil {
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
		if err := newEngine(b).Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstRun is a run that has to start its worker and compile its module.
func BenchmarkFirstRun(b *testing.B) {
	module, err := os.ReadFile(filepath.Join("testdata", "tally", "tally.wasm"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		e := newEngine(b)
		b.StartTimer()
		if _, err := e.Run(b.Context(), capsule.NewSource(module), []byte(`{"text":"a"}`)); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
