package capsule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ailang.dev/world/host/world"
)

// hanging is an engine that stops only when it is told to.
type hanging struct{ Engine }

func (hanging) Run(ctx context.Context, _ Source, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, world.Wrap(world.KindDeadline, "hanging", ctx.Err())
}

// TestPhaseTimeout: a run past its phase failed; a run that its caller's end stopped did
// not fail, it was stopped.
func TestPhaseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := RunObject(t.Context(), hanging{}, Source{}, nil)
		if world.KindOf(err) != world.KindExecution || time.Since(start) != PhaseTimeout {
			t.Errorf("past its phase: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := RunObject(ctx, hanging{}, Source{}, nil); world.KindOf(err) != world.KindDeadline {
			t.Errorf("stopped by its caller: %v", err)
		}
	})
}

// TestSlots: one more than there are waits until one is given back, or its context ends.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(2)
		first, err := s.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Take(short); err != context.DeadlineExceeded {
			t.Errorf("a third of two: %v", err)
		}
		third := make(chan error)
		go func() {
			_, err := s.Take(t.Context())
			third <- err
		}()
		synctest.Wait()
		first()
		first()
		if err := <-third; err != nil {
			t.Errorf("after one was given back: %v", err)
		}
		if _, err := s.Take(short); err != context.DeadlineExceeded {
			t.Errorf("giving one back twice made two free: %v", err)
		}
	})
}

// kind is an engine of an ending.
type kind struct {
	Engine
	ext string
}

func (k kind) Extension() string { return k.ext }

func TestByExtensionGivesTheFirstThatTakesSources(t *testing.T) {
	s := Set{kind{ext: ".a"}, kind{}, kind{ext: ".b"}, kind{ext: ".a"}}
	for ext, want := range map[string]Engine{".a": s[0], ".b": s[2], ".c": nil, "": nil} {
		if got := s.ByExtension(ext); got != want {
			t.Errorf("%q: %v, want %v", ext, got, want)
		}
	}
}
