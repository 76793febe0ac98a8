// Package demo_test runs the demo pack.
package demo_test

import (
	"testing"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs/packtest"
)

func TestAnswers(t *testing.T) {
	b := packtest.New(t, "demo")
	for _, c := range []struct{ id, args, want string }{
		{"demo.answer", `{"question":"what is this"}`, `{"answer":"You asked: what is this","ok":true,"words":3}`},
		{"demo.answer", `{}`, `{"ok":false,"refused":"question must be a text that is not empty"}`},
		{"demo.slow", `{"rounds":10}`, `{"ok":true,"rounds":10,"sum":24}`},
		{"demo.slow", `{"rounds":200000}`, `{"ok":true,"rounds":200000,"sum":599994}`},
		{"demo.slow", `{"rounds":-1}`, `{"ok":false,"refused":"rounds must be an integer from 0 to 200000"}`},
	} {
		got := b.Run(c.id, c.args)
		if got != c.want {
			t.Errorf("%s %s: %s", c.id, c.args, got)
		}
		if err := packtest.Valid(b.Tool(c.id).Out, got); err != nil {
			t.Error(err)
		}
	}
	_, err := capsule.RunObject(t.Context(), b.Engine, b.Tool("demo.fail").Source, []byte(`{}`))
	if world.KindOf(err) != world.KindExecution {
		t.Errorf("demo.fail: %v", err)
	}
}
