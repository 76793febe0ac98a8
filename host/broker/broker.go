package broker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// brokerStore is what the broker needs of the store.
type brokerStore interface {
	Spent(ctx context.Context, episode, effect, scope string) (int64, error)
	IntendEffect(ctx context.Context, i store.EffectIntent) (store.Debit, error)
	RecordOutcome(ctx context.Context, o store.EffectOutcome) error
}

// approvalBook is what the broker needs of the approvals.
type approvalBook interface {
	Ask(ctx context.Context, s approvals.Subject) (approvals.Approval, error)
	Take(ctx context.Context, s approvals.Subject, by world.InvocationID) (ok bool, err error)
}

// Broker stands between plans and handlers.
type Broker struct {
	Store brokerStore
	// Approvals may be nil where no declared effect needs one; such an effect is then denied.
	Approvals approvalBook
	Handlers  map[string]Handler // by effect name
	Now       func() time.Time
	Logf      func(format string, args ...any)
}

// Serve makes the table of handlers by effect name. Two handlers of one effect are a
// mistake in the assembly, and an error.
func Serve(handlers ...Handler) (map[string]Handler, error) {
	table := make(map[string]Handler)
	for _, h := range handlers {
		for _, e := range h.Effects() {
			if table[e] != nil {
				return nil, fmt.Errorf("broker: two handlers perform %s", e)
			}
			table[e] = h
		}
	}
	return table, nil
}

// Ready is rule R8: every declared effect must have a handler that can serve the episode,
// or nothing runs. The error is KindNoHandler and says for the operator what is missing.
func (b *Broker) Ready(ctx context.Context, episode string, declared []world.Need) error {
	for _, n := range declared {
		err := errors.New("no handler of this daemon performs it")
		if h := b.Handlers[n.Effect]; h != nil {
			err = h.Ready(ctx, episode, n.Effect, n.Scope)
		}
		if err != nil {
			return &world.Error{Op: "broker.Ready", Kind: world.KindNoHandler, Subject: n.Effect + " in episode " + episode, Err: err}
		}
	}
	return nil
}

// Caller is on whose behalf effects are performed.
type Caller struct {
	Invocation   world.InvocationID
	Digest       world.Ref
	Session      world.Session
	Transition   string
	TransitionFn world.Ref
	Provenance   string
	Lease        store.Lease // of the episode
}

// Planned is one effect of a plan.
type Planned struct {
	ID      string
	Need    world.Need
	Payload jsontext.Value // canonical JSON object
}

// Status is how an effect ended.
type Status string

// The statuses of seed and wire.
const (
	StatusOK      Status = "ok"
	StatusFailed  Status = "failed"
	StatusDenied  Status = "denied"
	StatusSkipped Status = "skipped"
)

// Done is one effect that has ended.
type Done struct {
	ID     string
	Effect string
	Status Status
	Record world.Ref
	// Output is the handler's answer; nil unless Status is StatusOK.
	Output []byte
	// Reason is the denial or failure, as callers are told it.
	Reason string
	// Approval is the id of the approval that a denied effect waits for.
	Approval string
	// Objects are still to be stored with the call's entry: a denial's request and record.
	Objects []world.Object
	// Outcome of an effect that was performed is still to be made durable: by Record, or
	// with the next intent, or with the call's entry. Nil if there is none.
	Outcome *store.EffectOutcome
}

// Ticket is an effect whose intent is durable: the right and the duty to perform it once.
type Ticket struct {
	broker  *Broker
	caller  Caller
	planned Planned
	request world.Object
	debit   store.Debit

	output []byte
	reason string        // of a failure
	left   bool          // the handler was left behind
	ended  chan struct{} // closed when the handler has returned
}

// Request is the effect request's reference.
func (t *Ticket) Request() world.Ref { return t.request.Hash }

// Left gives, after Run, a channel that is closed when a handler that was left behind has
// returned; nil if none was.
func (t *Ticket) Left() <-chan struct{} {
	if !t.left {
		return nil
	}
	return t.ended
}

// IntentError is an intent that the store did not confirm.
type IntentError struct {
	Request world.Ref // the effect request, which is in the store if the intent is
	Err     error
}

func (e *IntentError) Error() string {
	return "effect intent " + e.Request.String() + ": " + e.Err.Error()
}

func (e *IntentError) Unwrap() error { return e.Err }

// record is world/effect-record/v1.
type record struct { // in canonical order, and so is request
	Allowed      bool      `json:"allowed"`
	Approval     string    `json:"approval,omitempty"`
	BudgetAfter  int64     `json:"budgetAfter"`
	BudgetBefore int64     `json:"budgetBefore"`
	Cost         int64     `json:"cost"`
	Denial       string    `json:"denial"`
	Effect       string    `json:"effect"`
	Failed       bool      `json:"failed"`
	RequestRef   world.Ref `json:"requestRef"`
	ResultRef    world.Ref `json:"resultRef"`
	Scope        string    `json:"scope"`
}

// request is world/effect-request/v1.
type request struct {
	Cost         int64              `json:"cost"`
	Effect       string             `json:"effect"`
	ID           string             `json:"id"`
	InvocationID world.InvocationID `json:"invocationId"`
	Payload      jsontext.Value     `json:"payload"`
	Scope        string             `json:"scope"`
}

func requestOf(c Caller, p Planned) world.Object {
	return world.NewObject(world.SemRequest, c.Provenance, hashref.Ordered(request{
		p.Need.Cost, p.Need.Effect, p.ID, c.Invocation, p.Payload, p.Need.Scope,
	}))
}

// Intend decides, and if authority and budget allow it makes the intent durable: then a
// Ticket is returned, else a Done that says why not. A denial spends and writes nothing.
// An IntentError of kind KindUncertain means that the intent may be durable; the effect must
// not be performed then. With the intent the outcomes of earlier effects of the call become
// durable; they do not with a denial.
func (b *Broker) Intend(ctx context.Context, c Caller, p Planned, earlier []store.EffectOutcome) (*Ticket, *Done, error) {
	req := requestOf(c, p)
	denial, budget := c.Session.Decide(p.Need, 0, b.Now())
	if denial != "" || p.Need.Approval {
		left, err := b.left(ctx, c, p.Need, budget)
		if err != nil {
			return nil, nil, err
		}
		if denial == "" && p.Need.Cost > left {
			denial = world.DeniedBudget // a person is asked only for what could then be done
		}
		left = max(0, left)
		if denial != "" {
			return nil, denied(c, p, req, denial, left, ""), nil
		}
		if no, err := b.approved(ctx, c, p, req, left); no != nil || err != nil {
			return nil, no, err
		}
	}
	debit, err := b.Store.IntendEffect(ctx, store.EffectIntent{
		Invocation: c.Invocation, Digest: c.Digest, Credential: c.Session.ID, EffectID: p.ID, Episode: c.Session.Episode,
		Need: p.Need, Budget: budget, Request: req, Outcomes: earlier, Lease: c.Lease,
	})
	if err != nil {
		return nil, nil, &IntentError{Request: req.Hash, Err: err}
	}
	if debit.Denied {
		return nil, denied(c, p, req, world.DeniedBudget, debit.Before, ""), nil
	}
	return &Ticket{broker: b, caller: c, planned: p, request: req, debit: debit, ended: make(chan struct{})}, nil, nil
}

// left is what is left of a budget. It is below zero where other sessions of the episode
// spent more than this one was granted: then not even what costs nothing can be done.
func (b *Broker) left(ctx context.Context, c Caller, n world.Need, budget int64) (int64, error) {
	spent, err := b.Store.Spent(ctx, c.Session.Episode, n.Effect, n.Scope)
	return budget - spent, err
}

// approved uses up the approval of exactly this effect, or asks for one and says no. What
// is used up stays so, whatever becomes of the effect.
func (b *Broker) approved(ctx context.Context, c Caller, p Planned, req world.Object, left int64) (no *Done, err error) {
	reason, id := ": this daemon asks nobody", ""
	if b.Approvals != nil {
		subject := approvals.Subject{Effect: p.Need.Effect, Episode: c.Session.Episode, Payload: p.Payload, Scope: p.Need.Scope,
			Transition: c.Transition, TransitionFn: c.TransitionFn}
		if ok, err := b.Approvals.Take(ctx, subject, c.Invocation); ok || err != nil {
			return nil, err
		}
		if reason, id, err = b.ask(ctx, subject); err != nil {
			return nil, err
		}
	}
	no = denied(c, p, req, world.DeniedApproval+world.Denial(reason), left, id)
	return no, nil
}

// ask asks for an approval, and says what the caller is to do.
func (b *Broker) ask(ctx context.Context, s approvals.Subject) (reason, id string, err error) {
	a, err := b.Approvals.Ask(ctx, s)
	switch {
	case world.KindOf(err) == world.KindCapacity && err != nil:
		return ": " + world.Message(err), "", nil
	case err != nil:
		return "", "", err
	case a.State == approvals.Denied && a.Note != "":
		return ": a person said no to approval " + a.ID + ": " + a.Note, a.ID, nil
	case a.State == approvals.Denied:
		return ": a person said no to approval " + a.ID, a.ID, nil
	}
	return ": a person must approve exactly this call first; approval " + a.ID +
		" is asked for. Poll it, and when it is granted call again with the same arguments", a.ID, nil
}

// denied is the outcome of an effect that was not allowed; approval names what it waits for.
func denied(c Caller, p Planned, req world.Object, why world.Denial, left int64, approval string) *Done {
	rec := world.NewObject(world.SemEffect, c.Provenance, hashref.Ordered(record{
		Approval: approval,
		Effect:   p.Need.Effect, Scope: p.Need.Scope, Cost: p.Need.Cost,
		BudgetBefore: left, BudgetAfter: left, Denial: string(why), RequestRef: req.Hash,
	}))
	return &Done{ID: p.ID, Effect: p.Need.Effect, Status: StatusDenied, Record: rec.Hash, Reason: string(why), Approval: approval,
		Objects: []world.Object{req, rec}}
}

// Run performs the effect: once, never again. It does not fail; what went wrong is part of
// what Done tells. Causes go to stderr. A handler that does not stop when its time is
// over is left behind after StopGrace: the effect is then failed, the reason says that it may
// still take place, and Left tells when it cannot any more.
func (t *Ticket) Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience(t.broker.Handlers[t.planned.Need.Effect], t.planned.Need))
	defer cancel()
	out, err := t.bounded(ctx)
	if err == nil {
		t.output, err = checkOutput(out)
	}
	if err == nil {
		return
	}
	t.reason = plain(world.Message(err))
	switch {
	case t.reason != "":
	case ctx.Err() != nil:
		t.reason = "it ran out of time"
	default:
		t.reason = "internal failure"
	}
	t.tell("effect failed", err)
}

// plain makes a handler's message fit to be stored and told: UTF-8, at most MaxReason bytes.
func plain(text string) string {
	if len(text) > MaxReason {
		text = text[:MaxReason] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (t *Ticket) tell(what string, err error) {
	t.broker.Logf("%s: invocation %s effect %s %s: %v", what, t.caller.Invocation, t.planned.ID, t.planned.Need.Effect, err)
}

// answer is what a handler gave.
type answer struct {
	out []byte
	err error
}

// bounded waits for the handler until ctx ends, and StopGrace longer.
func (t *Ticket) bounded(ctx context.Context) ([]byte, error) {
	done, left := make(chan answer), make(chan struct{})
	go func() {
		defer close(t.ended)
		var a answer
		a.out, a.err = t.perform(ctx)
		select {
		case done <- a:
		case <-left:
			t.tell("an effect that was given up has ended", a.err)
		}
	}()
	select {
	case a := <-done:
		return a.out, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(StopGrace)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.out, a.err
	case <-timer.C:
		close(left)
		t.left = true
		return nil, &world.Error{Op: "broker.Run", Kind: world.KindDeadline, Err: ctx.Err(),
			Msg: "it ran out of time and did not stop; it may still take place"}
	}
}

func (t *Ticket) perform(ctx context.Context) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	h := t.broker.Handlers[t.planned.Need.Effect]
	if h == nil {
		return nil, errors.New("no handler")
	}
	return h.Perform(ctx, Request{
		Invocation: t.caller.Invocation, Episode: t.caller.Session.Episode, EffectID: t.planned.ID,
		Transition: t.caller.Transition, TransitionFn: t.caller.TransitionFn,
		Need: t.planned.Need, Payload: t.planned.Payload,
	})
}

// checkOutput holds a handler's answer to the laws of outputs.
func checkOutput(raw []byte) ([]byte, error) {
	if len(raw) > MaxEffectOutput {
		return nil, world.Errorf(world.KindTooLarge, "broker.Run", "the effect's output is larger than %d bytes", MaxEffectOutput)
	}
	out, err := hashref.CanonicalObject(raw)
	if err != nil {
		return nil, fmt.Errorf("handler's output %w", err)
	}
	there, err := hashref.Has(out, "world")
	if err == nil && there {
		err = errors.New(`handler's output holds the reserved key "world"`)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Done tells how the effect ended, once Run has returned. Its outcome is not durable yet.
func (t *Ticket) Done() Done {
	d := Done{ID: t.planned.ID, Effect: t.planned.Need.Effect, Status: StatusOK, Output: t.output}
	if t.output == nil {
		d.Status, d.Reason = StatusFailed, t.reason
	}
	o := outcomeOf(t.caller.Provenance, t.caller.Invocation, t.planned.ID, t.request.Hash, t.planned.Need, t.debit, t.output, t.reason)
	d.Record, d.Outcome = o.Record, &o
	return d
}

// outcomeOf is the outcome of an effect that was allowed. Without an output it failed.
func outcomeOf(provenance string, id world.InvocationID, effect string, req world.Ref, need world.Need, d store.Debit, output []byte, failed string) store.EffectOutcome {
	payload := output
	if payload == nil {
		payload = hashref.MustMarshal(map[string]string{"failed": failed})
	}
	result := world.NewObject(world.SemResult, provenance, payload)
	rec := world.NewObject(world.SemEffect, provenance, hashref.Ordered(record{
		Effect: need.Effect, Scope: need.Scope, Cost: need.Cost, BudgetBefore: d.Before, BudgetAfter: d.After,
		Allowed: true, Failed: output == nil, RequestRef: req, ResultRef: result.Hash,
	}))
	return store.EffectOutcome{Invocation: id, EffectID: effect, Record: rec.Hash, Objects: []world.Object{result, rec}}
}

// Record makes an outcome, its effect record and result durable. On an error the intent
// stands without an outcome; the effect is unaccounted for by record, but not by intent and
// spend.
func (b *Broker) Record(ctx context.Context, o store.EffectOutcome) error {
	return b.Store.RecordOutcome(ctx, o)
}
