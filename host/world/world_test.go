package world

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/hashref"
)

func TestParseGrant(t *testing.T) {
	for in, want := range map[string]Grant{
		"Workspace.Read=worktree:100": {"Workspace.Read", "worktree", 100},
		"Model.Infer=host:port/x:0":   {"Model.Infer", "host:port/x", 0},
		"E=s:9007199254740991":        {"E", "s", hashref.MaxInt},
	} {
		g, err := ParseGrant(in)
		if err != nil || g != want || g.String() != in {
			t.Errorf("ParseGrant(%q) = %v, %v", in, g, err)
		}
	}
	for _, in := range []string{"", "Workspace.Read", "Workspace.Read=worktree", "=s:1", "E=:1", "E=s:-1", "E=s:x",
		"E=s:9007199254740992", "E.=s:1", "E=s\x00:1", "E=" + strings.Repeat("s", MaxScope+1) + ":1", strings.Repeat("E", MaxEffectName+1) + "=s:1", "E=s:"} {
		if g, err := ParseGrant(in); err == nil {
			t.Errorf("ParseGrant(%q) took it as %v", in, g)
		}
	}
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Session{Expires: now.Add(time.Hour), Grants: []Grant{
		{"Workspace.Read", "worktree", 3}, {"Workspace.Read", "worktree", 4}, {"Workspace.Read", "other", 1}, {"Git.Read", "worktree", 0}}}
	for _, c := range []struct {
		name  string
		need  Need
		spent int64
		at    time.Time
		want  Denial
		left  int64
	}{
		{"two grants add up", Need{Effect: "Workspace.Read", Scope: "worktree", Cost: 7}, 0, now, "", 7},
		{"exactly what is left", Need{Effect: "Workspace.Read", Scope: "worktree", Cost: 2}, 5, now, "", 7},
		{"one more than is left", Need{Effect: "Workspace.Read", Scope: "worktree", Cost: 3}, 5, now, DeniedBudget, 7},
		{"overspent", Need{Effect: "Workspace.Read", Scope: "worktree", Cost: 0}, 8, now, DeniedBudget, 7},
		{"free in an empty budget", Need{Effect: "Git.Read", Scope: "worktree", Cost: 0}, 0, now, "", 0},
		{"effect not granted", Need{Effect: "Workspace.Write", Scope: "worktree", Cost: 1}, 0, now, DeniedEffect, 0},
		{"effect name is exact", Need{Effect: "workspace.read", Scope: "worktree", Cost: 1}, 0, now, DeniedEffect, 0},
		{"scope not granted", Need{Effect: "Git.Read", Scope: "other", Cost: 0}, 0, now, DeniedScope, 0},
		{"at its end", Need{Effect: "Workspace.Read", Scope: "worktree", Cost: 1}, 0, now.Add(time.Hour), DeniedExpired, 7},
		{"expiry is told before budget", Need{Effect: "Workspace.Read", Scope: "worktree", Cost: 9}, 0, now.Add(time.Hour), DeniedExpired, 7},
		{"no overflow", Need{Effect: "Workspace.Read", Scope: "worktree", Cost: hashref.MaxInt}, hashref.MaxInt, now, DeniedBudget, 7},
	} {
		if got, left := s.Decide(c.need, c.spent, c.at); got != c.want || left != c.left {
			t.Errorf("%s: Decide = %q, %d; want %q, %d", c.name, got, left, c.want, c.left)
		}
	}
	s.Revoked = true
	if got, _ := s.Decide(Need{Effect: "Workspace.Read", Scope: "worktree", Cost: 1}, 0, now); got != DeniedExpired {
		t.Errorf("revoked: %q", got)
	}
	huge := Session{Expires: now.Add(time.Hour), Grants: []Grant{{"E", "s", hashref.MaxInt}, {"E", "s", hashref.MaxInt}}}
	if sum, _, _ := huge.Budget("E", "s"); sum != hashref.MaxInt {
		t.Errorf("grants overflow: %d", sum)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "ep-1": true, "0": true, "": false, "-a": false, "A": false, "a_b": false, "a/b": false,
		strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a\n": false} {
		if (CheckEpisode(name) == nil) != ok {
			t.Errorf("CheckEpisode(%q): %v", name, CheckEpisode(name))
		}
	}
	for id, ok := range map[string]bool{"ailang-read": true, "tools.echo": true, "a/b_c": true, "": false, ".a": false, "a b": false, "é": false,
		strings.Repeat("a", MaxTransitionID+1): false} {
		if (CheckTransitionID(id) == "") != ok {
			t.Errorf("CheckTransitionID(%q) = %q", id, CheckTransitionID(id))
		}
	}
}

func TestHashesOfEntriesAndWorlds(t *testing.T) {
	h := EntryHeader{EntryIndex: 3, SemanticsEpoch: 1, TransitionFn: hashref.SumString("f"), Interpreter: hashref.SumString("i"),
		PrevEntryHash: hashref.SumString("p"), WrittenBy: "coordinator:a2a"}
	tr := hashref.SumString("t")
	want := fmt.Sprintf(`{"entryIndex":3,"interpreter":"%s","prevEntryHash":"%s","semanticsEpoch":1,"transitionFn":"%s","transitionRef":"%s","writtenBy":"coordinator:a2a"}`,
		h.Interpreter, h.PrevEntryHash, h.TransitionFn, tr)
	if got := ComputeEntryHash(h, tr); got != hashref.SumString(want) {
		t.Errorf("ComputeEntryHash is not the hash of %s", want)
	}
	want = fmt.Sprintf(`{"logHead":"%s","revision":3,"stateRoot":"%s"}`, tr, h.Interpreter)
	if got := ComputeWorldRef(3, h.Interpreter, tr); got != hashref.SumString(want) {
		t.Errorf("ComputeWorldRef is not the hash of %s", want)
	}
}

// TestHandMadeTextsAreCanonical holds the texts that are put together by hand to
// hashref.Marshal, for every kind of value, and for those that it refuses.
func TestHandMadeTextsAreCanonical(t *testing.T) {
	refs := []Ref{hashref.None, hashref.Zero, hashref.SumString("x")}
	ints := []int64{0, 1, -1, 10, 1e15, hashref.MaxInt, -hashref.MaxInt, hashref.MaxInt + 1, -hashref.MaxInt - 1, 1<<63 - 1}
	texts := []string{"", "coordinator:mcp", `"\/`, "\x00\x1f\b\t\n\f\r\x7f", "<&>\u2028\u2029", "näme 😀\ufffd", "\xff", "a\xc3"}
	sum := func(v any) (r Ref, panics bool) {
		b, err := hashref.Marshal(v)
		return hashref.Sum(b), err != nil
	}
	try := func(f func() Ref) (r Ref, panics bool) {
		defer func() { panics = recover() != nil }()
		return f(), false
	}
	check := func(want Ref, refused bool, what any, f func() Ref) {
		t.Helper()
		if got, panics := try(f); panics != refused || !refused && got != want {
			t.Errorf("%+v: %v (panics: %v), want %v (panics: %v)", what, got, panics, want, refused)
		}
	}
	for i, n := range ints {
		for j, text := range texts {
			h := EntryHeader{EntryIndex: n, SemanticsEpoch: ints[(i+j)%len(ints)], TransitionFn: refs[i%3], Interpreter: refs[j%3],
				PrevEntryHash: refs[(i+j)%3], WrittenBy: text}
			tr := refs[(i+2*j)%3]
			want, refused := sum(struct {
				EntryHeader
				TransitionRef Ref `json:"transitionRef"`
			}{h, tr})
			check(want, refused, h, func() Ref { return ComputeEntryHash(h, tr) })
		}
		for j, state := range refs {
			head := refs[(i+j)%3]
			want, refused := sum(struct {
				LogHead   Ref   `json:"logHead"`
				Revision  int64 `json:"revision"`
				StateRoot Ref   `json:"stateRoot"`
			}{head, n, state})
			check(want, refused, n, func() Ref { return ComputeWorldRef(n, state, head) })
		}
	}
}

func TestErrorsTellClientsOnlyMessages(t *testing.T) {
	cause := errors.New("open /secret/path: no such file")
	err := fmt.Errorf("outer: %w", &Error{Op: "x", Kind: KindNotFound, Err: &Error{Kind: KindInternal, Msg: "inner text", Err: cause}})
	if KindOf(err) != KindNotFound || Message(err) != "inner text" || !errors.Is(err, cause) {
		t.Fatalf("%v, %q", KindOf(err), Message(err))
	}
	if Message(Wrap(KindInternal, "op", cause)) != "" {
		t.Fatal("a cause became a message")
	}
	if KindOf(cause) != KindInternal {
		t.Fatal("an unknown error has a kind")
	}
}

func TestEffectsUnrecordedMessage(t *testing.T) {
	a, b := hashref.SumString("a"), hashref.SumString("b")
	err := &EffectsUnrecordedError{Refs: []Ref{a, b}}
	want := "effects were requested but the invocation was not confirmed committed; effect records: " + a.String() + " " + b.String()
	if err.Error() != want {
		t.Fatalf("%q", err)
	}
}
