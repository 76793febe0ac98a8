package storetest

import (
	"fmt"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func testAppend(t *testing.T, o Opener) {
	s := open(t, o)
	t.Run("before genesis there is no world", func(t *testing.T) {
		_, err := s.Head(ctx)
		wantKind(t, err, world.KindNoWorld)
		a := Call("too early")
		_, err = s.Append(ctx, a)
		wantKind(t, err, world.KindNoWorld)
		absent(t, s, a.TransitionRef, a.StateRoot)
		if inv := must(s.Invocation(ctx, a.Invocation))(t); inv.State != store.StateUnknown {
			t.Fatalf("%+v", inv)
		}
	})
	g := must(s.Commit(ctx, Genesis()))(t)
	a := Call("first")
	c := must(s.Append(ctx, a))(t)
	t.Run("the writer fixes index, hashes and world", func(t *testing.T) {
		h := world.EntryHeader{EntryIndex: 1, SemanticsEpoch: 1, TransitionFn: fn, Interpreter: eng,
			PrevEntryHash: g.Entry.EntryHash, WrittenBy: a.WrittenBy}
		e := world.Entry{Header: h, EntryHash: world.ComputeEntryHash(h, a.TransitionRef), TransitionRef: a.TransitionRef}
		w := world.World{Ref: world.ComputeWorldRef(1, a.StateRoot, e.EntryHash), Revision: 1, StateRoot: a.StateRoot, LogHead: e.EntryHash}
		same(t, "committed", c, store.Committed{Entry: e, World: w})
		same(t, "entry", must(s.Entry(ctx, 1))(t), e)
		same(t, "world", must(s.World(ctx, w.Ref))(t), w)
		same(t, "head", must(s.Head(ctx))(t), store.Head{World: w.Ref, LogHead: e.EntryHash, Next: 2})
		for _, obj := range a.Objects {
			same(t, "object", must(s.ObjectMeta(ctx, obj.Hash))(t), obj.ObjectMeta)
		}
	})
	t.Run("the journal says so", func(t *testing.T) {
		same(t, "invocation", must(s.Invocation(ctx, a.Invocation))(t), store.Invocation{
			ID: a.Invocation, State: store.StateCommitted, Digest: a.Digest, Credential: a.Credential, EntryIndex: 1, World: c.World.Ref})
	})
	t.Run("an id is committed once", func(t *testing.T) {
		again := Call("second")
		again.Invocation = a.Invocation
		_, err := s.Append(ctx, again)
		wantKind(t, err, world.KindTaskIDUsed)
		_, err = s.Append(ctx, a)
		wantKind(t, err, world.KindTaskIDUsed)
		absent(t, s, again.TransitionRef)
		same(t, "next", must(s.Head(ctx))(t).Next, int64(2))
	})
	t.Run("a wrong hash stores nothing", func(t *testing.T) {
		bad := Call("bad")
		bad.Objects[2].Hash = ref("other")
		_, err := s.Append(ctx, bad)
		wantKind(t, err, world.KindInternal)
		absent(t, s, bad.Objects[0].Hash, bad.Objects[1].Hash)
		same(t, "next", must(s.Head(ctx))(t).Next, int64(2))
	})
	t.Run("calls without an id are as many as one likes", func(t *testing.T) {
		for i := range 2 {
			anon := Call(fmt.Sprint("anon ", i))
			anon.Invocation = ""
			must(s.Append(ctx, anon))(t)
		}
	})
	t.Run("an absent world, entry or invocation", func(t *testing.T) {
		_, err := s.World(ctx, ref("absent"))
		wantKind(t, err, world.KindNotFound)
		_, err = s.Entry(ctx, 99)
		wantKind(t, err, world.KindNotFound)
		_, err = s.Entry(ctx, -1)
		wantKind(t, err, world.KindNotFound)
		same(t, "invocation", must(s.Invocation(ctx, "a2a:ep:absent"))(t), store.Invocation{ID: "a2a:ep:absent"})
	})
	t.Run("all of it is there after reopening", func(t *testing.T) {
		head := must(s.Head(ctx))(t)
		s.reopen(t)
		same(t, "head", must(s.Head(ctx))(t), head)
		next := must(s.Append(ctx, Call("after reopening")))(t)
		same(t, "prevEntryHash", next.Entry.Header.PrevEntryHash, head.LogHead)
		_, err := s.Append(ctx, a)
		wantKind(t, err, world.KindTaskIDUsed)
	})
}

func testLog(t *testing.T, o Opener) {
	s := open(t, o)
	t.Run("an empty log is an empty page", func(t *testing.T) {
		if page := must(s.Entries(ctx, 0, 10))(t); len(page) != 0 {
			t.Fatalf("%v", page)
		}
	})
	const calls = 620
	begin(t, s, calls)
	all := CheckLog(t, s)
	same(t, "entries", len(all), calls+1)
	for _, c := range []struct{ from, limit, want int }{
		{0, 1, 1}, {0, 100, 100}, {5, 7, 7}, {0, 10_000, store.MaxPage}, {600, 100, 21}, {620, 10, 1}, {621, 10, 0}, {9999, 10, 0},
	} {
		t.Run(fmt.Sprintf("from %d limit %d", c.from, c.limit), func(t *testing.T) {
			page := must(s.Entries(ctx, int64(c.from), c.limit))(t)
			same(t, "length", len(page), c.want)
			for i, e := range page {
				same(t, "entry", e, all[c.from+i])
			}
		})
	}
	t.Run("a limit below 1 is some page", func(t *testing.T) {
		for _, limit := range []int{0, -5} {
			if page := must(s.Entries(ctx, 0, limit))(t); len(page) == 0 || len(page) > store.MaxPage {
				t.Fatalf("%d entries", len(page))
			}
		}
	})
}

func testChainLaws(t *testing.T, o Opener) {
	s := open(t, o)
	cases := []struct {
		name, msg string
		genesis   bool // also a law before there is a log
		breakIt   func(*store.Commit, store.Head)
	}{
		{"index too high", "entry.header.entryIndex must be %d", true, func(c *store.Commit, h store.Head) { c.Entry.Header.EntryIndex++ }},
		{"index negative", "entry.header.entryIndex must be %d", true, func(c *store.Commit, h store.Head) { c.Entry.Header.EntryIndex = -1 }},
		{"prevEntryHash", "entry.header.prevEntryHash must be ", false, func(c *store.Commit, h store.Head) { c.Entry.Header.PrevEntryHash = ref("x") }},
		{"logHead", "nextWorld.logHead must be ", true, func(c *store.Commit, h store.Head) { c.NextWorld.LogHead = ref("x") }},
		{"revision", "nextWorld.revision must be %d", true, func(c *store.Commit, h store.Head) { c.NextWorld.Revision++ }},
		{"world not new", "nextWorld.ref must be ", false, func(c *store.Commit, h store.Head) { c.NextWorld.Ref = h.World }},
		{"entry hash not new", "entry.entryHash must be ", false, func(c *store.Commit, h store.Head) {
			c.Entry.EntryHash, c.NextWorld.LogHead = h.LogHead, h.LogHead
		}},
		{"no world ref", "nextWorld.ref must be ", true, func(c *store.Commit, h store.Head) { c.NextWorld.Ref = hashref.None }},
		{"no entry hash", "entry.entryHash must be ", true, func(c *store.Commit, h store.Head) {
			c.Entry.EntryHash, c.NextWorld.LogHead = hashref.None, hashref.None
		}},
	}
	for _, at := range []string{"genesis", "later"} {
		var head store.Head
		if at == "later" {
			head = begin(t, s, 2)
		}
		for _, c := range cases {
			if at == "genesis" && !c.genesis {
				continue
			}
			t.Run(at+": "+c.name, func(t *testing.T) {
				commit := NextCommit(head, "broken "+at+c.name)
				c.breakIt(&commit, head)
				for _, id := range []world.InvocationID{"", "rest:broken"} {
					commit.Invocation = id
					_, err := s.Commit(ctx, commit)
					wantKind(t, err, world.KindBadRequest)
					wantPrefix(t, world.Message(err), c.msg, head.Next)
				}
				absent(t, s, commit.Objects[0].Hash)
				same(t, "invocation", must(s.Invocation(ctx, "rest:broken"))(t), store.Invocation{ID: "rest:broken"})
				if at == "later" {
					same(t, "head", must(s.Head(ctx))(t), head)
				}
			})
		}
	}
	head := must(s.Head(ctx))(t)
	t.Run("an observed head comes before the chain", func(t *testing.T) {
		c := NextCommit(head, "stale")
		c.ObservedHead = ref("stale")
		c.Entry.Header.EntryIndex = 99
		_, err := s.Commit(ctx, c)
		wantConflict(t, err, ref("stale"), head.World)
		c.ObservedHead = hashref.None
		_, err = s.Commit(ctx, c)
		wantConflict(t, err, hashref.None, head.World)
	})
	t.Run("the chain comes before object hashes", func(t *testing.T) {
		c := NextCommit(head, "order")
		c.Objects[0].Hash = ref("other")
		c.NextWorld.Revision = 77
		_, err := s.Commit(ctx, c)
		wantKind(t, err, world.KindBadRequest)
		c.NextWorld.Revision = head.Next
		_, err = s.Commit(ctx, c)
		wantKind(t, err, world.KindInternal)
		same(t, "head", must(s.Head(ctx))(t), head)
	})
	t.Run("what was refused may be sent again once it is right", func(t *testing.T) {
		c := NextCommit(head, "order")
		got := must(s.Commit(ctx, c))(t)
		same(t, "committed", got, store.Committed{Entry: c.Entry, World: c.NextWorld})
		same(t, "entry", must(s.Entry(ctx, head.Next))(t), c.Entry)
		same(t, "world", must(s.World(ctx, c.NextWorld.Ref))(t), c.NextWorld)
	})
}
