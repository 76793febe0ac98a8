//go:build !linux

package sandbox

import (
	"context"
	"errors"

	"ailang.dev/world/host/world"
)

// groups are Linux's alone.
type groups struct{}

func findGroups() groups { return groups{} }

type trees struct{}

// Run cannot be had here.
type Run struct{}

var errElsewhere = &world.Error{Op: "sandbox.Start", Kind: world.KindNoHandler, Msg: "commands can be confined on Linux only"}

// Run says that commands cannot be confined on this system.
func (s *Sandbox) Run(context.Context, Spec) (Result, error) { return Result{}, errElsewhere }

// Start says that commands cannot be confined on this system.
func (s *Sandbox) Start(context.Context, Spec) (*Run, error) { return nil, errElsewhere }

// Wait is never called.
func (r *Run) Wait() (Result, error) { return Result{}, errElsewhere }

// Kill does nothing.
func (r *Run) Kill() {}

// Expire does nothing.
func (r *Run) Expire() {}

// Done is closed.
func (r *Run) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Output is empty.
func (r *Run) Output() (stdout, stderr Output) { return }

// Probe says that commands cannot be confined on this system.
func (s *Sandbox) Probe(context.Context) Report {
	return Report{Missing: []Missing{{What: "Linux", Why: "this is another system", How: "run the daemon on Linux, or in a virtual machine that does"}}}
}

// Main says that commands cannot be confined on this system.
func Main() error { return errors.New("commands can be confined on Linux only") }
