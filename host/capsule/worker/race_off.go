//go:build !race

package worker

// Shadow is how many times the memory of a program an instrumented build takes.
const Shadow = 1
