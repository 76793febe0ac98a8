package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func testRegistry(t *testing.T, o Opener) {
	s := open(t, o)
	names := []string{"world/test-registry/v1", "", "odd \x00\xff näme", strings.Repeat("n", store.MaxText)}
	first := world.NewObject("test/registry", "me", []byte("first"))
	second := world.NewObject("test/registry", "me", []byte("second"))
	for _, name := range names {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			_, err := s.RegistryHead(ctx, name)
			wantKind(t, err, world.KindNotFound)
			_, err = s.SwapRegistry(ctx, name, ref("x"), first.Hash, []world.Object{first})
			wantConflict(t, err, ref("x"), hashref.None)
			one := store.RegistryHead{Name: name, Head: first.Hash, Revision: 1}
			same(t, "first", must(s.SwapRegistry(ctx, name, hashref.None, first.Hash, []world.Object{first}))(t), one)
			same(t, "head", must(s.RegistryHead(ctx, name))(t), one)
			same(t, "object", must(s.ObjectMeta(ctx, first.Hash))(t), first.ObjectMeta)
			lost := world.NewObject("test", "", []byte("lost "+name))
			_, err = s.SwapRegistry(ctx, name, hashref.None, lost.Hash, []world.Object{lost})
			wantConflict(t, err, hashref.None, first.Hash)
			absent(t, s, lost.Hash)
			same(t, "head", must(s.RegistryHead(ctx, name))(t), one)
			two := store.RegistryHead{Name: name, Head: second.Hash, Revision: 2}
			same(t, "second", must(s.SwapRegistry(ctx, name, first.Hash, second.Hash, []world.Object{second}))(t), two)
			three := store.RegistryHead{Name: name, Head: first.Hash, Revision: 3}
			same(t, "back again", must(s.SwapRegistry(ctx, name, second.Hash, first.Hash, nil))(t), three)
			same(t, "head", must(s.RegistryHead(ctx, name))(t), three)
		})
	}
	t.Run("a head must be a reference, and objects must be whole", func(t *testing.T) {
		_, err := s.SwapRegistry(ctx, "none", hashref.None, hashref.None, nil)
		wantKind(t, err, world.KindBadRequest)
		bad := first
		bad.Hash = ref("other")
		_, err = s.SwapRegistry(ctx, "bad", hashref.None, bad.Hash, []world.Object{bad})
		wantKind(t, err, world.KindInternal)
		_, err = s.RegistryHead(ctx, "bad")
		wantKind(t, err, world.KindNotFound)
	})
	t.Run("after reopening", func(t *testing.T) {
		s.reopen(t)
		for _, name := range names {
			same(t, "head", must(s.RegistryHead(ctx, name))(t), store.RegistryHead{Name: name, Head: first.Hash, Revision: 3})
		}
	})
}

func testSessions(t *testing.T, o Opener) {
	s := open(t, o)
	a := session("a", "ep-a")
	t.Run("kept as minted", func(t *testing.T) {
		ok(t, s.PutSession(ctx, a))
		same(t, "session", must(s.Session(ctx, a.ID))(t), a)
	})
	t.Run("an id is minted once", func(t *testing.T) {
		again := session("a", "ep-other")
		wantKind(t, s.PutSession(ctx, again), world.KindBadRequest)
		same(t, "session", must(s.Session(ctx, a.ID))(t), a)
	})
	t.Run("an absent one", func(t *testing.T) {
		_, err := s.Session(ctx, ref("absent"))
		wantKind(t, err, world.KindNotFound)
		wantKind(t, s.RevokeSession(ctx, ref("absent")), world.KindNotFound)
	})
	t.Run("moments to the nanosecond, wherever the clock stood", func(t *testing.T) {
		odd := session("odd", "ep-odd")
		odd.Grants = nil
		odd.Created = time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)
		odd.Expires = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.FixedZone("far", -3600)).Add(-2 * time.Hour)
		ok(t, s.PutSession(ctx, odd))
		got := must(s.Session(ctx, odd.ID))(t)
		if !got.Created.Equal(odd.Created) || !got.Expires.Equal(odd.Expires) || got.Created.Location() != time.UTC {
			t.Fatalf("%v %v", got.Created, got.Expires)
		}
	})
	var all []world.Session
	t.Run("listed in order of minting", func(t *testing.T) {
		all = append(all, a, must(s.Session(ctx, ref("session odd")))(t))
		for i := range 17 {
			ses := session(fmt.Sprint("m", i), fmt.Sprint("ep-", i%2))
			ok(t, s.PutSession(ctx, ses))
			all = append(all, ses)
		}
		same(t, "all", must(s.Sessions(ctx, "", hashref.None, 100))(t), all)
		var paged, even []world.Session
		for after := hashref.None; ; after = paged[len(paged)-1].ID {
			page := must(s.Sessions(ctx, "", after, 4))(t)
			if paged = append(paged, page...); len(page) < 4 {
				break
			}
		}
		same(t, "by pages", paged, all)
		for _, ses := range all {
			if ses.Episode == "ep-0" {
				even = append(even, ses)
			}
		}
		same(t, "of an episode", must(s.Sessions(ctx, "ep-0", hashref.None, 100))(t), even)
		same(t, "of an episode, after", must(s.Sessions(ctx, "ep-0", even[2].ID, 2))(t), even[3:5])
		if list := must(s.Sessions(ctx, "ep", hashref.None, 100))(t); len(list) != 0 {
			t.Fatalf("%v", list)
		}
		_, err := s.Sessions(ctx, "", ref("absent"), 100)
		wantKind(t, err, world.KindNotFound)
	})
	t.Run("revoked ones stay, and stay so", func(t *testing.T) {
		ok(t, s.RevokeSession(ctx, all[2].ID))
		ok(t, s.RevokeSession(ctx, all[2].ID))
		all[2].Revoked = true
		same(t, "session", must(s.Session(ctx, all[2].ID))(t), all[2])
	})
	t.Run("an episode is revoked at once", func(t *testing.T) {
		same(t, "revoked", must(s.RevokeEpisode(ctx, "ep-0"))(t), 8)
		same(t, "revoked again", must(s.RevokeEpisode(ctx, "ep-0"))(t), 0)
		same(t, "of nobody", must(s.RevokeEpisode(ctx, "ep-nobody"))(t), 0)
		for i := range all {
			all[i].Revoked = all[i].Revoked || all[i].Episode == "ep-0"
		}
		same(t, "all", must(s.Sessions(ctx, "", hashref.None, 100))(t), all)
	})
	t.Run("an episode of more than a page", func(t *testing.T) {
		for i := range store.MaxPage + 3 {
			ok(t, s.PutSession(ctx, session(fmt.Sprint("big ", i), "ep-big")))
		}
		same(t, "revoked", must(s.RevokeEpisode(ctx, "ep-big"))(t), store.MaxPage+3)
	})
	t.Run("after reopening", func(t *testing.T) {
		s.reopen(t)
		same(t, "all", must(s.Sessions(ctx, "", hashref.None, len(all)))(t), all)
	})
}

func testReferrers(t *testing.T, o Opener) {
	s := open(t, o)
	g := must(s.Commit(ctx, Genesis()))(t)
	target := world.NewObject("test/target", "", []byte("target"))
	text := func(format string, args ...any) world.Object {
		return world.NewObject("test/text", "", fmt.Appendf(nil, format, args...))
	}
	twice := text(`{"a":"%s","b":"%[1]s"}`, target.Hash)
	upper := text("sha256:%s", strings.ToUpper(target.Hash.Hex()))
	cut := text("sha256:%s", target.Hash.Hex()[:63])
	glued := text("sha256:sha256:%s%s", target.Hash.Hex(), target.Hash)
	none := text("%s", target.Hash.Hex())
	ok(t, s.PutObjects(ctx, []world.Object{twice, upper, cut, none, glued}))
	ok(t, s.PutObjects(ctx, []world.Object{target, twice}))
	a := Call("refers")
	a.TransitionRef, a.StateRoot, a.TransitionFn = target.Hash, target.Hash, target.Hash
	a.Objects = nil
	c := must(s.Append(ctx, a))(t)
	must(s.SwapRegistry(ctx, "reg", hashref.None, target.Hash, nil))(t)
	last := text("last %s", target.Hash)
	ok(t, s.PutObjects(ctx, []world.Object{last}))

	want := []store.Referrer{
		{Kind: store.ReferrerObject, Ref: twice.Hash},
		{Kind: store.ReferrerObject, Ref: glued.Hash},
		{Kind: store.ReferrerEntry, Index: 1},
		{Kind: store.ReferrerWorld, Ref: c.World.Ref},
		{Kind: store.ReferrerRegistry, Ref: target.Hash, Name: "reg"},
		{Kind: store.ReferrerObject, Ref: last.Hash},
	}
	check := func(t *testing.T, limit int) {
		var got []store.Referrer
		var after int64
		for {
			page := must(s.Referrers(ctx, target.Hash, after, limit))(t)
			for _, r := range page {
				if r.Seq <= after {
					t.Fatalf("place %d after %d", r.Seq, after)
				}
				after, r.Seq = r.Seq, 0
				got = append(got, r)
			}
			if len(page) < limit {
				break
			}
		}
		same(t, "referrers", got, want)
	}
	t.Run("each once, in order of writing", func(t *testing.T) { check(t, 100) })
	t.Run("by pages", func(t *testing.T) { check(t, 1); check(t, 4) })
	t.Run("an entry names the one before it, and its world names it", func(t *testing.T) {
		list := must(s.Referrers(ctx, g.Entry.EntryHash, 0, 10))(t)
		if len(list) != 2 || list[0].Kind != store.ReferrerWorld || list[0].Ref != g.World.Ref || list[1].Kind != store.ReferrerEntry || list[1].Index != 1 {
			t.Fatalf("%+v", list)
		}
	})
	t.Run("what nothing names", func(t *testing.T) {
		if list := must(s.Referrers(ctx, ref("nobody"), 0, 10))(t); len(list) != 0 {
			t.Fatalf("%+v", list)
		}
	})
	t.Run("of one payload so many are indexed and no more", func(t *testing.T) {
		var b strings.Builder
		for i := range store.MaxRefs + 1 {
			fmt.Fprintf(&b, "%s %s\n", ref(fmt.Sprint("r", i)), ref("r0"))
		}
		ok(t, s.PutObjects(ctx, []world.Object{text("%s", b.String())}))
		for i, n := range map[int]int{0: 1, store.MaxRefs - 1: 1, store.MaxRefs: 0} {
			if list := must(s.Referrers(ctx, ref(fmt.Sprint("r", i)), 0, 10))(t); len(list) != n {
				t.Fatalf("reference %d has %d referrers", i, len(list))
			}
		}
	})
	s.reopen(t)
	t.Run("after reopening", func(t *testing.T) { check(t, 2) })
}

func testEpisodes(t *testing.T, o Opener) {
	s := open(t, o)
	must(s.Commit(ctx, Genesis()))(t)
	want := map[string][]int64{}
	for i := range 30 {
		a := Call(fmt.Sprint("episodes", i))
		episode := []string{"one", "two", "one-more"}[i%3]
		if a.Invocation = world.AgentInvocation(episode, fmt.Sprint(i)); i%2 == 0 {
			a.Invocation = world.TaskInvocation(episode, fmt.Sprint(i))
		}
		c := must(s.Append(ctx, a))(t)
		want[episode] = append(want[episode], c.Entry.Header.EntryIndex)
	}
	ok(t, s.PutObjects(ctx, []world.Object{world.NewObject("test/text", "", []byte("a2a:one:none"))}))
	must(s.IntendEffect(ctx, Intent(world.AgentInvocation("two", "open"), "e1", 1, 1000)))(t)

	walk := func(t *testing.T, episode string, back bool, limit int) (all []int64) {
		t.Helper()
		place := int64(0)
		if back {
			place = must(s.Head(ctx))(t).Next
		}
		for {
			page := must(s.EpisodeEntries(ctx, episode, place, back, limit))(t)
			all = append(all, page...)
			if len(page) < limit {
				return all
			}
			if place = page[len(page)-1]; !back {
				place++
			}
		}
	}
	check := func(t *testing.T) {
		for episode, indexes := range want {
			for _, limit := range []int{1, 3, 10, 100} {
				same(t, episode, walk(t, episode, false, limit), indexes)
				newest := slices.Clone(indexes)
				slices.Reverse(newest)
				same(t, episode+" back", walk(t, episode, true, limit), newest)
			}
		}
		mid := want["two"][5]
		same(t, "from a place", must(s.EpisodeEntries(ctx, "two", mid, false, 2))(t), want["two"][5:7])
		same(t, "before a place", must(s.EpisodeEntries(ctx, "two", mid, true, 1))(t), want["two"][4:5])
		for _, none := range []string{"on", "open", "", "one:none"} {
			if got := must(s.EpisodeEntries(ctx, none, 0, false, 10))(t); len(got) != 0 {
				t.Errorf("%q has %v", none, got)
			}
		}
		if got := must(s.EpisodeEntries(ctx, "one", 0, true, 10))(t); len(got) != 0 {
			t.Errorf("before the first: %v", got)
		}
	}
	t.Run("both ways, by pages", check)
	s.reopen(t)
	t.Run("after reopening", check)
}
