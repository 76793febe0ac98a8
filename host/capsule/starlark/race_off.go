//go:build !race

package starlark

// shadow is how many times the memory of a program an instrumented build takes.
const shadow = 1
