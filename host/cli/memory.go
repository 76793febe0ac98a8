package cli

import "runtime/debug"

// How the garbage collector is set while a daemon serves: its default target costs a
// server that holds little and allocates much a good part of its throughput.
const (
	gcPercent   = 400     // the heap may grow to five times what is live
	memoryLimit = 1 << 30 // bytes; nearing it, the collector works as much as it must
)

// tuneMemory sets the collector, unless the environment says how.
func (e Env) tuneMemory() {
	if e.Get("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if e.Get("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
