package coordinator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ailang.dev/world/host/world"
)

// stuck is a registry that never answers.
type stuck struct{}

func (stuck) View(ctx context.Context, _ world.Session) ([]*world.Descriptor, error) {
	<-ctx.Done()
	return nil, world.Wrap(world.KindTimeout, "stuck", ctx.Err())
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Registry: stuck{}})
		start := time.Now()
		_, err := c.Invoke(t.Context(), Call{Surface: world.SurfaceMCP, Skill: "x"})
		if world.KindOf(err) != world.KindDeadline || time.Since(start) != AdmitDeadline {
			t.Errorf("admission: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Invoke(ctx, Call{Surface: world.SurfaceMCP, Skill: "x"}); world.KindOf(err) != world.KindCanceled {
			t.Errorf("a caller that went away: %v", err)
		}
	})
	if CallDeadline != 20*time.Second || AdmitDeadline != 10*time.Second || DetachedBudget != 4*time.Second {
		t.Error("the contract's deadlines were changed")
	}
}
