package sqlite

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// childEnv, set to a path, makes the test binary write to the store there until it is
// killed.
const childEnv = "WORLD_STORE_TEST_CHILD"

const (
	killWithin  = 300 // acknowledgements
	childAgents = 6
)

var kills = flag.Int("kills", 20, "how often TestKill kills a writing process with each kind of limits")

// childLimits are those of the process that is killed, so that runs are written, merged
// and dropped at every moment, or never.
var childLimits = map[string]Limits{"runs": tiny, "memory": {}}

// TestKill kills a process that writes, at random moments, and expects everything that it
// had been told is durable.
func TestKill(t *testing.T) {
	for name, l := range childLimits {
		t.Run(name, func(t *testing.T) { testKill(t, name, l) })
	}
}

func testKill(t *testing.T, name string, l Limits) {
	path := filepath.Join(t.TempDir(), "world.db")
	reopen := func() *Store {
		s, err := Open(t.Context(), Options{Path: path, Limits: l, Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := reopen()
	commit(t, s, storetest.Genesis())
	acked := make(map[int64]string) // entry index -> hash
	spent := 0
	for round := range *kills {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		spent += killOne(t, path, name, round, acked)
		s = reopen()
		checkAcked(t, s, acked, spent)
	}
	t.Logf("%d entries and %d effects were acknowledged", len(acked), spent)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkBlocks(t, path)
}

// killOne runs a writing process until it acknowledged so much, and notes what. It
// returns how many effects were.
func killOne(t *testing.T, path, limits string, round int, acked map[int64]string) (effects int) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+path, fmt.Sprintf("%s_ROUND=%d", childEnv, round), childEnv+"_LIMITS="+limits)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	left := 1 + rand.IntN(killWithin)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if left--; left == 0 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		// What was said between the last line counted and the kill was acknowledged too.
		var index int64
		var hash string
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "effect"):
			effects++
		case strings.HasPrefix(line, "entry"):
			if n, err := fmt.Sscanf(line, "entry %d %s", &index, &hash); err == nil && n == 2 && len(hash) == hashref.TextLen {
				acked[index] = hash
			}
		case strings.HasPrefix(line, "error"):
			t.Fatal(line)
		}
	}
	_ = child.Wait() // it was killed
	if left > 0 {
		t.Fatal("the child ended by itself")
	}
	return effects
}

func checkAcked(t *testing.T, s *Store, acked map[int64]string, spent int) {
	t.Helper()
	all := storetest.CheckWhole(t, s)
	for index, hash := range acked {
		if index >= int64(len(all)) || all[index].EntryHash.String() != hash {
			t.Fatalf("entry %d, acknowledged as %s, is lost", index, hash)
		}
	}
	checkFound(t, s, all)
	sum, err := s.Spent(t.Context(), "ep", "Workspace.Read", "worktree")
	if err != nil || sum < int64(spent) {
		t.Fatalf("%d effects were acknowledged, but the sum is %d (%v)", spent, sum, err)
	}
	// No intent is ever closed here, so they are all unresolved, and are the whole sum.
	intents := make(map[world.InvocationID]int)
	for after := int64(0); ; {
		open, next, err := s.Unresolved(t.Context(), after, store.MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		for _, inv := range open {
			if inv.State != store.StateOpen || (len(inv.Effects) == 0) != strings.HasPrefix(string(inv.ID), world.RESTPrefix) {
				t.Fatalf("unresolved: %+v", inv)
			}
			intents[inv.ID] = len(inv.Effects)
		}
		if after = next; after == 0 {
			break
		}
	}
	var total int64
	for _, n := range intents {
		total += int64(n)
	}
	if total != sum {
		t.Fatalf("%d intents, but the sum is %d", total, sum)
	}
}

// checkFound looks all calls up by every index.
func checkFound(t *testing.T, s *Store, all []world.Entry) {
	t.Helper()
	records := make(map[world.Ref]bool)
	for after := hashref.None; ; {
		page, err := s.ObjectsBySemanticID(t.Context(), world.SemRecordV1, after, store.MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			records[m.Hash] = true
		}
		after = page[len(page)-1].Hash
	}
	calls := 0
	for _, e := range all {
		if !strings.HasPrefix(e.Header.WrittenBy, world.WriterPrefix) {
			continue
		}
		calls++
		refs, err := s.Referrers(t.Context(), e.TransitionRef, 0, 10)
		if err != nil || len(refs) != 1 || refs[0].Index != e.Header.EntryIndex || !records[e.TransitionRef] {
			t.Fatalf("entry %d: record listed: %v, referrers %+v, %v", e.Header.EntryIndex, records[e.TransitionRef], refs, err)
		}
	}
	if len(records) != calls {
		t.Fatalf("%d records of %d calls", len(records), calls)
	}
}

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		writeForEver(path)
	}
	os.Exit(m.Run())
}

func writeForEver(path string) {
	round := os.Getenv(childEnv + "_ROUND")
	s, err := Open(context.Background(), Options{Path: path, Limits: childLimits[os.Getenv(childEnv+"_LIMITS")]})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	var wg sync.WaitGroup
	for agent := range childAgents {
		wg.Go(func() {
			for i := 0; ; i++ {
				writeOne(s, agent, fmt.Sprintf("%s-%d-%d", round, agent, i), say)
			}
		})
	}
	wg.Wait()
}

// writeOne does one write, of a kind that depends on the agent, and says that it was
// acknowledged.
func writeOne(s *Store, agent int, name string, say func(string, ...any)) {
	ctx := context.Background()
	switch agent {
	case 0: // a REST commit on whatever is the head
		head, err := s.Head(ctx)
		if err != nil {
			say("error: %v", err)
			return
		}
		c := storetest.NextCommit(head, name)
		c.Invocation, c.Digest = world.InvocationID("rest:"+name), hashref.SumString(name)
		done, err := s.Commit(ctx, c)
		if err == nil {
			say("entry %d %s", done.Entry.Header.EntryIndex, done.Entry.EntryHash)
		} else if world.KindOf(err) != world.KindHeadConflict {
			say("error: %v", err)
		}
	case 1: // an effect that never ends
		d, err := s.IntendEffect(ctx, storetest.Intent(world.InvocationID("a2a:ep:"+name), "e1", 1, hashref.MaxInt))
		if err != nil || d.Denied {
			say("error: %v, %v", d, err)
		} else {
			say("effect")
		}
	default:
		done, err := s.Append(ctx, storetest.Call(name))
		if err != nil {
			say("error: %v", err)
		} else {
			say("entry %d %s", done.Entry.Header.EntryIndex, done.Entry.EntryHash)
		}
	}
}
