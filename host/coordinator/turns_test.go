package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/coordinator"
)

// crowded counts how many of an engine's runs are under way at once.
type crowded struct {
	capsule.Engine
	now, most atomic.Int64
	short     atomic.Int64 // runs that had not all of their phase's time before them
}

func (c *crowded) Run(ctx context.Context, src capsule.Source, input []byte) ([]byte, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	if end, ok := ctx.Deadline(); !ok || time.Until(end) < capsule.PhaseTimeout/2 {
		c.short.Add(1)
	}
	runtime.Gosched()
	time.Sleep(time.Millisecond) // so that who may run beside it does
	return c.Engine.Run(ctx, src, input)
}

// TestPhasesTakeTurns: however many call at once, no more phases run than there are
// processors, and each has its whole time.
func TestPhasesTakeTurns(t *testing.T) {
	f := newFixture(t)
	e := &crowded{Engine: f.engines[0]}
	f.engines = capsule.Set{e}
	f.coord = coordinator.New(coordinator.Config{Store: f.events, Registry: f.reg, Engines: f.engines})
	f.genesis()
	f.publish("t.pure", `def main(text): return json.encode({"ok": True})`, "Skills.Use=public:0")
	s := f.session("Skills.Use=public:1")
	var wg sync.WaitGroup
	calls := 16 * runtime.GOMAXPROCS(0)
	for i := range calls {
		wg.Go(func() {
			if _, err := f.call("t.pure", fmt.Sprint("turn-", i), `{}`, s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most := e.most.Load(); most > int64(runtime.GOMAXPROCS(0)) || most < 1 {
		t.Errorf("%d phases ran at once on %d processors", most, runtime.GOMAXPROCS(0))
	}
	if n := e.short.Load(); n > 0 {
		t.Errorf("%d of %d phases began with less than their time", n, calls)
	}
}
