package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/metrics"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/tracing"
	"ailang.dev/world/host/world"
)

// Observer sees what a daemon does, and tells it to whom it was made for: metrics always,
// traces and a log of calls if they are asked for.
type Observer struct {
	Metrics *metrics.Set
	Trace   *tracing.Tracer // nil makes no spans
	Log     *slog.Logger    // nil logs no calls
}

// invoker runs calls; the agent surfaces know it under names of their own.
type invoker interface {
	Invoke(ctx context.Context, c coordinator.Call) (coordinator.Result, error)
}

// calls is an invoker that is watched.
type calls struct {
	next invoker
	o    *Observer
}

// doorkeeper resolves credentials, and counts those that it refuses.
type doorkeeper struct {
	next    surface.SessionResolver
	o       *Observer
	surface world.Surface
}

// Resolve implements surface.SessionResolver.
func (d doorkeeper) Resolve(ctx context.Context, authorization []string) (world.Session, error) {
	s, err := d.next.Resolve(ctx, authorization)
	if err != nil {
		d.o.Metrics.Refusal(d.surface, world.KindOf(err))
	}
	return s, err
}

// seen is what is learned of a call while it runs; its effects come one after the other.
type seen struct{ denied, failed bool }

type seenKey struct{}

// Invoke implements the surfaces' invokers.
func (c calls) Invoke(ctx context.Context, call coordinator.Call) (coordinator.Result, error) {
	began, of := time.Now(), &seen{}
	defer c.o.Metrics.Begin()()
	ctx = context.WithValue(ctx, seenKey{}, of)
	var span *tracing.Span
	if c.o.Trace != nil {
		ctx, span = c.o.Trace.Start(ctx, "call", "world.surface", string(call.Surface), "world.episode", call.Session.Episode)
	}
	res, err := c.next.Invoke(ctx, call)
	c.o.ended(ctx, span, call, res, err, of, time.Since(began))
	return res, err
}

// ended tells of a call. A tool's name that is not known to be one is not repeated.
func (o *Observer) ended(ctx context.Context, span *tracing.Span, call coordinator.Call, res coordinator.Result, err error, of *seen, took time.Duration) {
	outcome, tool := of.outcome(res, err), call.Skill
	if err != nil {
		o.Metrics.Refusal(call.Surface, kindOf(err))
		if kindOf(err) == world.KindNotAuthorized {
			tool = ""
		}
	}
	o.Metrics.Call(call.Surface, tool, outcome, took)
	if span != nil {
		span.Set("world.tool", tool)
		span.Set("world.outcome", outcome)
		if err == nil {
			span.Entry(res.Entry)
		}
		span.End(err)
	}
	if o.Log != nil {
		o.logCall(ctx, call, tool, outcome, res, err, took)
	}
}

// kindOf is the kind of a call's error; that effects ran comes before why it ended.
func kindOf(err error) world.Kind {
	var unrecorded *world.EffectsUnrecordedError
	if errors.As(err, &unrecorded) {
		return world.KindEffectsUnrecorded
	}
	return world.KindOf(err)
}

func (o *Observer) logCall(ctx context.Context, call coordinator.Call, tool, outcome string, res coordinator.Result, err error, took time.Duration) {
	attrs := []slog.Attr{slog.String("surface", string(call.Surface)), slog.String("episode", call.Session.Episode), slog.String("tool", tool),
		slog.String("outcome", outcome), slog.Float64("ms", float64(took.Microseconds())/1000)}
	if err == nil {
		attrs = append(attrs, slog.Int64("entry", res.Entry), slog.String("call", string(res.Invocation)))
	} else {
		attrs = append(attrs, slog.String("kind", kindOf(err).String()))
	}
	if id := tracing.ID(ctx); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	o.Log.LogAttrs(ctx, slog.LevelInfo, "call", attrs...)
}

// refused tells of a call that was refused before it was one: whoever made it, and of what,
// is not said.
func (o *Observer) refused(surface world.Surface, kind world.Kind) {
	o.Metrics.Refusal(surface, kind)
	if o.Log != nil {
		o.Log.LogAttrs(context.Background(), slog.LevelInfo, "call", slog.String("surface", string(surface)),
			slog.String("outcome", metrics.OutcomeError), slog.String("kind", kind.String()))
	}
}

func (s *seen) outcome(res coordinator.Result, err error) string {
	switch {
	case err != nil:
		return metrics.OutcomeError
	case res.Replayed:
		return metrics.OutcomeReplay
	case s.denied:
		return metrics.OutcomeDenied
	case s.failed:
		return metrics.OutcomeFailed
	case refused(res.Output):
		return metrics.OutcomeRefused
	}
	return metrics.OutcomeOK
}

// refused tells whether an output says "ok":false. It is canonical, and the member is
// passed by or found without decoding the others.
func refused(output []byte) bool {
	if !bytes.Contains(output, []byte(`"ok":false`)) {
		return false
	}
	dec := jsontext.NewDecoder(bytes.NewReader(output))
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if name.String() == "ok" {
			return dec.PeekKind() == 'f'
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
	return false
}

// Step implements coordinator.Observer.
func (o *Observer) Step(ctx context.Context, name string) (context.Context, func(error)) {
	began := time.Now()
	if o.Trace == nil {
		return ctx, func(error) { o.Metrics.Step(name, time.Since(began)) }
	}
	ctx, span := o.Trace.Start(ctx, name)
	return ctx, func(err error) {
		o.Metrics.Step(name, time.Since(began))
		span.End(err)
	}
}

// Effect implements coordinator.Observer.
func (o *Observer) Effect(ctx context.Context, need world.Need, status broker.Status, took time.Duration) {
	cost := need.Cost
	if status == broker.StatusDenied {
		cost = 0
	}
	o.Metrics.Effect(need.Effect, string(status), cost, took)
	if of, ok := ctx.Value(seenKey{}).(*seen); ok {
		of.denied = of.denied || status == broker.StatusDenied
		of.failed = of.failed || status == broker.StatusFailed
	}
	if o.Trace != nil {
		tracing.Add(ctx, "world.effect", need.Effect+" "+string(status))
	}
}

// connections bounds those to the listener, and tells of them.
func (o *Observer) connections(most int) *conns {
	c := newConns(most, o.Metrics.Shed)
	o.Metrics.Connections(func() float64 { return float64(c.count()) })
	return c
}

// Batch is told of each transaction of the store's writer.
func (o *Observer) Batch(b sqlstore.Batch) {
	m := metrics.Batch{Operations: len(b.Ops), Bytes: b.Bytes, Waiting: b.Waiting, Written: b.Written, Failed: b.Err != nil,
		Waits: make([]time.Duration, 0, len(b.Ops))}
	if !b.Ran.IsZero() {
		m.Running = b.Ran.Sub(b.Began)
		if !b.Ended.IsZero() {
			m.Flush = b.Ended.Sub(b.Ran)
		}
	}
	for _, op := range b.Ops {
		if !op.Queued.IsZero() {
			m.Waits = append(m.Waits, b.Began.Sub(op.Queued))
		}
		if o.Trace != nil && tracing.Watched(op.Ctx) {
			o.Trace.Past(op.Ctx, "queue", op.Queued, b.Began, false)
			o.Trace.Past(op.Ctx, "transaction", b.Began, b.Ran, false)
			o.Trace.Past(op.Ctx, "flush", b.Ran, b.Ended, b.Err != nil)
		}
	}
	o.Metrics.Batch(m)
}
