package coordinator

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Causes, for stderr.
var (
	errInFlight  = errors.New("a call with this task id is running")
	errOtherCall = errors.New("the task id was used for another skill or other arguments")
	errNoEntry   = errors.New("an earlier call with this task id planned effects and was not committed")
)

// effectful runs a transition under plan v1. Each step says what a crash in it leaves.
func (r *run) effectful(ctx context.Context) (Result, error) {
	// 1. Plan: pure; a crash leaves nothing.
	planText, err := capsule.RunObject(ctx, r.engine, r.source, phaseInput(r.input.Payload))
	if err != nil {
		return Result{}, err
	}
	p, err := parsePlan(r.desc, planText, r.provenance)
	if err != nil {
		return Result{}, &world.Error{Op: "coordinator.plan", Kind: world.KindConvention, Subject: r.desc.ID, Err: err}
	}
	r.c.cfg.Pause("call.planned")
	if len(p.effects) == 0 {
		out, err := withWorld(p.result, p, nil)
		if err != nil {
			return Result{}, err
		}
		return r.commit(ctx, out, p, nil, nil)
	}
	return r.perform(ctx, p)
}

// perform does the plan's effect and shapes the result.
func (r *run) perform(ctx context.Context, p *plan) (Result, error) {
	caller := broker.Caller{Invocation: r.id, Digest: r.digest, Session: r.call.Session, Provenance: r.provenance}
	// 2. Intent: debit, request and intent in one durable transaction. A crash before it
	// leaves nothing, after it an intent that is told as indeterminate and never retried.
	ticket, done, err := r.c.cfg.Broker.Intend(ctx, caller, p.effects[0])
	if err != nil {
		return Result{}, r.intentError(ctx, err)
	}
	if ticket == nil {
		return r.finish(ctx, p, *done)
	}
	return r.account(ctx, p, ticket)
}

// account does the effect of a durable intent. Whatever goes wrong from here on, a panic
// included, names what was done.
func (r *run) account(ctx context.Context, p *plan, ticket *broker.Ticket) (res Result, err error) {
	named := ticket.Request()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
		if err != nil {
			res, err = Result{}, &world.EffectsUnrecordedError{Refs: []world.Ref{named}, Cause: err}
		}
	}()
	r.c.cfg.Pause("effect.intended")
	// 3. The effect. The caller's going away does not stop it, the call's deadline does.
	ectx, cancel := withDeadlineOf(ctx)
	ticket.Run(ectx)
	cancel()
	select {
	case <-ticket.Ended():
	default:
		r.behind = ticket.Ended()
	}
	r.c.cfg.Pause("effect.performed")
	// 4. Outcome and record: from here on everything has a budget of its own. A crash
	// before the flush leaves the intent, after it a recorded effect without an entry.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DetachedBudget)
	defer cancel()
	done, err := ticket.Record(dctx)
	if err != nil {
		return Result{}, err
	}
	named = done.Record
	r.c.cfg.Pause("effect.recorded")
	// 5. Finish and commit.
	return r.finish(dctx, p, *done)
}

// withDeadlineOf is free of ctx's cancellation, but not of its deadline.
func withDeadlineOf(ctx context.Context) (context.Context, context.CancelFunc) {
	free := context.WithoutCancel(ctx)
	if d, ok := ctx.Deadline(); ok {
		return context.WithDeadline(free, d)
	}
	return context.WithCancel(free)
}

// intentError tells apart an intent that was never written, one that may have been, and
// one that an earlier try of the same task had written.
func (r *run) intentError(ctx context.Context, err error) error {
	const op = "coordinator.intend"
	switch world.KindOf(err) {
	case world.KindUncertain:
		// The effect was not and will not be performed, but the debit may stand: fail closed.
		var intent *broker.IntentError
		if errors.As(err, &intent) {
			return &world.EffectsUnrecordedError{Refs: []world.Ref{intent.Request}, Cause: err}
		}
	case world.KindBadRequest, world.KindTaskIDUsed:
		return &world.Error{Op: op, Kind: world.KindTaskIDUsed, Subject: string(r.id), Err: err}
	}
	return ended(ctx, op, &world.Error{Op: op, Kind: world.KindNotCommitted, Err: err})
}

// finish shapes the output, by the finish phase if the plan asks for it, and commits.
func (r *run) finish(ctx context.Context, p *plan, done broker.Done) (Result, error) {
	out, err := r.shape(ctx, p, done)
	if err != nil {
		return Result{}, err
	}
	r.c.cfg.Pause("call.finished")
	full, err := withWorld(out, p, []broker.Done{done})
	if err != nil {
		return Result{}, err
	}
	return r.commit(ctx, full, p, []world.Ref{done.Record}, done.Objects)
}

func (r *run) shape(ctx context.Context, p *plan, done broker.Done) (jsontext.Value, error) {
	if p.finish {
		out, err := capsule.RunObject(ctx, r.engine, r.source, finishInput(r.input.Payload, []broker.Done{done}))
		if err != nil {
			return nil, err
		}
		if err := checkResult(out); err != nil {
			return nil, &world.Error{Op: "coordinator.finish", Kind: world.KindBadOutput, Subject: r.desc.ID, Err: err}
		}
		return out, nil
	}
	switch done.Status {
	case broker.StatusOK:
		return done.Output, nil
	case broker.StatusDenied:
		return refusal(done.Reason), nil
	default:
		return refusal("effect failed: " + done.Reason), nil
	}
}

func refusal(text string) jsontext.Value {
	return hashref.MustMarshal(map[string]any{"ok": false, "refused": text})
}

// phaseInput is the input of the plan phase. Its fields stand in canonical order and hold
// canonical values, so the text is canonical; it may be one level deeper than arguments.
func phaseInput(args []byte) []byte {
	return hashref.Ordered(struct {
		Args  jsontext.Value `json:"args"`
		Phase string         `json:"phase"`
	}{args, "plan"})
}

// phaseResult is one effect as the finish phase is told of it, in canonical order.
type phaseResult struct {
	Denial string         `json:"denial,omitempty"`
	Effect string         `json:"effect"`
	ID     string         `json:"id"`
	Output jsontext.Value `json:"output"`
	Record world.Ref      `json:"record"`
	Status broker.Status  `json:"status"`
}

func finishInput(args []byte, dones []broker.Done) []byte {
	results := make([]phaseResult, len(dones))
	for i, d := range dones {
		results[i] = phaseResult{ID: d.ID, Effect: d.Effect, Status: d.Status, Record: d.Record, Output: jsontext.Value("null"), Denial: d.Reason}
		if d.Status == broker.StatusOK {
			results[i].Output = d.Output
		}
	}
	return hashref.Ordered(struct {
		Args    jsontext.Value `json:"args"`
		Phase   string         `json:"phase"`
		Results []phaseResult  `json:"results"`
	}{args, "finish", results})
}

// worldBlock is what every effectful output gains.
type worldBlock struct {
	Effects []worldEffect `json:"effects"`
	Plan    world.Ref     `json:"plan"`
}

type worldEffect struct {
	ID     string        `json:"id"`
	Record world.Ref     `json:"record"`
	Status broker.Status `json:"status"`
}

// withWorld adds the world block to a canonical object.
func withWorld(out jsontext.Value, p *plan, dones []broker.Done) (jsontext.Value, error) {
	block := worldBlock{Effects: []worldEffect{}, Plan: p.object.Hash}
	for _, d := range dones {
		block.Effects = append(block.Effects, worldEffect{ID: d.ID, Record: d.Record, Status: d.Status})
	}
	full, ok, err := hashref.Insert(out, reservedKey, hashref.Ordered(block))
	if err == nil && !ok {
		err = errReserved
	}
	return full, err
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
