// Package examples_test runs the example pack.
package examples_test

import (
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/packs/packtest"
)

func TestEcho(t *testing.T) {
	b := packtest.New(t, "examples")
	for _, args := range []string{`{}`, `{"a":[1,{"b":null}],"text":"é\u0001"}`} {
		want, err := hashref.Canonical([]byte(`{"echo":` + args + `}`))
		packtest.Must(t, err)
		got := b.Run("tools.echo", args)
		if got != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := packtest.Valid(b.Tool("tools.echo").Out, got); err != nil {
			t.Error(err)
		}
	}
}
