// Package wasm is the engine of transitions that were compiled to WebAssembly: a
// capsule.Engine for modules that are WASI preview 1 commands. It owns the features, the
// counting of steps, the canonical floating point, and what a program finds around it. It
// never gives a program a file, a clock, chance, an argument or a variable. Answers
// spec/04-capsule.md.
//
// # Program
//
// A source is the bytes of a core module of at most capsule.MaxSource, with _start and
// memory exported, and imports of WASI alone. The input is on stdin, and what it writes to
// stdout is the text that its main returned. Exit code 0, or the end of _start, is success;
// anything else, and every trap, is a failed run. The first bytes of stderr are told to the
// operator with a failure, and dropped otherwise. Its only argument is its name, "main"; all
// clocks stand at one second, sleeping takes no time, and random_get gives one stream, the same in
// every run: ChaCha8 of the zero key, as math/rand/v2 has it. A run has a new instance.
//
// # The same everywhere
//
// WebAssembly leaves open the bits of a floating-point result that is no number, when
// memory runs out, and how long a program may run. A module is rewritten before it is
// compiled (meter.go): such results get the canonical bits, and each straight run of
// instructions takes its length from a counter that StepLimit begins with. Memory grows up
// to MemoryPages, and no further. Wall time, processor time and the worker's own memory,
// the depth of calls among them, only kill: what they end is an error, never a result.
//
// # Trust
//
// No module ships inside the binary, so all run in worker processes: a compiler is a large
// thing to hand to strangers. The runtime compiles to machine code where it can (amd64,
// arm64), else it interprets; the vectors hold both to the same bytes and steps.
package wasm
