package storetest

import (
	"strings"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func corrupter(t *testing.T, o Opener) Corrupter {
	c, can := o.(Corrupter)
	if !can {
		t.Skip("this backend cannot damage its rows")
	}
	return c
}

// damaged opens a store with one of everything, and gives what is newest in it.
func damaged(t *testing.T, o Opener) (store.Store, store.Append) {
	s := o.Open(t)
	t.Cleanup(func() { ok(t, s.Close()) })
	begin(t, s, 3)
	ok(t, s.PutSession(ctx, session("damaged", "ep")))
	must(s.SwapRegistry(ctx, "damaged", hashref.None, ref("head"), nil))(t)
	must(s.IntendEffect(ctx, Intent("a2a:ep:effect", "e1", 1, 1000)))(t)
	a := Call("damaged")
	must(s.Append(ctx, a))(t)
	return s, a
}

// byNameAlone lists by semantic id, after it saw that all else goes on.
func byNameAlone(s store.Store, a store.Append) error {
	next := a
	next.Invocation = a.Invocation + " and more"
	for range 20 {
		next.Invocation += "."
		if _, err := s.Append(ctx, next); err != nil {
			return err
		}
	}
	if _, err := s.Object(ctx, a.TransitionRef); err != nil {
		return err
	}
	_, err := s.ObjectsBySemanticID(ctx, world.SemInput, hashref.None, 10)
	return err
}

func testIntegrity(t *testing.T, fresh func(*testing.T) Opener) {
	cases := []struct {
		damage Damage
		kind   world.Kind
		names  string // part of the subject
		read   func(store.Store, store.Append) error
	}{
		{DamagePayload, world.KindIntegrity, "objects row", func(s store.Store, a store.Append) error {
			if _, err := s.ObjectMeta(ctx, a.TransitionRef); err != nil {
				return err // the metadata is whole
			}
			_, err := s.Object(ctx, a.TransitionRef)
			return err
		}},
		{DamageObject, world.KindIntegrity, "objects row", func(s store.Store, a store.Append) error {
			_, err := s.ObjectMeta(ctx, a.TransitionRef)
			return err
		}},
		{DamageEntry, world.KindIntegrity, "entries row", func(s store.Store, a store.Append) error {
			h := must(s.Head(ctx))(t)
			if _, err := s.World(ctx, h.World); world.KindOf(err) != world.KindIntegrity {
				t.Errorf("World: %v", err)
			}
			if _, err := s.Entries(ctx, 0, 100); world.KindOf(err) != world.KindIntegrity {
				t.Errorf("Entries: %v", err)
			}
			_, err := s.Entry(ctx, h.Next-1)
			return err
		}},
		{DamageJournal, world.KindIntegrity, "journal row", func(s store.Store, a store.Append) error {
			again := a
			again.Objects = nil
			if _, err := s.Append(ctx, again); world.KindOf(err) != world.KindIntegrity {
				t.Errorf("Append: %v", err)
			}
			_, err := s.Invocation(ctx, a.Invocation)
			return err
		}},
		{DamageRegistry, world.KindIntegrity, "registry row", func(s store.Store, a store.Append) error {
			_, err := s.RegistryHead(ctx, "damaged")
			return err
		}},
		{DamageSession, world.KindIntegrity, "sessions row", func(s store.Store, a store.Append) error {
			_, err := s.Session(ctx, ref("session damaged"))
			return err
		}},
		{DamageSpend, world.KindIntegrity, "spend row", func(s store.Store, a store.Append) error {
			if _, err := s.IntendEffect(ctx, Intent("a2a:ep:more", "e1", 1, 1000)); world.KindOf(err) != world.KindIntegrity {
				t.Errorf("IntendEffect: %v", err)
			}
			_, err := s.Spent(ctx, "ep", "Workspace.Read", "worktree")
			return err
		}},
		{DamageRefs, world.KindIntegrity, "refs", func(s store.Store, a store.Append) error {
			_, err := s.Referrers(ctx, must(s.Head(ctx))(t).LogHead, 0, 10)
			return err
		}},
		{DamageRefsLost, world.KindIndexMissing, "", func(s store.Store, a store.Append) error {
			_, err := s.Referrers(ctx, a.StateRoot, 0, 10)
			return err
		}},
		{DamageNamesLost, world.KindIndexMissing, "", byNameAlone},
		{DamageNames, world.KindIndexMissing, "", byNameAlone},
		{DamageEpisodes, world.KindIndexMissing, "", func(s store.Store, a store.Append) error {
			_, err := s.EpisodeEntries(ctx, a.Invocation.Episode(), 0, false, 10)
			return err
		}},
		{DamageHashes, world.KindIntegrity, "index", func(s store.Store, a store.Append) error {
			if err := s.PutObjects(ctx, a.Objects); world.KindOf(err) != world.KindIntegrity {
				t.Errorf("PutObjects: %v", err)
			}
			_, err := s.ObjectMeta(ctx, a.TransitionRef)
			return err
		}},
		{DamageCalls, world.KindIntegrity, "index", func(s store.Store, a store.Append) error {
			if _, err := s.Append(ctx, a); world.KindOf(err) != world.KindIntegrity {
				t.Errorf("Append: %v", err)
			}
			_, err := s.Invocation(ctx, a.Invocation)
			return err
		}},
		{DamageHead, world.KindIntegrity, "head row", func(s store.Store, a store.Append) error {
			if err := s.PutObjects(ctx, a.Objects); world.KindOf(err) != world.KindIntegrity {
				t.Errorf("PutObjects: %v", err)
			}
			_, err := s.Head(ctx)
			return err
		}},
	}
	for _, tc := range cases {
		t.Run(string(tc.damage), func(t *testing.T) {
			o := fresh(t)
			s, a := damaged(t, o)
			corrupter(t, o).Corrupt(t, tc.damage)
			err := tc.read(s, a)
			wantKind(t, err, tc.kind)
			if !strings.Contains(err.Error(), tc.names) {
				t.Fatalf("%v does not name %s", err, tc.names)
			}
		})
	}
}

func testScan(t *testing.T, o Opener) {
	c := corrupter(t, o)
	s := o.Open(t)
	t.Cleanup(func() { ok(t, s.Close()) })
	begin(t, s, 200)
	scan := func(max int) (holes []store.Hole) {
		done, err := s.Scan(ctx, max, func(h store.Hole) { holes = append(holes, h) })
		if err != nil || !done {
			t.Fatalf("Scan: done %v, %v", done, err)
		}
		return holes
	}
	newest := Call("call 199")
	t.Run("whole", func(t *testing.T) {
		for _, max := range []int{-1, 0, 1, 100, 1000, 1 << 40} {
			same(t, "holes", scan(max), []store.Hole(nil))
		}
	})
	wants := func(max int, whats ...string) {
		t.Helper()
		var got []string
		for _, h := range scan(max) {
			if h.Reason == "" {
				t.Errorf("%s without a reason", h.What)
			}
			got = append(got, h.What)
		}
		same(t, "holes", got, whats)
	}
	t.Run("a payload", func(t *testing.T) {
		c.Corrupt(t, DamagePayload)
		wants(1000, "object "+newest.TransitionRef.String())
	})
	t.Run("an object lost", func(t *testing.T) {
		c.Corrupt(t, DamageObjectLost)
		wants(1000, "object "+newest.TransitionRef.String())
	})
	t.Run("a link, by one who can compute checksums", func(t *testing.T) {
		must(s.Append(ctx, Call("one")))(t)
		c.Corrupt(t, DamageEntryHash)
		wants(1, "entry 201", "entry 201")
		must(s.Append(ctx, Call("two")))(t)
		wants(1)
		wants(2, "entry 201", "entry 201")
		wants(3, "entry 201", "entry 201", "object "+newest.TransitionRef.String())
	})
	t.Run("a row", func(t *testing.T) {
		c.Corrupt(t, DamageEntry)
		wants(1, "entry 202")
	})
	t.Run("an entry lost", func(t *testing.T) {
		c.Corrupt(t, DamageEntryLost)
		wants(1, "entry 202")
	})
	t.Run("the head", func(t *testing.T) {
		c.Corrupt(t, DamageHead)
		wants(1, "head")
	})
}
