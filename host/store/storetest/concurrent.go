package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

const writers = 64

// together runs f in as many goroutines at once, and waits for all.
func together(f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range writers {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}

func testConcurrent(t *testing.T, o Opener) {
	t.Run("appends", func(t *testing.T) {
		s := open(t, o)
		begin(t, s, 0)
		const each = 8
		var acked sync.Map // index -> invocation
		together(func(i int) {
			for j := range each {
				a := Call(fmt.Sprint("w", i, "-", j))
				c, err := s.Append(ctx, a)
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				if prev, twice := acked.LoadOrStore(c.Entry.Header.EntryIndex, a.Invocation); twice {
					t.Errorf("index %d was given to %s and %s", c.Entry.Header.EntryIndex, prev, a.Invocation)
				}
				// What was acknowledged is seen by every read that begins now.
				if e, err := s.Entry(ctx, c.Entry.Header.EntryIndex); err != nil || e != c.Entry {
					t.Errorf("entry %d: %+v, %v, acknowledged as %+v", c.Entry.Header.EntryIndex, e, err, c.Entry)
				}
				if h, err := s.Head(ctx); err != nil || h.Next <= c.Entry.Header.EntryIndex {
					t.Errorf("head %+v, %v after entry %d", h, err, c.Entry.Header.EntryIndex)
				}
			}
		})
		all := CheckWhole(t, s)
		same(t, "entries", len(all), writers*each+1)
		acked.Range(func(index, id any) bool {
			inv := must(s.Invocation(ctx, id.(world.InvocationID)))(t)
			if inv.State != store.StateCommitted || inv.EntryIndex != index.(int64) {
				t.Errorf("%+v, acknowledged as entry %d", inv, index)
			}
			return true
		})
	})
	t.Run("one id", func(t *testing.T) {
		s := open(t, o)
		before := must(s.Head(ctx))(t).Next
		var won atomic.Int64
		together(func(i int) {
			a := Call(fmt.Sprint("rival ", i))
			a.Invocation, a.Digest = "a2a:ep:same", ref("same")
			switch _, err := s.Append(ctx, a); {
			case err == nil:
				won.Add(1)
			case world.KindOf(err) != world.KindTaskIDUsed:
				t.Errorf("append: %v", err)
			}
		})
		same(t, "winners", won.Load(), int64(1))
		same(t, "entries", must(s.Head(ctx))(t).Next, before+1)
	})
	t.Run("one head", func(t *testing.T) {
		s := open(t, o)
		head := must(s.Head(ctx))(t)
		var won atomic.Pointer[world.Ref]
		together(func(i int) {
			c := NextCommit(head, fmt.Sprint("race ", i))
			c.Invocation, c.Digest = world.InvocationID(fmt.Sprint("rest:race-", i)), ref(fmt.Sprint(i))
			_, err := s.Commit(ctx, c)
			var conflict *world.HeadConflictError
			switch {
			case err == nil:
				if !won.CompareAndSwap(nil, &c.NextWorld.Ref) {
					t.Error("two winners")
				}
			case !errors.As(err, &conflict):
				t.Errorf("commit: %v", err)
			}
		})
		same(t, "head", must(s.Head(ctx))(t).World, *won.Load())
		same(t, "unresolved", unresolved(t, s, 10), []store.Invocation(nil))
	})
	t.Run("one commit sent often", func(t *testing.T) {
		s := open(t, o)
		c := NextCommit(must(s.Head(ctx))(t), "often")
		c.Invocation, c.Digest = "rest:often", ref("often")
		var landed atomic.Int64
		together(func(int) {
			got, err := s.Commit(ctx, c)
			if err != nil || got.World != c.NextWorld {
				t.Errorf("commit: %+v, %v", got, err)
			}
			if !got.Replayed {
				landed.Add(1)
			}
		})
		same(t, "landed", landed.Load(), int64(1))
		same(t, "unresolved", unresolved(t, s, 10), []store.Invocation(nil))
	})
	t.Run("a budget is never overspent", func(t *testing.T) {
		s := open(t, o)
		const budget, cost = 100, 3
		var allowed atomic.Int64
		var lowest sync.Map
		together(func(i int) {
			for j := range 4 {
				in := Intent(world.InvocationID(fmt.Sprint("a2a:rich:", i)), fmt.Sprint("e", j), cost, budget)
				in.Episode = "rich"
				d, err := s.IntendEffect(ctx, in)
				if err != nil {
					t.Errorf("intent: %v", err)
					return
				}
				if d.Denied {
					continue
				}
				allowed.Add(1)
				if d.After != d.Before-cost || d.After < 0 {
					t.Errorf("%+v", d)
				}
				if _, twice := lowest.LoadOrStore(d.After, true); twice {
					t.Errorf("two intents left %d", d.After)
				}
			}
		})
		same(t, "allowed", allowed.Load(), int64(budget/cost))
		same(t, "spent", must(s.Spent(ctx, "rich", "Workspace.Read", "worktree"))(t), int64(budget/cost*cost))
	})
	t.Run("one registry", func(t *testing.T) {
		s := open(t, o)
		var moves atomic.Int64
		together(func(i int) {
			for {
				observed, revision := hashref.None, int64(0)
				if h, err := s.RegistryHead(ctx, "raced"); err == nil {
					observed, revision = h.Head, h.Revision
				}
				h, err := s.SwapRegistry(ctx, "raced", observed, ref(fmt.Sprint("by ", i)), nil)
				if err == nil {
					moves.Add(1)
					if h.Revision != revision+1 {
						t.Errorf("revision %d after %d", h.Revision, revision)
					}
					return
				}
				if world.KindOf(err) != world.KindHeadConflict {
					t.Errorf("swap: %v", err)
					return
				}
			}
		})
		same(t, "revision", must(s.RegistryHead(ctx, "raced"))(t).Revision, moves.Load())
	})
	t.Run("a failed write does not disturb the others", func(t *testing.T) {
		s := open(t, o)
		before := must(s.Head(ctx))(t).Next
		together(func(i int) {
			a := Call(fmt.Sprint("good or bad ", i))
			if i%2 == 1 {
				a.Invocation = "a2a:ep:same" // committed above
			}
			_, err := s.Append(ctx, a)
			if (err == nil) != (i%2 == 0) {
				t.Errorf("append %d: %v", i, err)
			}
			if _, err := s.ObjectMeta(ctx, a.TransitionRef); (err == nil) != (i%2 == 0) {
				t.Errorf("record of %d: %v", i, err)
			}
		})
		same(t, "entries", must(s.Head(ctx))(t).Next, before+writers/2)
	})
}
