package capsule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ailang.dev/world/host/world"
)

// hanging is an engine that stops only when it is told to.
type hanging struct{ Engine }

func (hanging) Run(ctx context.Context, _ Source, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, world.Wrap(world.KindDeadline, "hanging", ctx.Err())
}

// TestPhaseTimeout: a run past its phase failed; a run that its caller's end stopped did
// not fail, it was stopped.
func TestPhaseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := RunObject(t.Context(), hanging{}, Source{}, nil)
		if world.KindOf(err) != world.KindExecution || time.Since(start) != PhaseTimeout {
			t.Errorf("past its phase: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := RunObject(ctx, hanging{}, Source{}, nil); world.KindOf(err) != world.KindDeadline {
			t.Errorf("stopped by its caller: %v", err)
		}
	})
}
