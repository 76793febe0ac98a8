package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// said collects what goes to stderr.
type said struct{ strings.Builder }

func (s *said) logf(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// payload is a sound request with one member changed.
func payload(change string, value any) []byte {
	p := map[string]any{"instructions": "Answer.", "question": "What is grace?", "max_tokens": 100,
		"passages": []any{map[string]any{"n": 1, "title": "Grace", "section": "1", "text": "Grace is the free and undeserved help that God gives."}}}
	if change != "" {
		p[change] = value
	}
	return hashref.MustMarshal(p)
}

func perform(t *testing.T, h *Handler, payload []byte) (answer, error) {
	t.Helper()
	out, err := h.Perform(t.Context(), broker.Request{Episode: "ep", EffectID: "e1", Need: world.Need{Effect: Effect, Scope: Default, Cost: 1}, Payload: payload})
	var a answer
	if err == nil {
		must(t, json.Unmarshal(out, &a))
		if _, err := hashref.CanonicalObject(out); err != nil {
			t.Errorf("%s: %v", out, err)
		}
	}
	return a, err
}

func TestWithoutConfigurationTheExtractiveModelAnswers(t *testing.T) {
	h, err := New(Config{})
	must(t, err)
	a, err := perform(t, h, payload("", nil))
	must(t, err)
	want := answer{OK: true, Text: "Grace is the free and undeserved help that God gives. [1]", Model: Extractive, Backend: Extractive, Finish: "stop",
		Tool: h.Objects()[0].Hash.String(), PolicyDigest: h.cfg.Policy.For("ep").Digest()}
	if d := cmp.Diff(want, a); d != "" {
		t.Error(d)
	}
	if h.Patience(Effect, Default) != 0 {
		t.Error("the extractive model asks for more time")
	}
}

func TestReady(t *testing.T) {
	h, err := New(Config{Models: []Model{{Name: "a", Backend: Extractive}}})
	must(t, err)
	for _, c := range []struct {
		effect, scope string
		ok            bool
	}{{Effect, "a", true}, {Effect, Default, false}, {Effect, "", false}, {"Other", "a", false}} {
		if err := h.Ready(t.Context(), "ep", c.effect, c.scope); (err == nil) != c.ok || err != nil && world.KindOf(err) != world.KindNoHandler {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := New(Config{Models: []Model{{Name: "a", Backend: Extractive}, {Name: "a", Backend: Extractive}}}); world.KindOf(err) != world.KindBadRequest {
		t.Errorf("twice: %v", err)
	}
	if _, err := New(Config{Models: []Model{{Name: "a", Backend: "b"}}}); world.KindOf(err) != world.KindBadRequest {
		t.Errorf("unknown backend: %v", err)
	}
}

func TestPayloadsThatCannotBeUsed(t *testing.T) {
	h, err := New(Config{})
	must(t, err)
	pass := func(change string, value any) any {
		p := map[string]any{"n": 1, "title": "t", "section": "s", "text": "x"}
		p[change] = value
		return []any{p}
	}
	many := make([]any, MaxPassages+1)
	for i := range many {
		many[i] = map[string]any{"n": i + 1, "title": "", "section": "", "text": ""}
	}
	for name, p := range map[string][]byte{
		"no object": []byte(`[]`), "unknown member": payload("tools", []any{}), "empty question": payload("question", " \n"),
		"long question": payload("question", strings.Repeat("x", MaxQuestion+1)), "long instructions": payload("instructions", strings.Repeat("x", MaxInstructions+1)),
		"no tokens": payload("max_tokens", 0), "too many tokens": payload("max_tokens", MaxTokens+1), "a text": payload("max_tokens", "5"),
		"many passages": payload("passages", many), "n of 0": payload("passages", pass("n", 0)), "n of 10000": payload("passages", pass("n", MaxNumber+1)),
		"long text": payload("passages", pass("text", strings.Repeat("x", MaxPassage+1))), "long title": payload("passages", pass("title", strings.Repeat("x", MaxTitle+1))),
		"unknown in a passage": payload("passages", pass("role", "system")), "twice the same n": payload("passages", append(pass("n", 1).([]any), pass("n", 1).([]any)...)),
		"too large": payload("question", strings.Repeat("x", MaxRequest)), "nothing": nil,
	} {
		if _, err := perform(t, h, p); world.KindOf(err) != world.KindBadRequest || !strings.HasPrefix(world.Message(err), "the payload cannot be used: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, err := perform(t, h, payload("passages", []any{})); err != nil || a.Text != "" {
		t.Errorf("without passages: %+v, %v", a, err)
	}
}

func TestTheAnswerIsCutToItsBound(t *testing.T) {
	h, err := New(Config{Models: []Model{{Name: Default, Backend: Extractive, MaxAnswer: 9}}})
	must(t, err)
	a, err := perform(t, h, payload("passages", []any{map[string]any{"n": 1, "title": "", "section": "", "text": "Grace é… é is what grace would be."}}))
	must(t, err)
	if a.Text != "Grace é" || a.Finish != "length" {
		t.Errorf("%+v", a)
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x00b\nc\td\x1b[1me\u0085f\xffg"); got != "a b\nc\td [1me f\uFFFDg" {
		t.Errorf("%q", got)
	}
}
