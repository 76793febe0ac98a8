package surface

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"ailang.dev/world/host/world"
)

// Bounds of the one line that a refusal leaves, in bytes. What was refused is cut first:
// it may be the caller's own words, and they must not push the cause out of the line.
const (
	MaxLogLine = 16 << 10
	maxLogWhat = 512
)

// Within runs one call into the host and gives what it returned. The call should end soon
// after ctx; one that has not when grace is over is left behind, and the answer is
// KindDeadline or KindCanceled. What a call that was left behind fails with is given to
// late, so that it is told somewhere. A panic is KindInternal.
func Within[T any](ctx context.Context, grace time.Duration, late func(error), call func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome)
	left := make(chan struct{})
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o.err = Panicked(p)
			}
			select {
			case done <- o:
			case <-left:
				if o.err != nil {
					late(o.err)
				}
			}
		}()
		o.value, o.err = call(ctx)
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.value, o.err
	case <-timer.C:
	}
	close(left)
	var zero T
	return zero, ended(ctx)
}

// ended is the error of a call that was left behind.
func ended(ctx context.Context) error {
	kind := world.KindCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = world.KindDeadline
	}
	return world.Wrap(kind, "surface.Within", ctx.Err())
}

// Panicked is the error that a recovered panic stands for, with its stack.
func Panicked(p any) error {
	return world.Wrap(world.KindInternal, "surface", fmt.Errorf("panic: %v; %s", p, debug.Stack()))
}

// KindOf is why a call into the host failed. Effects that stand in the journal without an
// entry come first, whatever the cause; a bare end of a context is KindDeadline or
// KindCanceled.
func KindOf(err error) world.Kind {
	var unrecorded *world.EffectsUnrecordedError
	var known *world.Error
	switch {
	case errors.As(err, &unrecorded):
		return world.KindEffectsUnrecorded
	case errors.As(err, &known):
		return known.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return world.KindDeadline
	case errors.Is(err, context.Canceled):
		return world.KindCanceled
	}
	return world.KindInternal
}

// HasCause tells whether err knows more than its client is told.
func HasCause(err error) bool {
	var known *world.Error
	return !errors.As(err, &known) || known.Err != nil
}

// RefusalLine is what the operator reads of a refusal: "<surface> refusal <kind>: <what>:
// <cause>", one line of at most MaxLogLine bytes.
func RefusalLine(surface world.Surface, what string, err error) string {
	line := fmt.Sprintf("%s refusal %s: %s: %v", surface, KindOf(err), cut(what, maxLogWhat), err)
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line)
	return cut(line, MaxLogLine)
}

func cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	return strings.ToValidUTF8(text[:max], "")
}
