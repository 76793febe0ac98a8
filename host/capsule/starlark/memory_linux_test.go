package starlark

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/capsuletest"
	"ailang.dev/world/host/capsule/worker"
)

// TestWorkerMemory: what fits is run; what does not is killed before it takes more.
func TestWorkerMemory(t *testing.T) {
	fits := capsuletest.Text("def main(text):\n    return str(len(\"x\" * (200 << 20)))\n")
	if out, peak := runAlone(t, fits.Source); out.Status != worker.OK || string(out.Out) != "209715200" {
		t.Errorf("200 MiB: %s, peak %d MiB", out.Cause, peak>>20)
	}
	for name, p := range language().Gigabytes {
		out, peak := runAlone(t, p.Source)
		if out.Status != worker.Execution || !strings.HasPrefix(out.Cause, "the worker ended") {
			t.Errorf("%s: status %d, %s", name, out.Status, out.Cause)
		}
		if most := uint64(worker.Memory*worker.Shadow + capsuletest.MaxGrowth); peak > most && worker.Shadow == 1 {
			t.Errorf("%s: the worker took %d MiB", name, peak>>20)
		}
	}
}

// runAlone runs a source in a worker of its own and tells the most memory it had, in bytes.
func runAlone(t *testing.T, source []byte) (worker.Result, uint64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), capsuletest.Patience)
	defer cancel()
	res, ended, err := worker.Alone(ctx, []string{self, workerVerb}, worker.Request{Op: worker.OpRun, Source: capsule.NewSource(source)})
	if err != nil {
		t.Fatal(err)
	}
	return res, uint64(ended.SysUsage().(*syscall.Rusage).Maxrss) << 10
}
