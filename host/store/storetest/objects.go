package storetest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func testObjects(t *testing.T, o Opener) {
	s := open(t, o)
	if s.ID() == "" {
		t.Fatal("a store without an id")
	}
	objects := []world.Object{
		world.NewObject("test/empty", "me", nil),
		world.NewObject("", "", []byte("no names")),
		world.NewObject("test/odd \x00\xff\xfe näme", "q'u\"o;te\x00", []byte("odd names")),
		world.NewObject("test/binary", "me", bytes.Repeat([]byte{0, 0xff, '\n'}, 10_000)),
		{ObjectMeta: world.ObjectMeta{Hash: ref("no interface"), SemanticID: "test/none"}, Payload: []byte("no interface")},
	}
	t.Run("stored as given", func(t *testing.T) {
		ok(t, s.PutObjects(ctx, objects))
		for _, want := range objects {
			got := must(s.Object(ctx, want.Hash))(t)
			same(t, "metadata", got.ObjectMeta, want.ObjectMeta)
			if !bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("payload of %s: %d bytes, want %d", want.Hash, len(got.Payload), len(want.Payload))
			}
			same(t, "metadata alone", must(s.ObjectMeta(ctx, want.Hash))(t), want.ObjectMeta)
		}
	})
	t.Run("an absent one is not found", func(t *testing.T) {
		_, err := s.Object(ctx, ref("absent"))
		wantKind(t, err, world.KindNotFound)
		_, err = s.ObjectMeta(ctx, ref("absent"))
		wantKind(t, err, world.KindNotFound)
		_, err = s.Object(ctx, hashref.None)
		wantKind(t, err, world.KindNotFound)
	})
	t.Run("the first metadata wins", func(t *testing.T) {
		first := world.NewObject("test/first", "first", []byte("twice"))
		second := world.NewObject("test/second", "second", []byte("twice"))
		ok(t, s.PutObjects(ctx, []world.Object{first, second}))
		ok(t, s.PutObjects(ctx, []world.Object{second}))
		same(t, "metadata", must(s.ObjectMeta(ctx, first.Hash))(t), first.ObjectMeta)
		if list := must(s.ObjectsBySemanticID(ctx, "test/second", hashref.None, 10))(t); len(list) != 0 {
			t.Fatalf("listed under its second name: %v", list)
		}
	})
	t.Run("a wrong hash is refused, and the whole write with it", func(t *testing.T) {
		good := world.NewObject("test", "", []byte("good"))
		bad := world.NewObject("test", "", []byte("bad"))
		bad.Hash = ref("other")
		wantKind(t, s.PutObjects(ctx, []world.Object{good, bad}), world.KindInternal)
		absent(t, s, good.Hash, bad.Hash)
	})
	t.Run("nothing is a write too", func(t *testing.T) { ok(t, s.PutObjects(ctx, nil)) })
	t.Run("they are there after reopening", func(t *testing.T) {
		id := s.ID()
		s.reopen(t)
		same(t, "id", s.ID(), id)
		for _, want := range objects {
			same(t, "metadata", must(s.Object(ctx, want.Hash))(t).ObjectMeta, want.ObjectMeta)
		}
	})
}

// absent fails the test if one of the objects is there.
func absent(t testing.TB, s store.Reader, refs ...world.Ref) {
	t.Helper()
	for _, r := range refs {
		_, err := s.ObjectMeta(ctx, r)
		wantKind(t, err, world.KindNotFound)
	}
}

func testSemanticIDs(t *testing.T, o Opener) {
	s := open(t, o)
	const total = 1203
	var objects []world.Object
	var want []world.Ref
	for i := range total {
		obj := world.NewObject("test/many", "me", []byte(strings.Repeat("x", i)))
		objects = append(objects, obj, world.NewObject("test/manx", "me", []byte(strings.Repeat("y", i+1))))
		want = append(want, obj.Hash)
	}
	slices.SortFunc(want, world.Ref.Compare)
	ok(t, s.PutObjects(ctx, objects))
	for name, limit := range map[string]int{"one by one and more": 7, "the largest page": store.MaxPage, "a larger limit is capped": 10_000} {
		t.Run(name, func(t *testing.T) {
			var got []world.Ref
			after := hashref.None
			for {
				page := must(s.ObjectsBySemanticID(ctx, "test/many", after, limit))(t)
				if len(page) > min(limit, store.MaxPage) {
					t.Fatalf("a page of %d, limit %d", len(page), limit)
				}
				if len(page) == 0 {
					break
				}
				for _, m := range page {
					if m.SemanticID != "test/many" {
						t.Fatalf("listed %q", m.SemanticID)
					}
					got = append(got, m.Hash)
				}
				after = got[len(got)-1]
			}
			same(t, "hashes in ascending order", got, want)
		})
	}
	t.Run("a name that nothing has is an empty page", func(t *testing.T) {
		if page := must(s.ObjectsBySemanticID(ctx, "test/man", hashref.None, 10))(t); len(page) != 0 {
			t.Fatalf("%v", page)
		}
	})
	t.Run("after a hash that is not there", func(t *testing.T) {
		page := must(s.ObjectsBySemanticID(ctx, "test/many", hashref.Zero, 1))(t)
		same(t, "first", page[0].Hash, want[0])
	})
	t.Run("names are compared as bytes", func(t *testing.T) {
		for _, id := range []string{"n", "n\x00", "n\x00m", "N", "ñ", "n\xff"} {
			ok(t, s.PutObjects(ctx, []world.Object{world.NewObject(id, "", []byte("payload of "+id))}))
		}
		for _, id := range []string{"n", "n\x00", "n\x00m", "N", "ñ", "n\xff"} {
			page := must(s.ObjectsBySemanticID(ctx, id, hashref.None, 10))(t)
			if len(page) != 1 || page[0].SemanticID != id {
				t.Fatalf("%q lists %v", id, page)
			}
		}
	})
}

func testBounds(t *testing.T, o Opener) {
	s := open(t, o)
	head := begin(t, s, 1)
	long := strings.Repeat("x", store.MaxText+1)
	small := world.NewObject("test", "", []byte("beside a large one"))
	large := world.NewObject("test", "", make([]byte, store.MaxPayload+1))
	many := make([]world.Object, store.MaxBatchObjects+1)
	for i := range many {
		many[i] = small
	}
	writes := map[string]func([]world.Object) error{
		"PutObjects": func(objs []world.Object) error { return s.PutObjects(ctx, objs) },
		"Append": func(objs []world.Object) error {
			a := Call("bounds")
			a.Objects = append(a.Objects, objs...)
			_, err := s.Append(ctx, a)
			return err
		},
		"Commit": func(objs []world.Object) error {
			c := NextCommit(head, "bounds")
			c.Objects = append(c.Objects, objs...)
			_, err := s.Commit(ctx, c)
			return err
		},
		"SwapRegistry": func(objs []world.Object) error {
			_, err := s.SwapRegistry(ctx, "bounds", hashref.None, small.Hash, objs)
			return err
		},
	}
	for name, write := range writes {
		for what, objs := range map[string][]world.Object{
			"payload":     {small, large},
			"objects":     many,
			"semantic id": {small, world.NewObject(long, "", []byte("s"))},
			"provenance":  {small, world.NewObject("test", long, []byte("p"))},
		} {
			t.Run(name+" with too large "+what+" stores nothing", func(t *testing.T) {
				wantKind(t, write(objs), world.KindTooLarge)
				absent(t, s, small.Hash)
				same(t, "head", must(s.Head(ctx))(t), head)
			})
		}
	}
	t.Run("texts", func(t *testing.T) {
		a := Call("texts")
		a.WrittenBy = long
		_, err := s.Append(ctx, a)
		wantKind(t, err, world.KindTooLarge)
		a = Call("texts")
		a.Invocation = world.InvocationID(long)
		_, err = s.Append(ctx, a)
		wantKind(t, err, world.KindTooLarge)
		c := NextCommit(head, "texts")
		c.Invocation = world.InvocationID(long)
		_, err = s.Commit(ctx, c)
		wantKind(t, err, world.KindTooLarge)
		c = NextCommit(head, "texts")
		c.Entry.Header.WrittenBy = long
		_, err = s.Commit(ctx, c)
		wantKind(t, err, world.KindTooLarge)
		_, err = s.SwapRegistry(ctx, long, hashref.None, small.Hash, nil)
		wantKind(t, err, world.KindTooLarge)
		_, err = s.IntendEffect(ctx, Intent(world.InvocationID(long), "e1", 1, 1))
		wantKind(t, err, world.KindTooLarge)
		absent(t, s, a.TransitionRef, small.Hash)
	})
	t.Run("the largest are stored", func(t *testing.T) {
		name := strings.Repeat("n", store.MaxText)
		full := world.NewObject(name, name, make([]byte, store.MaxPayload))
		ok(t, s.PutObjects(ctx, []world.Object{full}))
		if got := must(s.Object(ctx, full.Hash))(t); len(got.Payload) != store.MaxPayload || got.SemanticID != name {
			t.Fatalf("%d bytes", len(got.Payload))
		}
	})
	t.Run("as many objects as may be", func(t *testing.T) {
		ok(t, s.PutObjects(ctx, many[1:]))
	})
}
