package broker

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// jobEffect is the effect id under which a job's end is awaited.
const jobEffect = "end"

// lostJob is why a job has no result of its own.
const lostJob = "the daemon ended before the job did; its processes ended with it"

// Jobs keeps account of work that goes on after its call. The journal holds an intent of
// cost 0 under job:<id> from before a job is let go on until it has ended; the outcome is an
// effect record like any other. Answers spec/06-effects.md.
type Jobs struct{ Store brokerStore }

// Job is one piece of such work.
type Job struct {
	ID         string             // of its own; the same one is never used again
	Invocation world.InvocationID // the call that began it
	Credential world.Ref          // whose session that was; None if not known
	Episode    string
	Effect     string
	Scope      string
	Payload    jsontext.Value // a canonical object: what is being done
}

func (j *Job) invocation() world.InvocationID { return world.InvocationID(world.JobPrefix + j.ID) }

func (j *Job) provenance() string { return "broker:jobs" }

func (j *Job) request() world.Object {
	return world.NewObject(world.SemRequest, j.provenance(), hashref.Ordered(request{
		Effect: j.Effect, ID: jobEffect, InvocationID: j.invocation(), Payload: j.Payload, Scope: j.Scope,
	}))
}

// Begin makes the job's intent durable. If it fails, the job must not go on.
func (b *Jobs) Begin(ctx context.Context, j Job) error {
	req := j.request()
	d, err := b.Store.IntendEffect(ctx, store.EffectIntent{
		Invocation: j.invocation(), Digest: req.Hash, Credential: j.Credential, EffectID: jobEffect, Episode: j.Episode,
		Need: world.Need{Effect: j.Effect, Scope: j.Scope}, Budget: hashref.MaxInt, Request: req,
	})
	if err == nil && d.Denied { // not for an intent that costs nothing
		err = world.Errorf(world.KindInternal, "broker.Jobs", "the intent of job %s was denied", j.ID)
	}
	return err
}

// End makes the job's outcome durable: its result, a canonical object, or why there is none.
func (b *Jobs) End(ctx context.Context, j Job, result []byte, failed string) error {
	return b.end(ctx, j.invocation(), j.request().Hash, world.Need{Effect: j.Effect, Scope: j.Scope}, result, plain(failed))
}

// Lost ends a job that a daemon which is no more had begun, and tells of it. Other
// invocations are left alone.
func (b *Jobs) Lost(ctx context.Context, inv store.Invocation, object func(context.Context, world.Ref) (world.Object, error)) (told string, err error) {
	const op = "broker.Jobs"
	if len(inv.ID) <= len(world.JobPrefix) || inv.ID[:len(world.JobPrefix)] != world.JobPrefix || len(inv.Effects) != 1 {
		return "", nil
	}
	req, err := object(ctx, inv.Effects[0].Request)
	if err != nil {
		return "", err
	}
	var r request
	if err := hashref.DecodeKnown(req.Payload, &r); err != nil {
		return "", &world.Error{Op: op, Kind: world.KindIntegrity, Subject: req.Hash.String(), Err: err}
	}
	if err := b.end(ctx, inv.ID, req.Hash, world.Need{Effect: r.Effect, Scope: r.Scope}, nil, lostJob); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s (%s) had not ended when the daemon did: %s", inv.ID, r.Effect, lostJob), nil
}

func (b *Jobs) end(ctx context.Context, id world.InvocationID, req world.Ref, need world.Need, result []byte, failed string) error {
	o := outcomeOf("broker:jobs", id, jobEffect, req, need, store.Debit{}, result, failed)
	return b.Store.RecordOutcome(ctx, o)
}
