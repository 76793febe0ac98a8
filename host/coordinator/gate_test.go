package coordinator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ailang.dev/world/host/world"
)

func TestGateOrdersAnEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gates
		ctx := context.Background()
		enter := func(episode string, alone bool) <-chan func() {
			got := make(chan func(), 1)
			go func() {
				release, err := g.enter(ctx, episode, alone)
				if err != nil {
					t.Error(err)
				}
				got <- release
			}()
			synctest.Wait()
			return got
		}
		entered := func(c <-chan func()) bool { return len(c) == 1 }

		r1, r2 := enter("ep", false), enter("ep", false)
		if !entered(r1) || !entered(r2) {
			t.Fatal("readers do not share")
		}
		w := enter("ep", true)
		late := enter("ep", false)
		if entered(w) || entered(late) {
			t.Fatal("a writer entered beside readers, or a reader overtook a waiting writer")
		}
		if other := enter("other", true); !entered(other) {
			t.Fatal("another episode was held up")
		} else {
			(<-other)()
		}
		(<-r1)()
		(<-r2)()
		synctest.Wait()
		if !entered(w) || entered(late) {
			t.Fatal("the writer is not alone")
		}
		(<-w)()
		synctest.Wait()
		(<-late)()
		if len(g.m) != 0 {
			t.Fatalf("%d episodes left behind", len(g.m))
		}
	})
}

func TestGateBoundsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gates
		hold, err := g.enter(context.Background(), "ep", true)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		kinds := make(chan world.Kind, MaxWaiting)
		for range MaxWaiting {
			go func() {
				_, err := g.enter(ctx, "ep", true)
				kinds <- world.KindOf(err)
			}()
		}
		synctest.Wait()
		if _, err := g.enter(ctx, "ep", true); world.KindOf(err) != world.KindCapacity {
			t.Fatalf("one more than %d: %v", MaxWaiting, err)
		}
		for range MaxWaiting {
			if k := <-kinds; k != world.KindDeadline {
				t.Fatalf("a wait that ended is %v", k)
			}
		}
		hold()
		if len(g.m) != 0 {
			t.Fatal("the episode was left behind")
		}
	})
}
