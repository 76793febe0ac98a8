package rest

import (
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// wireCommit is a commit for writing, with no decoder of its own.
type wireCommit struct {
	InvocationID world.InvocationID `json:"invocationId"`
	ObservedHead world.Ref          `json:"observedHead"`
	Objects      []wireObject       `json:"objects"`
	NextWorld    world.World        `json:"nextWorld"`
	Entry        world.Entry        `json:"entry"`
}

type wireObject struct {
	world.ObjectMeta
	Payload []byte `json:"payload"`
}

func toWire(c store.Commit) wireCommit {
	w := wireCommit{c.Invocation, c.ObservedHead, make([]wireObject, len(c.Objects)), c.NextWorld, c.Entry}
	for i, o := range c.Objects {
		w.Objects[i] = wireObject{o.ObjectMeta, o.Payload}
	}
	return w
}

func sample() store.Commit {
	r := hashref.SumString
	return store.Commit{
		Invocation: "rest:1", ObservedHead: r("h"),
		Objects:   []world.Object{world.NewObject("notes/v1", "me", []byte("payload"))},
		NextWorld: world.World{Ref: r("w"), Revision: 4, StateRoot: r("s"), LogHead: r("e")},
		Entry: world.Entry{
			Header:    world.EntryHeader{EntryIndex: 4, SemanticsEpoch: 1, TransitionFn: r("f"), Interpreter: r("i"), PrevEntryHash: r("p"), WrittenBy: "me"},
			EntryHash: r("e"), TransitionRef: r("t"),
		},
	}
}

// FuzzDecodeCommit states of any bytes: a refusal is KindBadRequest with a short message of
// valid text; what is taken comes out of its own canonical form, and of a plain encoding of
// it, as the same commit.
func FuzzDecodeCommit(f *testing.F) {
	raw, err := json.Marshal(toWire(sample()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	for _, s := range []string{``, `{}`, `{"objects":[null]}`, `{"entry":{"header":{"entryIndex":1e3}}}`, `{"objects":[{"payload":"e30=\n"}]}`, `{"a":1,"a":2}`, "{\"\xff\":1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := decodeCommit(raw)
		if err != nil {
			msg := world.Message(err)
			if world.KindOf(err) != world.KindBadRequest || msg == "" || len(msg) > 1000 || !utf8.ValidString(msg) {
				t.Fatalf("refused as %v: %q", world.KindOf(err), msg)
			}
			return
		}
		canonical, err := hashref.Canonical(raw)
		if err != nil {
			t.Fatalf("taken, but has no canonical form: %v", err)
		}
		if c.Digest != hashref.Sum(canonical) {
			t.Error("the digest is not that of the canonical form")
		}
		again, err := decodeCommit(canonical)
		if err != nil {
			t.Fatalf("the canonical form is refused: %v", err)
		}
		if d := cmp.Diff(toWire(c), toWire(again), cmp.Comparer(func(a, b world.Ref) bool { return a == b })); d != "" || again.Digest != c.Digest {
			t.Errorf("the canonical form is another commit:\n%s", d)
		}
		plain, err := json.Marshal(toWire(c))
		if err != nil {
			t.Fatal(err)
		}
		if again, err = decodeCommit(plain); err != nil {
			t.Fatalf("a plain encoding is refused: %v", err)
		}
		if d := cmp.Diff(toWire(c), toWire(again), cmp.Comparer(func(a, b world.Ref) bool { return a == b })); d != "" {
			t.Errorf("a plain encoding is another commit:\n%s", d)
		}
	})
}
