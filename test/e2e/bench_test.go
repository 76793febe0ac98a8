package e2e

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/world"
)

// bench performs Test.Do: what its payload's "op" says.
type bench struct {
	entered chan struct{} // one for each wait that has begun
	open    func()        // ends all waits, now and later
	opened  chan struct{}
}

func newBench(t *testing.T) *bench {
	b := &bench{entered: make(chan struct{}, 1), opened: make(chan struct{})}
	b.open = sync.OnceFunc(func() { close(b.opened) })
	t.Cleanup(b.open)
	return b
}

func (b *bench) Effects() []string { return []string{"Test.Do"} }

func (b *bench) Ready(context.Context, string, string, string) error { return nil }

// Perform answers, refuses, errs, panics, or waits until the bench is opened, whatever its
// context says.
func (b *bench) Perform(_ context.Context, r broker.Request) ([]byte, error) {
	var do struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(r.Payload, &do); err != nil {
		return nil, err
	}
	switch do.Op {
	case "refuse":
		return []byte(`{"ok":false,"refused":"not that one"}`), nil
	case "err":
		return nil, errors.New("a cause that callers are not told")
	case "tell":
		return nil, world.Errorf(world.KindInternal, "bench", "a reason that callers are told")
	case "panic":
		panic("on purpose")
	case "array":
		return []byte(`[1]`), nil
	case "world":
		return []byte(`{"world":{}}`), nil
	case "wait":
		b.entered <- struct{}{}
		<-b.opened
	}
	return []byte(`{"ok":true,"done":"yes"}`), nil
}
