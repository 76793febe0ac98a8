//go:build race

package starlark

// shadow is how many times the memory of a program an instrumented build takes: the race
// detector keeps several words for each.
const shadow = 6
