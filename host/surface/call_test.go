package surface

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

func TestWithin(t *testing.T) {
	failed := errors.New("failed")
	tests := []struct {
		name  string
		takes time.Duration
		err   error
		after time.Duration
		kind  world.Kind // if the call is left behind
		late  bool
	}{
		{"in time", time.Second, nil, time.Second, 0, false},
		{"fails in time", time.Second, failed, time.Second, 0, false},
		{"within grace", 12 * time.Second, nil, 12 * time.Second, 0, false},
		{"fails within grace", 12 * time.Second, failed, 12 * time.Second, 0, false},
		{"past grace", time.Minute, nil, 14 * time.Second, world.KindDeadline, false},
		{"fails past grace", time.Minute, failed, 14 * time.Second, world.KindDeadline, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var late error
				start := time.Now()
				got, err := Within(ctx, 4*time.Second, func(err error) { late = err }, func(context.Context) (int, error) {
					<-time.After(tt.takes)
					return 7, tt.err
				})
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				if tt.kind != 0 {
					if got != 0 || world.KindOf(err) != tt.kind {
						t.Errorf("left behind: %v, %v", got, err)
					}
				} else if got != 7 || err != tt.err {
					t.Errorf("got %v, %v", got, err)
				}
				<-time.After(time.Hour)
				synctest.Wait()
				if (late != nil) != tt.late {
					t.Errorf("told late: %v", late)
				}
			})
		})
	}
}

func TestWithinCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := Within(ctx, 0, func(error) {}, func(context.Context) (int, error) {
			<-time.After(time.Minute)
			return 0, nil
		})
		if world.KindOf(err) != world.KindCanceled {
			t.Errorf("got %v", err)
		}
		<-time.After(time.Hour)
	})
}

func TestWithinPanic(t *testing.T) {
	_, err := Within(t.Context(), 0, func(error) {}, func(context.Context) (int, error) { panic("boom") })
	if world.KindOf(err) != world.KindInternal || world.Message(err) != "" || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v", err)
	}
}

func TestKindOf(t *testing.T) {
	unrecorded := &world.EffectsUnrecordedError{Refs: []world.Ref{hashref.Zero}, Cause: context.DeadlineExceeded}
	tests := []struct {
		err  error
		want world.Kind
	}{
		{errors.New("x"), world.KindInternal},
		{context.DeadlineExceeded, world.KindDeadline},
		{fmt.Errorf("x: %w", context.Canceled), world.KindCanceled},
		{world.Wrap(world.KindCapacity, "x", context.DeadlineExceeded), world.KindCapacity},
		{fmt.Errorf("x: %w", world.Wrap(world.KindNoWorld, "x", nil)), world.KindNoWorld},
		{unrecorded, world.KindEffectsUnrecorded},
		{world.Wrap(world.KindDeadline, "x", fmt.Errorf("y: %w", unrecorded)), world.KindEffectsUnrecorded},
	}
	for _, tt := range tests {
		if got := KindOf(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestRefusalLine(t *testing.T) {
	err := world.Wrap(world.KindExecution, "op", errors.New("a\nb\tc\x1b[31m"))
	if got, want := RefusalLine(world.SurfaceA2A, "skill\r\nforged", err), "a2a refusal Execution: skill  forged: op: a b c [31m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := RefusalLine(world.SurfaceMCP, "x"+strings.Repeat("é", MaxLogLine), err); len(got) > 2*maxLogWhat || !strings.HasSuffix(got, "é: op: a b c [31m") {
		t.Errorf("long words of the caller's: %s", got)
	}
	err = world.Wrap(world.KindExecution, "op", errors.New("x"+strings.Repeat("é", MaxLogLine)))
	if got := RefusalLine(world.SurfaceMCP, "y", err); len(got) > MaxLogLine || strings.ContainsRune(got, '\ufffd') {
		t.Errorf("a line of %d bytes", len(got))
	}
}
