//go:build race

package model

// raced says that this test is built with the race detector, under which a story takes six
// times as long.
const raced = true
