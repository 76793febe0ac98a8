// Package coordinator takes one call from admission to committed entry:
//
//	view -> pin -> task id -> world -> engine -> handlers -> plan -> effects -> finish -> commit
//
// It is the only caller of the broker and of Store.Append. It speaks no protocol: surfaces
// hand it a Call and map its errors. What a crash means at each step stands beside the
// step, in invoke.go and effects.go. Answers spec/07-calls.md.
package coordinator
