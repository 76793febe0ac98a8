package coordinator_test

import (
	"context"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// Each durable step of a call fails in a pair: the store says it does not know whether the
// write is durable, and it is not (AndNotPersist), or it is (ButPersist). After each fault
// the same task is sent again while the fault lasts, then again without it, then again
// over the reopened store, and the whole store is checked each time.

// faults makes a step fail. The fault ends when *on is false.
type fault struct {
	name    string
	skill   string
	install func(f *fixture, on *bool, persist bool)
	// want is the answer of the task once the fault is over.
	want map[bool]string
}

var errUnknown = &world.Error{Op: "test", Kind: world.KindUncertain}

const (
	commits = "an entry"
	unnamed = "unrecorded"
)

var faults = []fault{
	{"intent", "doit", func(f *fixture, on *bool, persist bool) {
		f.events.intend = func(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
			if !*on {
				return f.store.IntendEffect(ctx, i)
			}
			if persist {
				if _, err := f.store.IntendEffect(ctx, i); err != nil {
					return store.Debit{}, err
				}
			}
			return store.Debit{}, errUnknown
		}
	}, map[bool]string{false: commits, true: unnamed}},
	{"outcome", "shaped", func(f *fixture, on *bool, persist bool) {
		f.events.outcome = func(ctx context.Context, o store.EffectOutcome) error {
			if !*on {
				return f.store.RecordOutcome(ctx, o)
			}
			if persist {
				if err := f.store.RecordOutcome(ctx, o); err != nil {
					return err
				}
			}
			return errUnknown
		}
	}, map[bool]string{false: unnamed, true: unnamed}},
	{"commit with an outcome", "doit", failAppend, map[bool]string{false: unnamed, true: commits}},
	{"commit after an outcome", "shaped", failAppend, map[bool]string{false: unnamed, true: commits}},
	{"commit of a pure call", "echo", failAppend, map[bool]string{false: commits, true: commits}},
}

func failAppend(f *fixture, on *bool, persist bool) {
	f.events.append = func(ctx context.Context, a store.Append) (store.Committed, error) {
		if !*on {
			return f.store.Append(ctx, a)
		}
		if persist {
			if _, err := f.store.Append(ctx, a); err != nil {
				return store.Committed{}, err
			}
		}
		return store.Committed{}, errUnknown
	}
}

func TestFaultsInPairs(t *testing.T) {
	for _, c := range faults {
		for _, persist := range []bool{false, true} {
			name := c.name + " fails and does not persist"
			if persist {
				name = c.name + " fails but persists"
			}
			t.Run(name, func(t *testing.T) { faultAndRecover(t, c, persist) })
		}
	}
}

func faultAndRecover(t *testing.T, c fault, persist bool) {
	f := newFixture(t)
	f.genesis()
	f.publish("echo", echo, do)
	f.publish("doit", planned, do, do)
	f.publish("shaped", shaped, do, do)
	s := f.session("Test.Do=s:9")
	on := true
	c.install(f, &on, persist)
	send := func(when string) (entry int64, err error) {
		t.Helper()
		res, err := f.call(c.skill, "t", "{}", s)
		worldtest.CheckAll(t, f.store)
		id := world.AgentInvocation("ep", "t")
		inv, jerr := f.store.Invocation(context.Background(), id)
		if jerr != nil {
			t.Fatal(jerr)
		}
		if done := f.doer.done[id]; done > 1 || done > len(inv.Effects) {
			t.Fatalf("%s: done %d times for %d intents", when, done, len(inv.Effects))
		}
		if f.spent() != int64(len(inv.Effects)) {
			t.Fatalf("%s: spent %d for %d intents", when, f.spent(), len(inv.Effects))
		}
		return res.Entry, err
	}
	if _, err := send("at the fault"); err == nil {
		t.Fatal("the fault was not noticed")
	}
	first, err := send("at the fault, again") // answered from the journal, or failing again
	landed := err == nil
	on = false
	for _, when := range []string{"after it", "over the reopened store"} {
		if when == "over the reopened store" {
			f.reopen()
		}
		entry, err := send(when)
		got := commits
		if err != nil {
			wantUnrecorded(t, err)
			got = unnamed
		}
		if got != c.want[persist] {
			t.Fatalf("%s: the task is %s (%v), want %s", when, got, err, c.want[persist])
		}
		if landed && entry != first {
			t.Fatalf("%s: entry %d, was %d", when, entry, first)
		}
		first, landed = entry, got == commits
	}
	// The world goes on: another call, on the chain that is there.
	if _, err := f.call("echo", "next", "{}", s); err != nil {
		t.Fatal(err)
	}
	worldtest.CheckAll(t, f.store)
	if head, err := f.store.Head(context.Background()); err != nil || head.World == hashref.None {
		t.Fatalf("%+v, %v", head, err)
	}
}
