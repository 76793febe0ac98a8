package worldtest

import (
	"context"
	"testing"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// CheckProvenance is invariant I5: every link of every entry holds, and every row proves
// itself and adds up.
func CheckProvenance(t testing.TB, s store.Store) {
	t.Helper()
	report, err := provenance.Verify(context.Background(), s, provenance.Scope{To: -1, Deep: true})
	if err != nil {
		t.Errorf("I5: %v", err)
	}
	for _, b := range report.Breaks {
		t.Errorf("I5: entry %d, %s %s: %s", b.Index, b.What, b.Ref, b.Problem)
	}
}

// CheckReplay is invariant I6: every call comes out the same when it is run again.
func CheckReplay(t testing.TB, c *daemon.Core) {
	t.Helper()
	ctx := context.Background()
	head, err := c.Store.Head(ctx)
	if err != nil && world.KindOf(err) != world.KindNoWorld {
		t.Errorf("I6: %v", err)
	}
	p := &coordinator.Replayer{Store: c.Store, Engines: c.Engines}
	for i := range head.Next {
		r, err := p.Replay(ctx, i)
		if err != nil {
			t.Errorf("I6: entry %d: %v", i, err)
		}
		if r.Diverged != "" {
			t.Errorf("I6: entry %d, %s: the %s is now %.500s, was %.500s", i, r.Tool, r.Diverged, r.Got, r.Want)
		}
	}
}
