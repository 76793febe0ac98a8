package storetest

import (
	"fmt"
	"strings"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func wantPrefix(t testing.TB, got, format string, next int64) {
	t.Helper()
	want := format
	if strings.Contains(format, "%d") {
		want = fmt.Sprintf(format, next)
	}
	if !strings.HasPrefix(got, want) {
		t.Fatalf("message %q, want %q…", got, want)
	}
}

func testREST(t *testing.T, o Opener) {
	s := open(t, o)
	first := Genesis()
	first.Invocation, first.Digest, first.Credential = "rest:first", ref("first commit"), ref("first session")
	t.Run("genesis observes no head", func(t *testing.T) {
		c := first
		c.ObservedHead = ref("some")
		_, err := s.Commit(ctx, c)
		wantConflict(t, err, ref("some"), hashref.None)
		same(t, "receipt", must(s.Invocation(ctx, c.Invocation))(t), store.Invocation{ID: c.Invocation})
	})
	t.Run("prevEntryHash is free at genesis", func(t *testing.T) {
		first.Entry.Header.PrevEntryHash = ref("anything")
		same(t, "committed", must(s.Commit(ctx, first))(t), store.Committed{Entry: first.Entry, World: first.NextWorld})
	})
	receipt := store.Invocation{ID: first.Invocation, State: store.StateCommitted, Digest: first.Digest, Credential: first.Credential, World: first.NextWorld.Ref}
	t.Run("the receipt", func(t *testing.T) { same(t, "receipt", must(s.Invocation(ctx, first.Invocation))(t), receipt) })
	head := must(s.Head(ctx))(t)
	must(s.Commit(ctx, NextCommit(head, "moves on")))(t)
	head = must(s.Head(ctx))(t)
	t.Run("replay, also after the head moved", func(t *testing.T) {
		want := store.Committed{Entry: first.Entry, World: first.NextWorld, Replayed: true}
		same(t, "committed", must(s.Commit(ctx, first))(t), want)
		odd := NextCommit(head, "odd") // what the id stands for is the digest's business
		odd.Invocation, odd.Digest, odd.ObservedHead = first.Invocation, first.Digest, ref("stale")
		same(t, "committed", must(s.Commit(ctx, odd))(t), want)
		same(t, "head", must(s.Head(ctx))(t), head)
	})
	t.Run("another commit under the id", func(t *testing.T) {
		c := NextCommit(head, "other")
		c.Invocation, c.Digest = first.Invocation, ref("other commit")
		_, err := s.Commit(ctx, c)
		wantKind(t, err, world.KindBadRequest)
		if world.Message(err) == "" {
			t.Fatal("no message")
		}
		absent(t, s, c.Objects[0].Hash)
		same(t, "receipt", must(s.Invocation(ctx, first.Invocation))(t), receipt)
	})
	t.Run("a commit that did not land frees its id", func(t *testing.T) {
		c := NextCommit(head, "retried")
		c.Invocation, c.Digest, c.Credential, c.ObservedHead = "rest:retried", ref("retried"), ref("some session"), ref("stale")
		_, err := s.Commit(ctx, c)
		wantConflict(t, err, ref("stale"), head.World)
		same(t, "receipt", must(s.Invocation(ctx, c.Invocation))(t), store.Invocation{ID: c.Invocation})
		c.Digest, c.ObservedHead, c.Objects[0].Hash = ref("broken"), head.World, ref("broken")
		_, err = s.Commit(ctx, c)
		wantKind(t, err, world.KindInternal)
		same(t, "receipt", must(s.Invocation(ctx, c.Invocation))(t), store.Invocation{ID: c.Invocation})
		c = NextCommit(head, "retried")
		c.Invocation, c.Digest, c.Credential = "rest:retried", ref("for good"), ref("another session")
		must(s.Commit(ctx, c))(t)
		same(t, "receipt", must(s.Invocation(ctx, c.Invocation))(t), store.Invocation{
			ID: c.Invocation, State: store.StateCommitted, Digest: c.Digest, Credential: c.Credential, EntryIndex: head.Next, World: c.NextWorld.Ref})
	})
	t.Run("nothing stays unresolved", func(t *testing.T) {
		same(t, "unresolved", unresolved(t, s, 10), []store.Invocation(nil))
	})
	t.Run("replay after reopening", func(t *testing.T) {
		s.reopen(t)
		if c := must(s.Commit(ctx, first))(t); !c.Replayed {
			t.Fatalf("%+v", c)
		}
	})
}
