package coordinator

import (
	"context"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/world"
)

// Observer is told what a call does while it does it. It changes nothing, must not block,
// and is called from the goroutine of the call.
type Observer interface {
	// Step begins a part of a call, and gives what that part runs with and what to call at
	// its end.
	Step(ctx context.Context, name string) (context.Context, func(error))
	// Effect tells of an effect that has ended; took is zero for one that was denied.
	Effect(ctx context.Context, need world.Need, status broker.Status, took time.Duration)
}

// The steps of a call.
const (
	StepAdmit   = "admit"
	StepWait    = "wait" // for the episode's order and a slot
	StepPlan    = "plan"
	StepRun     = "run" // a pure transition
	StepIntend  = "intend"
	StepPerform = "perform"
	StepRecord  = "record"
	StepFinish  = "finish"
	StepCommit  = "commit"
)

func unwatched(error) {}

// step begins a part of a call. With nobody watching it costs a comparison.
func (c *Coordinator) step(ctx context.Context, name string) (context.Context, func(error)) {
	if c.cfg.Observe == nil {
		return ctx, unwatched
	}
	return c.cfg.Observe.Step(ctx, name)
}

// tell tells of an effect that has ended.
func (c *Coordinator) tell(ctx context.Context, need world.Need, status broker.Status, took time.Duration) {
	if c.cfg.Observe != nil {
		c.cfg.Observe.Effect(ctx, need, status, took)
	}
}
