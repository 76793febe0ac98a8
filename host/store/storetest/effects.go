package storetest

import (
	"fmt"
	"testing"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func testEffects(t *testing.T, o Opener) {
	s := open(t, o)
	begin(t, s, 0)
	call := Call("effectful")
	one := Intent(call.Invocation, "e1", 3, 10)
	spent := func(want int64) {
		t.Helper()
		same(t, "spent", must(s.Spent(ctx, "ep", "Workspace.Read", "worktree"))(t), want)
	}
	t.Run("an intent debits", func(t *testing.T) {
		spent(0)
		same(t, "debit", must(s.IntendEffect(ctx, one))(t), store.Debit{Before: 10, After: 7})
		spent(3)
		same(t, "request", must(s.ObjectMeta(ctx, one.Request.Hash))(t), one.Request.ObjectMeta)
		same(t, "invocation", must(s.Invocation(ctx, one.Invocation))(t), store.Invocation{
			ID: one.Invocation, State: store.StateOpen, Digest: one.Digest, Credential: one.Credential,
			Effects: []store.EffectTrace{{EffectID: "e1", Request: one.Request.Hash}}})
	})
	t.Run("an effect id is used once", func(t *testing.T) {
		_, err := s.IntendEffect(ctx, one)
		wantKind(t, err, world.KindBadRequest)
		spent(3)
	})
	t.Run("a budget that does not suffice", func(t *testing.T) {
		two := Intent(call.Invocation, "e2", 8, 10)
		same(t, "debit", must(s.IntendEffect(ctx, two))(t), store.Debit{Before: 7, After: 7, Denied: true})
		spent(3)
		absent(t, s, two.Request.Hash)
		if inv := must(s.Invocation(ctx, one.Invocation))(t); len(inv.Effects) != 1 {
			t.Fatalf("%+v", inv)
		}
		two.Budget = 2 // another session's grant, of which more is spent already
		same(t, "debit", must(s.IntendEffect(ctx, two))(t), store.Debit{Denied: true})
		two.Need.Cost = 0
		same(t, "debit", must(s.IntendEffect(ctx, two))(t), store.Debit{Denied: true})
	})
	t.Run("the last of it may be spent", func(t *testing.T) {
		same(t, "debit", must(s.IntendEffect(ctx, Intent(call.Invocation, "e2", 7, 10)))(t), store.Debit{Before: 7, After: 0})
		same(t, "debit", must(s.IntendEffect(ctx, Intent(call.Invocation, "e3", 0, 10)))(t), store.Debit{})
		spent(10)
	})
	t.Run("sums are kept by episode, effect and scope", func(t *testing.T) {
		for i, need := range []world.Need{{Effect: "Workspace.Read", Scope: "other", Cost: 1}, {Effect: "Workspace.Write", Scope: "worktree", Cost: 2}} {
			in := Intent(call.Invocation, fmt.Sprint("s", i), 0, 100)
			in.Need = need
			same(t, "debit", must(s.IntendEffect(ctx, in))(t), store.Debit{Before: 100, After: 100 - need.Cost})
			same(t, "spent", must(s.Spent(ctx, "ep", need.Effect, need.Scope))(t), need.Cost)
			same(t, "spent by another", must(s.Spent(ctx, "ep2", need.Effect, need.Scope))(t), int64(0))
		}
		spent(10)
	})
	t.Run("costs and budgets beyond the range", func(t *testing.T) {
		for _, c := range [][2]int64{{-1, 10}, {1 << 53, 1 << 53}, {1, -1}} {
			_, err := s.IntendEffect(ctx, Intent("a2a:ep:range", "e1", c[0], c[1]))
			wantKind(t, err, world.KindBadRequest)
		}
		spent(10)
	})
	t.Run("a request whose hash is wrong", func(t *testing.T) {
		bad := Intent("a2a:ep:wrong", "e1", 0, 100)
		bad.Request.Hash = ref("other")
		_, err := s.IntendEffect(ctx, bad)
		wantKind(t, err, world.KindInternal)
		same(t, "invocation", must(s.Invocation(ctx, bad.Invocation))(t), store.Invocation{ID: bad.Invocation})
	})
	t.Run("an outcome closes its intent", func(t *testing.T) {
		out := outcome(one)
		ok(t, s.RecordOutcome(ctx, out))
		same(t, "record", must(s.ObjectMeta(ctx, out.Record))(t), out.Objects[0].ObjectMeta)
		inv := must(s.Invocation(ctx, one.Invocation))(t)
		same(t, "trace", inv.Effects[0], store.EffectTrace{EffectID: "e1", Request: one.Request.Hash, Record: out.Record})
		if !inv.Effects[1].Record.IsNone() {
			t.Fatalf("%+v", inv)
		}
	})
	t.Run("only once, and only an intent", func(t *testing.T) {
		wantKind(t, s.RecordOutcome(ctx, outcome(one)), world.KindBadRequest)
		never := outcome(Intent(call.Invocation, "never", 1, 1))
		wantKind(t, s.RecordOutcome(ctx, never), world.KindBadRequest)
		absent(t, s, never.Record)
		other := outcome(one)
		other.Invocation = "a2a:ep:other"
		wantKind(t, s.RecordOutcome(ctx, other), world.KindBadRequest)
	})
	t.Run("the call commits", func(t *testing.T) {
		call.Digest = one.Digest
		c := must(s.Append(ctx, call))(t)
		inv := must(s.Invocation(ctx, call.Invocation))(t)
		same(t, "who used it first", inv.Credential, one.Credential)
		if inv.State != store.StateCommitted || inv.EntryIndex != c.Entry.Header.EntryIndex || inv.World != c.World.Ref || len(inv.Effects) != 5 {
			t.Fatalf("%+v", inv)
		}
	})
	t.Run("then it does no more effects", func(t *testing.T) {
		_, err := s.IntendEffect(ctx, Intent(call.Invocation, "e9", 0, 10))
		wantKind(t, err, world.KindTaskIDUsed)
		ok(t, s.RecordOutcome(ctx, outcome(Intent(call.Invocation, "e2", 7, 10)))) // but ends those it began
	})
	t.Run("an id that does effects is not free for another call", func(t *testing.T) {
		in := Intent("a2a:ep:taken", "e1", 0, 10)
		must(s.IntendEffect(ctx, in))(t)
		other := Intent(in.Invocation, "e2", 0, 10)
		other.Digest = ref("another call")
		_, err := s.IntendEffect(ctx, other)
		wantKind(t, err, world.KindTaskIDUsed)
		a := Call("taken")
		_, err = s.Append(ctx, a)
		wantKind(t, err, world.KindTaskIDUsed)
		absent(t, s, a.TransitionRef)
	})
	t.Run("after reopening", func(t *testing.T) {
		inv := must(s.Invocation(ctx, call.Invocation))(t)
		s.reopen(t)
		same(t, "invocation", must(s.Invocation(ctx, call.Invocation))(t), inv)
		same(t, "spent", must(s.Spent(ctx, "ep", "Workspace.Read", "worktree"))(t), int64(10))
		in := Intent("a2a:ep:late", "e1", 1, 11)
		same(t, "debit", must(s.IntendEffect(ctx, in))(t), store.Debit{Before: 1})
	})
}

// testOutcomesBrought: outcomes may come with the next intent or with the entry, whole or
// not at all.
func testOutcomesBrought(t *testing.T, o Opener) {
	s := open(t, o)
	begin(t, s, 0)
	one, two := Intent("a2a:ep:b", "e1", 1, 10), Intent("a2a:ep:b", "e2", 1, 10)
	must(s.IntendEffect(ctx, one))(t)
	record := func(effect int) world.Ref { return must(s.Invocation(ctx, one.Invocation))(t).Effects[effect].Record }
	t.Run("a denied intent brings none", func(t *testing.T) {
		dear := Intent(one.Invocation, "e2", 10, 10)
		dear.Outcomes = []store.EffectOutcome{outcome(one)}
		if d := must(s.IntendEffect(ctx, dear))(t); !d.Denied {
			t.Fatalf("%+v", d)
		}
		absent(t, s, outcome(one).Record)
		same(t, "record", record(0), world.Ref{})
	})
	t.Run("an intent brings one", func(t *testing.T) {
		two.Outcomes = []store.EffectOutcome{outcome(one)}
		must(s.IntendEffect(ctx, two))(t)
		same(t, "record", record(0), outcome(one).Record)
		same(t, "object", must(s.ObjectMeta(ctx, outcome(one).Record))(t), outcome(one).Objects[0].ObjectMeta)
	})
	call := Call("b")
	call.Digest = one.Digest
	t.Run("what does not fit leaves nothing", func(t *testing.T) {
		other := outcome(two)
		other.Invocation = "a2a:ep:other"
		bare := outcome(two)
		bare.Record = world.Ref{}
		for _, bad := range [][]store.EffectOutcome{
			{outcome(one)}, {outcome(two), outcome(two)}, {other}, {bare}, {outcome(Intent(one.Invocation, "never", 1, 1))},
		} {
			c := call
			c.Outcomes = bad
			_, err := s.Append(ctx, c)
			wantKind(t, err, world.KindBadRequest)
			same(t, "state", must(s.Invocation(ctx, one.Invocation))(t).State, store.StateOpen)
			same(t, "record", record(1), world.Ref{})
			absent(t, s, call.TransitionRef)
		}
	})
	t.Run("an entry brings one", func(t *testing.T) {
		call.Outcomes = []store.EffectOutcome{outcome(two)}
		must(s.Append(ctx, call))(t)
		same(t, "record", record(1), outcome(two).Record)
		same(t, "object", must(s.ObjectMeta(ctx, outcome(two).Record))(t), outcome(two).Objects[0].ObjectMeta)
		same(t, "unresolved", len(unresolved(t, s, 10)), 0)
		s.reopen(t)
		inv := must(s.Invocation(ctx, one.Invocation))(t)
		if inv.State != store.StateCommitted || inv.Effects[1].Record != outcome(two).Record {
			t.Fatalf("%+v", inv)
		}
		wantKind(t, s.RecordOutcome(ctx, outcome(two)), world.KindBadRequest)
	})
}

func testUnresolved(t *testing.T, o Opener) {
	s := open(t, o)
	begin(t, s, 0)
	ids := func(s store.Store, limit int) (ids []string) {
		t.Helper()
		for _, inv := range unresolved(t, s, limit) {
			full := must(s.Invocation(ctx, inv.ID))(t)
			same(t, "unresolved", inv, full)
			ids = append(ids, string(inv.ID))
		}
		return ids
	}
	same(t, "at first", ids(s, 10), []string(nil))
	var intents []store.EffectIntent
	for _, id := range []world.InvocationID{"a2a:ep:b", "a2a:ep:a", "a2a:ep:c"} {
		for _, e := range []string{"e1", "e2"} {
			in := Intent(id, e, 0, 0)
			must(s.IntendEffect(ctx, in))(t)
			intents = append(intents, in)
		}
	}
	same(t, "oldest first, each once", ids(s, 10), []string{"a2a:ep:b", "a2a:ep:a", "a2a:ep:c"})
	same(t, "page by page", ids(s, 1), []string{"a2a:ep:b", "a2a:ep:a", "a2a:ep:c"})
	ok(t, s.RecordOutcome(ctx, outcome(intents[0])))
	// The oldest intent of b that is still open is now its second, which is older than a's.
	same(t, "one of two outcomes", ids(s, 10), []string{"a2a:ep:b", "a2a:ep:a", "a2a:ep:c"})
	ok(t, s.RecordOutcome(ctx, outcome(intents[1])))
	same(t, "both outcomes", ids(s, 10), []string{"a2a:ep:a", "a2a:ep:c"})
	call := Call("a")
	call.Digest = intents[2].Digest
	must(s.Append(ctx, call))(t)
	same(t, "a commit is no outcome", ids(s, 10), []string{"a2a:ep:a", "a2a:ep:c"})
	s.reopen(t)
	same(t, "after reopening", ids(s, 10), []string{"a2a:ep:a", "a2a:ep:c"})
	ok(t, s.RecordOutcome(ctx, outcome(intents[4])))
	ok(t, s.RecordOutcome(ctx, outcome(intents[5])))
	same(t, "an outcome after reopening", ids(s, 10), []string{"a2a:ep:a"})
}

// unresolved reads all pages of Unresolved, each of limit intents; an invocation that is on
// two pages is given once.
func unresolved(t *testing.T, s store.Reader, limit int) (all []store.Invocation) {
	t.Helper()
	seen := make(map[world.InvocationID]bool)
	for after := int64(0); ; {
		open, next, err := s.Unresolved(ctx, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, inv := range open {
			if !seen[inv.ID] {
				seen[inv.ID] = true
				all = append(all, inv)
			}
		}
		if next == 0 {
			return all
		}
		if next <= after {
			t.Fatalf("the page after %d begins at %d", after, next)
		}
		after = next
	}
}
