package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// run is one admitted call on its way.
type run struct {
	c          *Coordinator
	call       Call
	id         world.InvocationID
	digest     world.Ref
	desc       *world.Descriptor
	engine     capsule.Engine
	source     capsule.Source
	input      world.Object
	provenance string

	freeEpisode, freeSlot func()
	lease                 store.Lease     // of the episode, where other daemons write too
	behind                <-chan struct{} // unless nil, closed when a handler left behind has ended
}

// Invoke runs one call and answers after its entry is durable, with a result also for
// refusals by plan, denials and failed effects. An EffectsUnrecordedError says that effects
// were asked for and the call is not confirmed to be an entry; callers check it first. With
// KindUnconfirmed the call may be an entry, and the same task id finds out. After any other
// error there is none: it is of one of the kinds from KindNotAuthorized on, KindBadRequest
// for a task id or arguments past their bounds, or what a read of the store failed with.
func (c *Coordinator) Invoke(ctx context.Context, call Call) (Result, error) {
	c.running.Add(1)
	defer c.running.Done()
	ctx, cancel := context.WithTimeout(ctx, call.deadline())
	defer cancel()
	r := &run{c: c, call: call, provenance: call.Surface.Writer()}
	res, err := r.invoke(ctx)
	return res, explained(ctx, err)
}

// explained gives waits that ended before anything was done, and failures that the
// context's end explains, the kind KindDeadline or KindCanceled.
func explained(ctx context.Context, err error) error {
	switch world.KindOf(err) {
	case world.KindTimeout, world.KindExecution, world.KindInternal:
		if _, unrecorded := asUnrecorded(err); !unrecorded {
			return ended(ctx, "coordinator.Invoke", err)
		}
	}
	return err
}

func (r *run) invoke(ctx context.Context) (Result, error) {
	// 1. Admission: nothing that this session saw earlier counts.
	sctx, end := r.c.step(ctx, StepAdmit)
	err := r.admit(sctx)
	if end(err); err != nil {
		return Result{}, err
	}
	// 2. The id is taken in memory; a crash frees it, and what the journal holds of it decides.
	release, err := r.claim()
	if err != nil {
		return Result{}, err
	}
	defer release()
	if r.call.Task != "" {
		if res, found, err := r.earlier(ctx); found || err != nil {
			return res, err
		}
	}
	// 3. What must be there before anything runs.
	if err := r.prepare(ctx); err != nil {
		return Result{}, err
	}
	r.c.cfg.Pause("call.admitted")
	// 4. The episode's order, then a slot.
	sctx, end = r.c.step(ctx, StepWait)
	err = r.enter(sctx)
	if end(err); err != nil {
		return Result{}, err
	}
	defer r.leave()
	if r.lease != (store.Lease{}) && r.call.Task != "" {
		// Another daemon may have made this call meanwhile.
		if res, found, err := r.earlier(ctx); found || err != nil {
			return res, err
		}
	}
	res, err := r.run(ctx)
	if world.KindOf(err) == world.KindTaskIDUsed {
		// An earlier try, whose outcome was not known then, landed meanwhile.
		if again, found, readErr := r.earlier(ctx); found {
			return again, readErr
		}
	}
	return res, err
}

func (r *run) run(ctx context.Context) (Result, error) {
	if r.desc.Pure() {
		return r.pure(ctx)
	}
	return r.effectful(ctx)
}

func (r *run) admit(ctx context.Context) error {
	const op = "coordinator.admit"
	actx, cancel := context.WithTimeout(ctx, AdmitDeadline)
	defer cancel()
	view, err := r.c.cfg.Registry.View(actx, r.call.Session)
	if err != nil {
		return ended(actx, op, fmt.Errorf("%s: %w", op, err))
	}
	for _, d := range view {
		if d.ID == r.call.Skill {
			r.desc = d
		}
	}
	if r.desc == nil {
		return &world.Error{Op: op, Kind: world.KindNotAuthorized, Subject: r.call.Skill}
	}
	if !r.call.Pin.IsNone() && r.call.Pin != r.desc.TransitionFn {
		return &world.Error{Op: op, Kind: world.KindPinMismatch, Subject: r.call.Skill,
			Err: fmt.Errorf("pinned %s, registered %s", r.call.Pin, r.desc.TransitionFn)}
	}
	return nil
}

// claim fixes the invocation's id and what it stands for, and takes it.
func (r *run) claim() (release func(), err error) {
	task := r.call.Task
	if len(r.call.Args) > MaxArgs {
		return nil, world.Errorf(world.KindBadRequest, "coordinator.claim", "arguments must be at most %d bytes", MaxArgs)
	}
	if task == "" {
		raw := make([]byte, 16)
		if _, err := rand.Read(raw); err != nil {
			return nil, err
		}
		task = hex.EncodeToString(raw)
	} else if !ValidTask(task) {
		return nil, world.Errorf(world.KindBadRequest, "coordinator.claim", "task id must be 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	r.id = r.call.id(task)
	r.input = world.NewObject(world.SemInput, r.provenance, r.call.Args)
	r.digest = hashref.Sum(hashref.Ordered(callDigest{r.input.Hash, r.call.Skill}))
	release, ok := r.c.flights.claim(r.id)
	if !ok {
		return nil, &world.Error{Op: "coordinator.claim", Kind: world.KindTaskIDUsed, Subject: string(r.id), Err: ErrInFlight}
	}
	return release, nil
}

// earlier answers from what the journal says of the id: the committed result again, or
// for ever the effects of a call that never became an entry.
func (r *run) earlier(ctx context.Context) (Result, bool, error) {
	inv, err := r.c.cfg.Store.Invocation(ctx, r.id)
	if err == nil && inv.State == store.StateOpen && inv.Digest == r.digest {
		inv, err = r.outlive(ctx, inv)
	}
	if err != nil {
		return Result{}, false, err
	}
	if inv.State == store.StateUnknown {
		return Result{}, false, nil
	}
	if inv.Digest != r.digest {
		return Result{}, true, &world.Error{Op: "coordinator.earlier", Kind: world.KindTaskIDUsed, Subject: string(r.id), Err: errOtherCall}
	}
	if inv.State == store.StateOpen {
		return Result{}, true, unrecorded(inv.Effects, errNoEntry)
	}
	res, err := r.replay(ctx, inv)
	return res, true, err
}

// outlive waits until no other daemon is at work on a call that is open, which is so once this one
// has had its episode. What the journal says of the call then, it says for ever.
func (r *run) outlive(ctx context.Context, open store.Invocation) (store.Invocation, error) {
	shared, ok := r.c.cfg.Store.(leaser)
	if !ok || r.lease != (store.Lease{}) {
		return open, nil
	}
	l, err := shared.TakeEpisode(ctx, r.call.Session.Episode)
	if err != nil {
		return open, ended(ctx, "coordinator.outlive", err)
	}
	defer shared.GiveEpisode(l)
	return r.c.cfg.Store.Invocation(ctx, r.id)
}

// replay reads a committed result back.
func (r *run) replay(ctx context.Context, inv store.Invocation) (Result, error) {
	entry, err := r.c.cfg.Store.Entry(ctx, inv.EntryIndex)
	if err != nil {
		return Result{}, err
	}
	rec, err := r.c.cfg.Store.Object(ctx, entry.TransitionRef)
	if err != nil {
		return Result{}, err
	}
	var body struct {
		Output world.Ref `json:"output"`
	}
	if err := hashref.DecodeKnown(rec.Payload, &body); err != nil {
		return Result{}, &world.Error{Op: "coordinator.replay", Kind: world.KindIntegrity, Subject: rec.Hash.String(), Err: err}
	}
	out, err := r.c.cfg.Store.Object(ctx, body.Output)
	if err != nil {
		return Result{}, err
	}
	return Result{Invocation: r.id, Output: out.Payload, World: inv.World, Entry: inv.EntryIndex, Replayed: true}, nil
}

// prepare finds the world, the engine, the handlers and the source.
func (r *run) prepare(ctx context.Context) error {
	const op = "coordinator.prepare"
	if !r.c.begun.Load() { // a world that has begun never ends; the commit proves the head
		if _, err := r.c.cfg.Store.Head(ctx); err != nil {
			return err
		}
		r.c.begun.Store(true)
	}
	r.engine = r.c.cfg.Engines.ByRef(r.desc.Interpreter)
	if r.engine == nil {
		return &world.Error{Op: op, Kind: world.KindEngineMissing, Subject: r.desc.Interpreter.String()}
	}
	if err := r.c.cfg.Broker.Ready(ctx, r.call.Session.Episode, r.desc.DeclaredEffects); err != nil {
		return err
	}
	var err error
	r.source, err = r.c.source(ctx, r.desc.TransitionFn)
	return err
}

// enter takes the episode's order, for effectful calls, and then a slot.
func (r *run) enter(ctx context.Context) (err error) {
	r.freeEpisode, r.freeSlot = func() {}, func() {}
	if !r.desc.Pure() {
		if err = r.enterEpisode(ctx); err != nil {
			return err
		}
	}
	if r.call.Slot == nil {
		return nil
	}
	free, err := r.call.Slot(ctx)
	if err != nil {
		r.freeEpisode()
		return err
	}
	r.freeSlot = free
	return nil
}

// enterEpisode takes the order among this daemon's calls, and then among daemons.
func (r *run) enterEpisode(ctx context.Context) error {
	free, err := r.c.episodes.enter(ctx, r.call.Session.Episode, r.writes())
	if err != nil {
		return err
	}
	shared, ok := r.c.cfg.Store.(leaser)
	if !ok {
		r.freeEpisode = free
		return nil
	}
	if r.lease, err = shared.TakeEpisode(ctx, r.call.Session.Episode); err != nil {
		free()
		return ended(ctx, "coordinator.enter", err)
	}
	r.freeEpisode = func() {
		shared.GiveEpisode(r.lease)
		free()
	}
	return nil
}

// leave gives both back. While a handler that was left behind may still write, the episode
// stays its own.
func (r *run) leave() {
	r.freeSlot()
	if r.behind == nil {
		r.freeEpisode()
		return
	}
	r.c.running.Add(1)
	go func() {
		defer r.c.running.Done()
		<-r.behind
		r.freeEpisode()
	}()
}

func (r *run) writes() bool {
	for _, n := range r.desc.DeclaredEffects {
		if !world.EffectReads(n.Effect) {
			return true
		}
	}
	return false
}

// pure runs a transition without effects. A crash anywhere in it leaves nothing.
func (r *run) pure(ctx context.Context) (Result, error) {
	sctx, end := r.c.step(ctx, StepRun)
	out, err := r.c.turns.run(sctx, r.engine, r.source, r.input.Payload)
	if end(err); err != nil {
		return Result{}, err
	}
	if err := checkResult(out); err != nil {
		return Result{}, &world.Error{Op: "coordinator.pure", Kind: world.KindBadOutput, Subject: r.desc.ID, Err: err}
	}
	r.c.cfg.Pause("call.finished")
	return r.commit(ctx, out, nil, nil, nil)
}

// callDigest is what a task id stands for. Its fields are in canonical order, and so are
// those of invocationRecord.
type callDigest struct {
	Input   world.Ref `json:"input"`
	SkillID string    `json:"skillId"`
}

// invocationRecord is world/invocation-record/v1; v2 has the effects and the plan of plan
// v1, v3 the rounds of plan v2.
type invocationRecord struct {
	Effects        *[]world.Ref       `json:"effects,omitzero"` // [] for a plan without any
	EpisodeID      string             `json:"episodeId"`
	Input          world.Ref          `json:"input"`
	Interpreter    world.Ref          `json:"interpreter"`
	InvocationID   world.InvocationID `json:"invocationId"`
	Output         world.Ref          `json:"output"`
	Plan           *world.Ref         `json:"plan,omitzero"`
	Rounds         []recordRound      `json:"rounds,omitzero"`
	SemanticsEpoch int64              `json:"semanticsEpoch"`
	SkillID        string             `json:"skillId"`
	TransitionFn   world.Ref          `json:"transitionFn"`
}

type recordRound struct {
	Effects []world.Ref `json:"effects"`
	Plan    world.Ref   `json:"plan"`
}

// plans names the rounds of an effectful call in the record, and gives its semantic id.
func (rec *invocationRecord) plans(rounds []round) string {
	if len(rounds) == 0 {
		return world.SemRecordV1
	}
	for _, r := range rounds {
		rr := recordRound{Plan: r.plan.object.Hash, Effects: []world.Ref{}}
		for _, d := range r.dones {
			if d.Status != broker.StatusSkipped {
				rr.Effects = append(rr.Effects, d.Record)
			}
		}
		rec.Rounds = append(rec.Rounds, rr)
	}
	if rounds[0].plan.version == 2 {
		return world.SemRecordV3
	}
	rec.Plan, rec.Effects, rec.Rounds = &rec.Rounds[0].Plan, &rec.Rounds[0].Effects, nil
	return world.SemRecordV2
}

// commit makes the call an entry. A crash before the flush leaves none, after it the
// entry, which the same task id then finds.
func (r *run) commit(ctx context.Context, output jsontext.Value, rounds []round, objects []world.Object, outcomes []store.EffectOutcome) (Result, error) {
	out := world.NewObject(world.SemOutput, r.provenance, output)
	rec := invocationRecord{
		InvocationID: r.id, EpisodeID: r.call.Session.Episode, SkillID: r.desc.ID,
		TransitionFn: r.desc.TransitionFn, Interpreter: r.desc.Interpreter, SemanticsEpoch: r.desc.SemanticsEpoch,
		Input: r.input.Hash, Output: out.Hash,
	}
	semantic := rec.plans(rounds)
	objects = append(objects, r.input, out)
	recObj := world.NewObject(semantic, r.provenance, hashref.Ordered(rec))
	r.c.cfg.Pause("call.before-commit")
	sctx, end := r.c.step(ctx, StepCommit)
	done, err := r.c.cfg.Store.Append(sctx, store.Append{
		Invocation: r.id, Digest: r.digest, Credential: r.call.Session.ID,
		Objects:      append(objects, recObj),
		TransitionFn: r.desc.TransitionFn, Interpreter: r.desc.Interpreter, SemanticsEpoch: r.desc.SemanticsEpoch,
		WrittenBy: r.provenance, TransitionRef: recObj.Hash, StateRoot: out.Hash, Outcomes: outcomes, Lease: r.lease,
	})
	if end(err); err != nil {
		return Result{}, commitError(ctx, err)
	}
	r.c.cfg.Pause("call.committed")
	return Result{Invocation: r.id, Output: output, World: done.World.Ref, Entry: done.Entry.Header.EntryIndex}, nil
}

// commitError says what a failed append means for the caller.
func commitError(ctx context.Context, err error) error {
	const op = "coordinator.commit"
	switch world.KindOf(err) {
	case world.KindUncertain:
		return &world.Error{Op: op, Kind: world.KindUnconfirmed, Err: err}
	case world.KindTimeout:
		return ended(ctx, op, &world.Error{Op: op, Kind: world.KindNotCommitted, Err: err})
	case world.KindHeadConflict, world.KindTaskIDUsed, world.KindNoWorld, world.KindCapacity:
		return err
	}
	return &world.Error{Op: op, Kind: world.KindNotCommitted, Err: err}
}
