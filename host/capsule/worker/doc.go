// Package worker runs sources that nobody vouches for in processes that nobody misses. It
// owns the pool of worker processes, the pipe to them, their limits, and the front that an
// embedded engine shows as its Check and Run: what may run in the engine's own process,
// what becomes of one that dies, whose fault that is. It knows no language: an engine hands
// in what handles one operation, and the worker process, which is the daemon's binary
// re-executed, hands the same to Main. It never reads the environment or a file on behalf
// of a source. Answers spec/04-capsule.md.
package worker
