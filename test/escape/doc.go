// Package escape tries to get out. Its tests run programs through the handler of
// Workspace.Exec that reach for what is outside, one way each, and demand that none gets
// there; as a control, each way is also tried outside, where it must lead somewhere. It holds
// tests alone. Answers spec/13-exec.md.
package escape
