package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func keep(i int, ends time.Time, body string) store.Kept {
	return store.Kept{Kind: "task", Key: hashref.SumString(fmt.Sprint("kept ", i)), Expires: ends, Body: []byte(body)}
}

// bare is something kept without its place.
func bare(k store.Kept) store.Kept {
	k.Place = 0
	return k
}

func testKept(t *testing.T, o Opener) {
	ctx := context.Background()
	s := open(t, o)
	at := time.UnixMilli(1_900_000_000_123).UTC()
	_, err := s.Kept(ctx, "task", keep(0, at, "").Key)
	wantKind(t, err, world.KindNotFound)
	first := must(s.Keep(ctx, keep(0, at, "one"), false))(t)
	same(t, "kept", bare(first), keep(0, at, "one"))
	same(t, "kept twice", must(s.Keep(ctx, keep(0, at.Add(time.Hour), "two"), false))(t), first)
	replaced := must(s.Keep(ctx, keep(0, at.Add(time.Hour), "two"), true))(t)
	same(t, "replaced", bare(replaced), keep(0, at.Add(time.Hour), "two"))
	if replaced.Place != first.Place {
		t.Errorf("replaced at %d, kept at %d", replaced.Place, first.Place)
	}
	other := keep(0, at, "of another kind")
	other.Kind = "token"
	must(s.Keep(ctx, other, false))(t)
	for i := 1; i < 5; i++ {
		must(s.Keep(ctx, keep(i, at.Add(time.Duration(i)*time.Minute), fmt.Sprint("body ", i)), false))(t)
	}
	s.reopen(t)
	same(t, "read", must(s.Kept(ctx, "task", first.Key))(t), replaced)
	same(t, "of the other kind", bare(must(s.Kept(ctx, "token", first.Key))(t)), other)

	var paged []string
	for after := int64(0); ; {
		page := must(s.KeptAll(ctx, "task", after, 2))(t)
		for _, k := range page {
			paged, after = append(paged, string(k.Body)), k.Place
		}
		if len(page) < 2 {
			break
		}
	}
	same(t, "paged", paged, []string{"two", "body 1", "body 2", "body 3", "body 4"})

	ok(t, s.DropKept(ctx, "task", keep(4, at, "").Key))
	wantKind(t, s.DropKept(ctx, "task", keep(4, at, "").Key), world.KindNotFound)

	// What ended goes, the first that ended first, never more than the limit at once.
	same(t, "nothing ended", must(s.SweepKept(ctx, at.Add(-time.Millisecond), 10))(t), 0)
	same(t, "swept", must(s.SweepKept(ctx, at.Add(2*time.Minute), 2))(t), 2) // the token, and the task of the first minute
	_, err = s.Kept(ctx, "token", first.Key)
	wantKind(t, err, world.KindNotFound)
	same(t, "swept", must(s.SweepKept(ctx, at.Add(2*time.Minute), 2))(t), 1)
	same(t, "left", len(must(s.KeptAll(ctx, "task", 0, 0))(t)), 2)
	same(t, "log", len(CheckLog(t, s)), 0)
}

func testKeptBounds(t *testing.T, o Opener) {
	ctx := context.Background()
	s := open(t, o)
	for _, c := range []struct {
		name   string
		change func(*store.Kept)
		kind   world.Kind
	}{
		{"no kind", func(k *store.Kept) { k.Kind = "" }, world.KindBadRequest},
		{"long kind", func(k *store.Kept) { k.Kind = strings.Repeat("k", store.MaxKind+1) }, world.KindBadRequest},
		{"no key", func(k *store.Kept) { k.Key = hashref.None }, world.KindBadRequest},
		{"large", func(k *store.Kept) { k.Body = make([]byte, store.MaxPayload+1) }, world.KindTooLarge},
	} {
		k := keep(0, time.UnixMilli(1), "")
		c.change(&k)
		_, err := s.Keep(ctx, k, true)
		if world.KindOf(err) != c.kind {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// testKeptRace keeps one key from many sides: one is the first, and all are told of it.
func testKeptRace(t *testing.T, o Opener) {
	s := open(t, o)
	const callers = 32
	got := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			k, err := s.Keep(context.Background(), keep(0, time.UnixMilli(1e13), fmt.Sprint("from ", i)), false)
			if err != nil {
				t.Error(err)
			}
			got[i] = string(k.Body)
		})
	}
	wg.Wait()
	for i := range got {
		if got[i] != got[0] || got[i] == "" {
			t.Fatalf("caller %d was told of %q, the first of %q", i, got[i], got[0])
		}
	}
}
