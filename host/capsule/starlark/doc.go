// Package starlark is the embedded default engine: a capsule.Engine for sources in
// Starlark. It owns the dialect, the predeclared json and std, the semantic limits, and
// the worker processes. It never reads a clock, a file, the environment or a random source
// on behalf of a source, and knows nothing of plans beyond what std writes down. Answers
// spec/04-capsule.md.
//
// # Dialect
//
// A source is a module in UTF-8 that defines main with exactly one required positional
// parameter, main(text); text is the input, and main returns a text. Predeclared are json
// (encode, decode) and std (std.star). Sets are allowed. There is no while, no recursion,
// no control flow outside functions and no reassignment of globals, so nothing but size
// makes a program long; load and print are refused. Globals are frozen before main is
// called.
//
// # Limits
//
// Steps, JSON depth, digits and bytes, and the size of the output are semantic: they
// decide, are the same everywhere, and stand in the engine object. Wall time, CPU time and
// memory only kill: what they end is an error, never a result.
//
// # Trust
//
// One builtin call can take gigabytes, or the Go stack, before the step counter sees it,
// and neither can be survived in-process. So only sources that Config.Trusted names, those
// that ship inside the binary, run in this process; all others are parsed, loaded and run
// in worker processes under an rlimit, which are the binary itself re-executed
// (WorkerMain). Both ways give the same bytes.
package starlark
