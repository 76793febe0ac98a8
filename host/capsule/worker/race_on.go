//go:build race

package worker

// Shadow is how many times the memory of a program an instrumented build takes: the race
// detector keeps several words for each.
const Shadow = 6
