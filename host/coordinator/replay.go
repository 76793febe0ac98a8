package coordinator

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Replayer runs the pure phases of entries again. It calls no handler and writes nothing.
type Replayer struct {
	Store   replayStore
	Engines capsule.Set
}

// replayStore is what a Replayer reads.
type replayStore interface {
	Entry(ctx context.Context, index int64) (world.Entry, error)
	Object(ctx context.Context, ref world.Ref) (world.Object, error)
}

// Replay is what became of one entry that was run again.
type Replay struct {
	Index int64              `json:"index"`
	Call  world.InvocationID `json:"call,omitzero"`
	Tool  string             `json:"tool,omitzero"`
	// Phases is how many pure phases were run.
	Phases int `json:"phases"`
	// Skipped says why it could not be run: no call made it, or its engine is not in this
	// program.
	Skipped string `json:"skipped,omitzero"`
	// Diverged says where what came out is not what the entry says: "plan", "round 2: plan",
	// "output". Want is the log's, Got what came now, or why nothing did.
	Diverged string `json:"diverged,omitzero"`
	Want     string `json:"want,omitzero"`
	Got      string `json:"got,omitzero"`
}

// Replay runs one entry's pure phases again on the engine that it pins, feeds them what
// the effects gave then, and demands the same bytes. What does not come out the same is
// part of the answer; an error says that the record could not be read, or ctx ended.
func (p *Replayer) Replay(ctx context.Context, index int64) (Replay, error) {
	e, err := p.Store.Entry(ctx, index)
	if err != nil {
		return Replay{}, err
	}
	a := &again{p: p, ctx: ctx, out: Replay{Index: index}}
	if len(e.Header.WrittenBy) <= len(world.WriterPrefix) || e.Header.WrittenBy[:len(world.WriterPrefix)] != world.WriterPrefix {
		a.out.Skipped = "no call made it"
		return a.out, nil
	}
	if err := a.load(e); err != nil {
		return a.out, err
	}
	if a.engine == nil {
		a.out.Skipped = "its engine " + a.rec.Interpreter.String() + " is not in this program"
		return a.out, nil
	}
	err = a.run()
	if ctx.Err() != nil {
		return a.out, world.Wrap(world.KindTimeout, "coordinator.Replay", context.Cause(ctx))
	}
	return a.out, err
}

// again is one entry on its way through.
type again struct {
	p      *Replayer
	ctx    context.Context
	out    Replay
	rec    invocationRecord
	rounds []recordRound
	engine capsule.Engine
	source capsule.Source
	input  []byte
	want   []byte // the output
}

func (a *again) object(ref world.Ref) ([]byte, error) {
	o, err := a.p.Store.Object(a.ctx, ref)
	return o.Payload, err
}

// read decodes an object's payload.
func (a *again) read(ref world.Ref, v any) error {
	text, err := a.object(ref)
	if err != nil {
		return err
	}
	if err := hashref.DecodeKnown(text, v); err != nil {
		return &world.Error{Op: "coordinator.Replay", Kind: world.KindIntegrity, Subject: ref.String(), Err: err}
	}
	return nil
}

func (a *again) load(e world.Entry) error {
	if err := a.read(e.TransitionRef, &a.rec); err != nil {
		return err
	}
	a.out.Call, a.out.Tool = a.rec.InvocationID, a.rec.SkillID
	a.rounds = a.rec.Rounds
	if a.rec.Plan != nil && a.rec.Effects != nil {
		a.rounds = []recordRound{{Plan: *a.rec.Plan, Effects: *a.rec.Effects}}
	}
	if a.engine = a.p.Engines.ByRef(a.rec.Interpreter); a.engine == nil {
		return nil
	}
	text, err := a.object(a.rec.TransitionFn)
	if err != nil {
		return err
	}
	a.source = capsule.Source{Ref: a.rec.TransitionFn, Text: text}
	if a.input, err = a.object(a.rec.Input); err != nil {
		return err
	}
	a.want, err = a.object(a.rec.Output)
	return err
}

// phase runs main once and holds what comes out to what is expected.
func (a *again) phase(what string, input, want []byte) bool {
	a.out.Phases++
	got, err := capsule.RunObject(a.ctx, a.engine, a.source, input)
	if err != nil {
		got = []byte(err.Error())
	}
	return a.same(what, got, want) && err == nil
}

func (a *again) same(what string, got, want []byte) bool {
	if bytes.Equal(got, want) {
		return true
	}
	a.out.Diverged, a.out.Want, a.out.Got = what, string(want), string(got)
	return false
}

func (a *again) run() error {
	if len(a.rounds) == 0 {
		a.phase("output", a.input, a.want)
		return nil
	}
	var rounds []round
	input := phaseInput(a.input)
	for i, rr := range a.rounds {
		text, err := a.object(rr.Plan)
		if err != nil {
			return err
		}
		what := "plan"
		if i > 0 {
			what = fmt.Sprintf("round %d: plan", i+1)
		}
		if !a.phase(what, input, text) {
			return nil
		}
		p, err := parsePlan(anyNeed, text, "")
		if err != nil {
			return &world.Error{Op: "coordinator.Replay", Kind: world.KindIntegrity, Subject: rr.Plan.String(), Err: err}
		}
		dones, err := a.dones(p, rr)
		if err != nil {
			return err
		}
		rounds = append(rounds, round{plan: p, dones: dones})
		input = finishInput(a.input, rounds)
	}
	return a.finish(rounds, input)
}

// anyNeed takes every effect for declared: what was performed was.
func anyNeed(n world.Need) (world.Need, bool) { return n, true }

// finish shapes the output once more.
func (a *again) finish(rounds []round, input []byte) error {
	last := rounds[len(rounds)-1].plan
	var out jsontext.Value
	if last.finish {
		a.out.Phases++
		var err error
		if out, err = capsule.RunObject(a.ctx, a.engine, a.source, input); err != nil {
			a.same("output", []byte(err.Error()), a.want)
			return nil
		}
	} else {
		out = plain(rounds)
	}
	full, err := withWorld(out, rounds)
	if err != nil {
		full = []byte(err.Error())
	}
	a.same("output", full, a.want)
	return nil
}

// dones is how a round's effects ended, as their records tell it.
func (a *again) dones(p *plan, rr recordRound) ([]broker.Done, error) {
	var dones []broker.Done
	for i, e := range p.effects {
		if i >= len(rr.Effects) {
			dones = append(dones, broker.Done{ID: e.ID, Effect: e.Need.Effect, Status: broker.StatusSkipped})
			continue
		}
		d, err := a.done(e, rr.Effects[i])
		if err != nil {
			return nil, err
		}
		dones = append(dones, d)
	}
	return dones, nil
}

func (a *again) done(e broker.Planned, ref world.Ref) (broker.Done, error) {
	var rec struct {
		Allowed   bool      `json:"allowed"`
		Approval  string    `json:"approval"`
		Denial    string    `json:"denial"`
		Failed    bool      `json:"failed"`
		ResultRef world.Ref `json:"resultRef"`
	}
	if err := a.read(ref, &rec); err != nil {
		return broker.Done{}, err
	}
	d := broker.Done{ID: e.ID, Effect: e.Need.Effect, Record: ref, Status: broker.StatusOK}
	if !rec.Allowed {
		d.Status, d.Reason, d.Approval = broker.StatusDenied, rec.Denial, rec.Approval
		return d, nil
	}
	text, err := a.object(rec.ResultRef)
	if err != nil || !rec.Failed {
		d.Output = text
		return d, err
	}
	var failed struct {
		Failed string `json:"failed"`
	}
	d.Status = broker.StatusFailed
	err = a.read(rec.ResultRef, &failed)
	d.Reason = failed.Failed
	return d, err
}
