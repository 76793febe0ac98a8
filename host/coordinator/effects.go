package coordinator

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Causes, for stderr.
var (
	// ErrInFlight is why an id cannot be taken now: its call is running.
	ErrInFlight  = errors.New("a call with this task id is running")
	errOtherCall = errors.New("the task id was used for another skill or other arguments")
	errNoEntry   = errors.New("an earlier call with this task id planned effects and was not committed")
)

// deed is the effects of one call: what was planned and done, round by round. Each step
// says what a crash in it leaves.
type deed struct {
	*run
	rounds []round
	traces []store.EffectTrace   // intents that are, or may be, durable; a record once it is
	open   []store.EffectOutcome // of effects that were done, not durable yet
	after  time.Time             // until when what follows the last effect has time; zero before the first
}

// round is one plan, and how its effects ended.
type round struct {
	plan  *plan
	dones []broker.Done
}

// effectful runs a transition that plans effects.
func (r *run) effectful(ctx context.Context) (Result, error) {
	// 1. Plan: pure; a crash leaves nothing.
	sctx, end := r.c.step(ctx, StepPlan)
	text, err := r.c.turns.run(sctx, r.engine, r.source, phaseInput(r.input.Payload))
	if end(err); err != nil {
		return Result{}, err
	}
	p, err := parsePlan(r.desc.Declared, text, r.provenance)
	if err != nil {
		return Result{}, &world.Error{Op: "coordinator.plan", Kind: world.KindConvention, Subject: r.desc.ID, Err: err}
	}
	r.c.cfg.Pause("call.planned")
	d := &deed{run: r}
	return d.account(ctx, p)
}

// account does what was planned. Whatever goes wrong once an intent may be durable, a panic
// included, names what was done.
func (d *deed) account(ctx context.Context, p *plan) (Result, error) {
	res, err := d.carryOut(ctx, p)
	if err == nil || len(d.traces) == 0 {
		return res, err
	}
	actx, cancel := d.afterwards(ctx)
	defer cancel()
	if rerr := d.record(actx); rerr != nil { // at least what was done becomes known
		err = errors.Join(err, rerr)
	}
	return Result{}, unrecorded(d.traces, err)
}

// carryOut goes from round to round, and commits.
func (d *deed) carryOut(ctx context.Context, p *plan) (res Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			res, err = Result{}, fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	for {
		if err := d.perform(ctx, p); err != nil {
			return Result{}, err
		}
		actx, cancel := d.afterwards(ctx)
		out, next, err := d.finish(actx, p)
		if err == nil && next == nil {
			res, err = d.commit(actx, out)
		}
		cancel()
		if err != nil || next == nil {
			return res, err
		}
		p = next
	}
}

// leastTime is what must be left of a call's time for one more of its effects.
const leastTime = 100 * time.Millisecond

// late tells whether the call's time is over. Before its first effect nothing is: that one
// says itself why it cannot be begun.
func (d *deed) late(ctx context.Context) bool {
	until, ok := ctx.Deadline()
	return ok && len(d.traces) > 0 && time.Until(until) < leastTime
}

// perform does a plan's effects in order. Those after the first that is not ok are skipped,
// and so are those for which no time is left: what was done before them becomes an entry.
func (d *deed) perform(ctx context.Context, p *plan) error {
	d.rounds = append(d.rounds, round{plan: p})
	now := &d.rounds[len(d.rounds)-1]
	stop := d.behind != nil // a handler of this call may still be at work
	for _, e := range p.effects {
		if stop = stop || d.late(ctx); stop {
			now.dones = append(now.dones, broker.Done{ID: e.ID, Effect: e.Need.Effect, Status: broker.StatusSkipped})
			continue
		}
		done, err := d.performOne(ctx, e)
		if err != nil {
			return err
		}
		now.dones = append(now.dones, done)
		stop = done.Status != broker.StatusOK
	}
	return nil
}

// performOne decides, intends and does one effect.
func (d *deed) performOne(ctx context.Context, e broker.Planned) (broker.Done, error) {
	// Once something was done, the caller's going away stops nothing more.
	if len(d.traces) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = withDeadlineOf(ctx)
		defer cancel()
	}
	caller := broker.Caller{Invocation: d.id, Digest: d.digest, Session: d.call.Session, Transition: d.desc.ID, TransitionFn: d.desc.TransitionFn,
		Provenance: d.provenance, Lease: d.lease}
	// 2. Intent: debit, request and intent in one durable transaction, and the outcome of the
	// effect before it. A crash before it leaves that one's intent, if there is one; after it
	// an intent that is told as indeterminate and never retried.
	sctx, end := d.c.step(ctx, StepIntend)
	ticket, denied, err := d.c.cfg.Broker.Intend(sctx, caller, e, d.open)
	if end(err); err != nil {
		return broker.Done{}, d.intentError(ctx, e.ID, err)
	}
	if ticket == nil {
		d.c.tell(ctx, e.Need, broker.StatusDenied, 0)
		return *denied, nil
	}
	d.recorded()
	d.traces = append(d.traces, store.EffectTrace{EffectID: e.ID, Request: ticket.Request()})
	d.c.cfg.Pause("effect.intended")
	// 3. The effect. The caller's going away does not stop it, the call's deadline does.
	began := time.Now()
	sctx, end = d.c.step(ctx, StepPerform)
	ectx, cancel := withDeadlineOf(sctx)
	ticket.Run(ectx)
	cancel()
	end(nil)
	if left := ticket.Left(); left != nil {
		d.behind = left
	}
	done := ticket.Done()
	d.c.tell(ctx, e.Need, done.Status, time.Since(began))
	d.open = append(d.open, *done.Outcome)
	d.c.cfg.Pause("effect.performed")
	d.after = time.Now().Add(DetachedBudget)
	return done, nil
}

// withDeadlineOf is free of ctx's cancellation, but not of its deadline.
func withDeadlineOf(ctx context.Context) (context.Context, context.CancelFunc) {
	free := context.WithoutCancel(ctx)
	if d, ok := ctx.Deadline(); ok {
		return context.WithDeadline(free, d)
	}
	return context.WithCancel(free)
}

// afterwards is the time of what follows an effect: from there on everything has a budget
// of its own. Without an effect it is ctx.
func (d *deed) afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.after.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), d.after)
}

// record makes the outcomes durable that are not yet.
func (d *deed) record(ctx context.Context) error {
	for _, o := range d.open {
		sctx, end := d.c.step(ctx, StepRecord)
		err := d.c.cfg.Broker.Record(sctx, o)
		if end(err); err != nil {
			return err
		}
	}
	d.recorded()
	return nil
}

// recorded notes that the outcomes became durable.
func (d *deed) recorded() {
	for _, o := range d.open {
		for i := range d.traces {
			if d.traces[i].EffectID == o.EffectID {
				d.traces[i].Record = o.Record
			}
		}
	}
	d.open = nil
}

// intentError tells apart an intent that was never written, one that may have been, and
// one that an earlier try of the same task had written.
func (d *deed) intentError(ctx context.Context, effect string, err error) error {
	const op = "coordinator.intend"
	switch world.KindOf(err) {
	case world.KindUncertain:
		// The effect was not and will not be performed, but the debit may stand: fail closed.
		var intent *broker.IntentError
		if errors.As(err, &intent) {
			d.traces = append(d.traces, store.EffectTrace{EffectID: effect, Request: intent.Request})
			return err
		}
	case world.KindCapacity: // another daemon has the episode by now
		return err
	case world.KindBadRequest, world.KindTaskIDUsed:
		return &world.Error{Op: op, Kind: world.KindTaskIDUsed, Subject: string(d.id), Err: err}
	}
	return ended(ctx, op, &world.Error{Op: op, Kind: world.KindNotCommitted, Err: err})
}

// finish shapes the output, by the finish phase if the plan asks for it, or gives the plan
// of the next round.
func (d *deed) finish(ctx context.Context, p *plan) (jsontext.Value, *plan, error) {
	var out jsontext.Value
	if p.finish {
		// 4. Outcome and record. No code of the transition runs before they are durable. A
		// crash before it leaves the intent, after it a recorded effect without an entry.
		if err := d.record(ctx); err != nil {
			return nil, nil, err
		}
		d.c.cfg.Pause("effect.recorded")
		var next *plan
		var err error
		if out, next, err = d.finishPhase(ctx, p); err != nil || next != nil {
			return nil, next, err
		}
	} else {
		out = plain(d.rounds)
	}
	d.c.cfg.Pause("call.finished")
	full, err := withWorld(out, d.rounds)
	return full, nil, err
}

// finishPhase runs the finish phase. Under plan v2 it may plan another round.
func (d *deed) finishPhase(ctx context.Context, p *plan) (jsontext.Value, *plan, error) {
	const op = "coordinator.finish"
	sctx, end := d.c.step(ctx, StepFinish)
	out, err := capsule.RunObject(sctx, d.engine, d.source, finishInput(d.input.Payload, d.rounds))
	if end(err); err != nil {
		return nil, nil, err
	}
	if p.version == 2 && plansAgain(out) {
		next, err := parsePlan(d.desc.Declared, out, d.provenance)
		if err == nil {
			err = admits(d.rounds, next)
		}
		if err != nil {
			return nil, nil, &world.Error{Op: op, Kind: world.KindConvention, Subject: d.desc.ID, Err: err}
		}
		return nil, next, nil
	}
	if err := checkResult(out); err != nil {
		return nil, nil, &world.Error{Op: op, Kind: world.KindBadOutput, Subject: d.desc.ID, Err: err}
	}
	return out, nil, nil
}

// commit makes the call an entry, and outcomes that are not durable yet with it. A crash
// before it leaves the intent of the last effect, or if that was recorded a recorded effect
// without an entry.
func (d *deed) commit(ctx context.Context, output jsontext.Value) (Result, error) {
	var objects []world.Object
	for _, r := range d.rounds {
		objects = append(objects, r.plan.object)
		for _, done := range r.dones {
			objects = append(objects, done.Objects...)
		}
	}
	return d.run.commit(ctx, output, d.rounds, objects, d.open)
}

// unrecorded names each effect by its record, or by its request while its outcome is
// unknown.
func unrecorded(effects []store.EffectTrace, cause error) error {
	e := &world.EffectsUnrecordedError{Cause: cause}
	for _, t := range effects {
		if t.Record.IsNone() {
			e.Refs = append(e.Refs, t.Request)
		} else {
			e.Refs = append(e.Refs, t.Record)
		}
	}
	return e
}

func asUnrecorded(err error) (*world.EffectsUnrecordedError, bool) {
	var e *world.EffectsUnrecordedError
	ok := errors.As(err, &e)
	return e, ok
}
