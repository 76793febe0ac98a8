package coordinator

import (
	"context"
	"runtime"

	"ailang.dev/world/host/capsule"
)

// turns bounds how many calls' first phases run at once, to one a processor: the 2 s that a
// phase has are then its own, and not those of all who run beside it. What finishes a call
// whose effects are done waits for no turn.
type turns chan struct{}

func newTurns() turns { return make(turns, runtime.GOMAXPROCS(0)) }

// run is capsule.RunObject in its turn; the wait for it is within ctx.
func (t turns) run(ctx context.Context, e capsule.Engine, src capsule.Source, input []byte) ([]byte, error) {
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
	case <-ctx.Done():
		return nil, ended(ctx, "coordinator.turn", context.Cause(ctx))
	}
	return capsule.RunObject(ctx, e, src, input)
}
