package coordinator_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/world"
)

// fickle is an engine under the right name whose output is not what it was.
type fickle struct {
	capsule.Engine
	old, new string
}

func (e fickle) Run(ctx context.Context, s capsule.Source, input []byte) ([]byte, error) {
	out, err := e.Engine.Run(ctx, s, input)
	return bytes.ReplaceAll(out, []byte(e.old), []byte(e.new)), err
}

// TestReplayTellsWhereItDiverges: each phase is held to the bytes of the record.
func TestReplayTellsWhereItDiverges(t *testing.T) {
	f, call := scriptedFixture(t)
	if _, err := call(v2(true, "a:ok"), v2(true, "b:ok"), "tell"); err != nil { // entry 1
		t.Fatal(err)
	}
	f.publish("echo", echo, do)
	if _, err := f.call("echo", "e", `{"a":1}`, f.session(do)); err != nil { // entry 2
		t.Fatal(err)
	}
	for _, c := range []struct {
		index          int64
		old, new, want string
		phases         int
	}{
		{1, `"id":"a"`, `"id":"x"`, "plan", 1},
		{1, `"id":"b","payload"`, `"id":"y","payload"`, "round 2: plan", 2},
		{1, `"round":2`, `"round":3`, "output", 3},
		{2, `{"echo"`, `{"ohce"`, "output", 1},
		{2, `"echo":{"a":1}`, ``, "output", 1}, // it now fails
	} {
		p := &coordinator.Replayer{Store: f.store, Engines: capsule.Set{fickle{f.engines[0], c.old, c.new}}}
		r, err := p.Replay(context.Background(), c.index)
		if err != nil || r.Diverged != c.want || r.Phases != c.phases || r.Want == "" || r.Got == r.Want {
			t.Errorf("%s for %s: %+v, %v", c.new, c.old, r, err)
		}
	}
	none := &coordinator.Replayer{Store: f.store, Engines: capsule.Set{}}
	if r, err := none.Replay(context.Background(), 1); err != nil || !strings.Contains(r.Skipped, "is not in this program") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := none.Replay(context.Background(), 99); world.KindOf(err) != world.KindNotFound {
		t.Errorf("past the end: %v", err)
	}
}
