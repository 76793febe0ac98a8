package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// daemons opens one world several times, with a genesis.
func daemons(t *testing.T, n int) (all []*Store, database string) {
	t.Helper()
	database = cluster.Database(t)
	for range n {
		// Their hearts beat when a test wants it, so that one that is to be no more stays so.
		s, err := Open(ctx, Options{URL: cluster.URL(database), Logf: t.Logf, beatEvery: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		all = append(all, s)
	}
	if _, err := all[0].Commit(ctx, storetest.Genesis()); err != nil {
		t.Fatal(err)
	}
	return all, database
}

// TestDaemonsSeeOneAnother changes sessions, registries and spend by one daemon, and asks the
// others at once.
func TestDaemonsSeeOneAnother(t *testing.T) {
	all, _ := daemons(t, 3)
	ses := world.Session{ID: hashref.SumString("s"), Episode: "ep", Created: time.Unix(1, 0), Expires: time.Unix(9e9, 0)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, one := range all {
		ses.ID = hashref.SumString(fmt.Sprint("s", i))
		must(one.PutSession(ctx, ses))
		head := hashref.SumString(fmt.Sprint("head", i))
		old, _ := one.RegistryHead(ctx, "names")
		_, err := one.SwapRegistry(ctx, "names", old.Head, head, nil)
		must(err)
		_, err = one.IntendEffect(ctx, storetest.Intent(world.InvocationID(fmt.Sprint("a2a:ep:", i)), "e", 1, 100))
		must(err)
		for _, other := range all {
			got, err := other.Session(ctx, ses.ID)
			must(err)
			reg, err := other.RegistryHead(ctx, "names")
			must(err)
			if got.Revoked || reg.Head != head || reg.Revision != int64(i+1) {
				t.Fatalf("%+v, %+v", got, reg)
			}
		}
		must(one.RevokeSession(ctx, ses.ID))
		for _, other := range all {
			if got, err := other.Session(ctx, ses.ID); err != nil || !got.Revoked {
				t.Fatalf("revoked by one, and another has %+v, %v", got, err)
			}
			if _, err := other.SwapRegistry(ctx, "names", old.Head, head, nil); world.KindOf(err) != world.KindHeadConflict {
				t.Fatalf("%v", err)
			}
		}
	}
	whole(t, all[1])
}

// TestBudgetOfManyDaemons lets three daemons spend one budget as fast as they can.
func TestBudgetOfManyDaemons(t *testing.T) {
	all, _ := daemons(t, 3)
	const budget, tries = 100, 25
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := int64(0)
	for d, s := range all {
		for c := range 4 {
			wg.Go(func() {
				for i := range tries {
					in := storetest.Intent(world.InvocationID(fmt.Sprintf("a2a:ep:%d.%d.%d", d, c, i)), "e", 1, budget)
					got, err := s.IntendEffect(ctx, in)
					if err != nil {
						t.Error(err)
						return
					}
					if !got.Denied {
						mu.Lock()
						granted += in.Need.Cost
						mu.Unlock()
					}
				}
			})
		}
	}
	wg.Wait()
	in := storetest.Intent("", "", 1, 0)
	spent, err := all[2].Spent(ctx, in.Episode, in.Need.Effect, in.Need.Scope)
	if err != nil || spent != budget || granted != budget {
		t.Fatalf("spent %d, granted %d of %d (%v)", spent, granted, budget, err)
	}
	whole(t, all[0])
}

// TestLogOfManyDaemons appends by three daemons at once, also the same ids, and finds one log.
func TestLogOfManyDaemons(t *testing.T) {
	all, _ := daemons(t, 3)
	const calls = 60
	var wg sync.WaitGroup
	var mu sync.Mutex
	entries, used := map[int64]bool{}, 0
	for _, s := range all {
		for c := range 4 {
			wg.Go(func() {
				for i := c; i < calls; i += 4 {
					got, err := s.Append(ctx, storetest.Call(fmt.Sprint(i)))
					mu.Lock()
					switch {
					case err == nil && !entries[got.Entry.Header.EntryIndex]:
						entries[got.Entry.Header.EntryIndex] = true
					case world.KindOf(err) == world.KindTaskIDUsed:
						used++
					default:
						t.Errorf("%d: %+v, %v", i, got, err)
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if len(entries) != calls || used != 2*calls {
		t.Errorf("%d entries, %d refused", len(entries), used)
	}
	if log := storetest.CheckWhole(t, all[0]); len(log) != calls+1 {
		t.Errorf("%d in the log", len(log))
	}
	whole(t, all[0])
}

// TestEpisodeLease has daemons take turns, and what has no turn any more refused.
func TestEpisodeLease(t *testing.T) {
	all, database := daemons(t, 2)
	a, b := all[0], all[1]
	take := func(s *Store, episode string) store.Lease {
		t.Helper()
		l, err := s.TakeEpisode(ctx, episode)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	waits := func(s *Store, episode string) {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
		defer cancel()
		if l, err := s.TakeEpisode(short, episode); world.KindOf(err) != world.KindTimeout {
			t.Fatalf("%+v, %v", l, err)
		}
	}
	t.Run("one daemon's calls share it, another waits", func(t *testing.T) {
		beat(t, a, b)
		one, two := take(a, "shared"), take(a, "shared")
		if one != two {
			t.Fatalf("%+v, %+v", one, two)
		}
		a.GiveEpisode(one)
		waits(b, "shared")
		take(b, "another")
		a.GiveEpisode(two)
		l := take(b, "shared")
		waits(a, "shared")
		b.GiveEpisode(l)
	})
	t.Run("who waits goes first", func(t *testing.T) {
		beat(t, a, b)
		l := take(a, "turns")
		got := make(chan store.Lease)
		go func() {
			l, err := b.TakeEpisode(ctx, "turns")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		wanted(t, database, "turns")
		a.GiveEpisode(l)
		again := make(chan store.Lease)
		go func() {
			l, err := a.TakeEpisode(ctx, "turns")
			if err != nil {
				t.Error(err)
			}
			again <- l
		}()
		select {
		case l := <-got:
			b.GiveEpisode(l)
		case <-again:
			t.Fatal("the one that had its turn went before the one that waited")
		}
		a.GiveEpisode(<-again)
	})
	t.Run("calls without a gap between them do not keep it for ever", func(t *testing.T) {
		beat(t, a, b)
		l := take(a, "busy")
		a.db.leases.mu.Lock()
		a.db.leases.m["busy"].since = time.Now().Add(-wantFor)
		a.db.leases.mu.Unlock()
		if joined := take(a, "busy"); joined != l { // nobody waits yet
			t.Fatalf("%+v, %+v", joined, l)
		}
		got := make(chan store.Lease)
		go func() {
			l, err := b.TakeEpisode(ctx, "busy")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		wanted(t, database, "busy")
		waits(a, "busy")
		a.GiveEpisode(l)
		a.GiveEpisode(l)
		b.GiveEpisode(<-got)
		a.GiveEpisode(take(a, "busy"))
	})
	t.Run("an own intent is nobody else's", func(t *testing.T) {
		beat(t, a, b)
		in := storetest.Intent("a2a:own:call", "e", 1, 1000)
		if _, err := b.IntendEffect(ctx, in); err != nil {
			t.Fatal(err)
		}
		expire(t, database, b)
		if open, _, err := b.Adopt(ctx, 10); err != nil || len(open) != 0 {
			t.Fatalf("%+v, %v", open, err)
		}
		if open, _, err := a.Adopt(ctx, 10); err != nil || len(open) != 1 {
			t.Fatalf("%+v, %v", open, err)
		}
		rec := world.NewObject("r", "test", []byte(`{"record":2}`))
		if err := b.RecordOutcome(ctx, store.EffectOutcome{Invocation: in.Invocation, EffectID: "e", Record: rec.Hash, Objects: []world.Object{rec}}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("after the database was away all are taken to be alive for a while", func(t *testing.T) {
		beat(t, a, b)
		l := take(a, "away")
		if err := cluster.Exec(database, "UPDATE writers SET until = clock_timestamp() - interval '1 hour' WHERE id = '"+a.db.writerID+"'"); err != nil {
			t.Fatal(err)
		}
		b.db.pulse.mu.Lock()
		b.db.pulse.last = time.Now().Add(-time.Minute)
		b.db.pulse.mu.Unlock()
		waits(b, "away")
		b.db.pulse.mu.Lock()
		b.db.pulse.last = time.Now()
		b.db.pulse.mu.Unlock()
		b.GiveEpisode(take(b, "away"))
		a.GiveEpisode(l)
	})
	t.Run("the lease of a daemon that is no more is lost, and so are its writes", func(t *testing.T) {
		beat(t, a, b)
		l := take(a, "ep")
		in := storetest.Intent("a2a:ep:before", "e", 1, 1000)
		in.Lease = l
		if _, err := a.IntendEffect(ctx, in); err != nil {
			t.Fatal(err)
		}
		if open, _, err := b.Adopt(ctx, 10); err != nil || len(open) != 0 {
			t.Fatalf("the open intent of a daemon that is alive is told: %+v, %v", open, err)
		}
		expire(t, database, a)
		if open, _, err := b.Adopt(ctx, 10); err != nil || len(open) != 1 || open[0].ID != in.Invocation {
			t.Fatalf("%+v, %v", open, err)
		}
		taken := take(b, "ep")
		before, err := a.Head(ctx)
		if err != nil {
			t.Fatal(err)
		}
		late := storetest.Intent("a2a:ep:late", "e", 1, 1000)
		late.Lease = l
		if got, err := a.IntendEffect(ctx, late); world.KindOf(err) != world.KindCapacity {
			t.Fatalf("%+v, %v", got, err)
		}
		call := storetest.Call("late")
		call.Lease = l
		if got, err := a.Append(ctx, call); world.KindOf(err) != world.KindCapacity {
			t.Fatalf("%+v, %v", got, err)
		}
		if after, err := a.Head(ctx); err != nil || after != before {
			t.Fatalf("%+v, %v", after, err)
		}
		// What was done becomes known all the same.
		rec := world.NewObject("r", "test", []byte(`{"record":1}`))
		if err := a.RecordOutcome(ctx, store.EffectOutcome{Invocation: in.Invocation, EffectID: "e", Record: rec.Hash, Objects: []world.Object{rec}}); err != nil {
			t.Fatal(err)
		}
		call.Lease = taken
		if _, err := b.Append(ctx, call); err != nil {
			t.Fatal(err)
		}
		b.GiveEpisode(taken)
		a.GiveEpisode(l)
		if err := a.db.beatOnce(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("what was given back and not told is given back by the beat", func(t *testing.T) {
		beat(t, a, b)
		l := take(a, "forgotten")
		a.db.leases.mu.Lock()
		delete(a.db.leases.m, "forgotten")
		a.db.leases.mu.Unlock()
		waits(b, "forgotten")
		held := take(a, "held")
		if err := a.db.beatOnce(); err != nil {
			t.Fatal(err)
		}
		b.GiveEpisode(take(b, "forgotten"))
		waits(b, "held")
		a.GiveEpisode(held)
		_ = l
	})
	t.Run("a daemon that is closed leaves its turns", func(t *testing.T) {
		beat(t, a, b)
		c := openStore(t, cluster.URL(database), sqlstore.Hooks{})
		take(c, "left")
		waits(a, "left")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		a.GiveEpisode(take(a, "left"))
	})
	whole(t, a)
}

// TestAdopt leaves intents of two daemons open that are no more, and has others take them over at
// once: each intent goes to one of them, also when an answer is lost, and again when that one is
// no more.
func TestAdopt(t *testing.T) {
	all, database := daemons(t, 5)
	const intents = 60
	for i := range intents {
		if _, err := all[i%2].IntendEffect(ctx, storetest.Intent(world.InvocationID(fmt.Sprint("a2a:ep:", i)), "e", 1, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	heirs := all[2:]
	adopt := func(s *Store, into map[world.InvocationID]int) {
		for more := true; more; {
			open, next, err := s.Adopt(ctx, 7)
			if err != nil {
				t.Error(err)
				return
			}
			more = next
			for _, inv := range open {
				into[inv.ID]++
			}
		}
	}
	race := func() (total map[world.InvocationID]int) {
		got := make([]map[world.InvocationID]int, len(heirs))
		var wg sync.WaitGroup
		for i, s := range heirs {
			got[i] = map[world.InvocationID]int{}
			wg.Go(func() { adopt(s, got[i]) })
		}
		wg.Wait()
		total = map[world.InvocationID]int{}
		for _, m := range got {
			for id, n := range m {
				total[id] += n
			}
		}
		return total
	}
	beat(t, all...)
	if got := race(); len(got) != 0 {
		t.Fatalf("of daemons that are alive: %v", got)
	}
	expire(t, database, all[0])
	all[1].Close()
	got := race()
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s was taken over %d times", id, n)
		}
	}
	if len(got) != intents {
		t.Errorf("%d of %d", len(got), intents)
	}
	if got := race(); len(got) != 0 {
		t.Errorf("again: %v", got)
	}
	whole(t, heirs[0])

	// One takes all over and gets no answer; the next try gives them.
	heirs[0].Close()
	heirs[1].Close()
	last := heirs[2]
	mine := map[world.InvocationID]int{}
	adopt(last, mine)
	if len(mine) == 0 {
		t.Fatal("nothing of those that were closed")
	}
	last.Close()
	lost := all[0] // it is alive again, and has none
	beat(t, lost)
	open, _, err := lost.Adopt(ctx, intents)
	if err != nil || len(open) != intents {
		t.Fatalf("%d of %d, %v", len(open), intents, err)
	}
	rows, err := lost.db.side.Query(ctx, "SELECT seq FROM pending ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	seqs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	lost.db.adopting.unsure = seqs // as if its answer had been lost
	again := map[world.InvocationID]int{}
	adopt(lost, again)
	if len(again) != intents {
		t.Errorf("%d of %d after an answer was lost", len(again), intents)
	}
	whole(t, lost)
}

// TestPulse has beats come in time, late, and in time again.
func TestPulse(t *testing.T) {
	var p pulse
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		after time.Duration
		beat  bool
		grace time.Duration
	}{
		{0, true, 0}, {BeatEvery, true, 0}, {2 * BeatEvery, false, 0}, {time.Second, false, unjudged},
		{time.Second, true, unjudged}, {BeatEvery, true, unjudged}, {BeatEvery, true, unjudged}, {BeatEvery, true, 0}, {BeatEvery, true, 0},
	} {
		now = now.Add(step.after)
		if step.beat {
			p.beaten(now)
		}
		if got := p.grace(now); got != step.grace {
			t.Errorf("step %d: %v, want %v", i, got, step.grace)
		}
	}
}

// beat has daemons say that they are alive.
func beat(t *testing.T, all ...*Store) {
	t.Helper()
	for _, s := range all {
		if err := s.db.beatOnce(); err != nil {
			t.Fatal(err)
		}
	}
}

// expire lets a daemon's time be over.
func expire(t *testing.T, database string, s *Store) {
	t.Helper()
	if err := cluster.Exec(database, "UPDATE writers SET until = clock_timestamp() - interval '1 hour' WHERE id = '"+s.db.writerID+"'"); err != nil {
		t.Fatal(err)
	}
}

// wanted waits until somebody waits for an episode.
func wanted(t *testing.T, database, episode string) {
	t.Helper()
	o := &opener{database: database}
	c := o.admin(t)
	for {
		var yes bool
		if err := c.QueryRow(ctx, "SELECT wanted <> '' FROM leases WHERE episode = $1", episode).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		if yes {
			return
		}
	}
}
