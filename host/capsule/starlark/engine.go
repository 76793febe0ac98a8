package starlark

import (
	"context"
	"errors"
	"fmt"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

// Config is how an Engine is to run sources.
type Config struct {
	// Trusted names the sources that ship inside the binary and may run in this process.
	// nil trusts none.
	Trusted func(world.Ref) bool
	// WorkerCommand is the command line, its program an absolute path, of a process that
	// does nothing but call WorkerMain. Without one, sources that are not trusted fail.
	WorkerCommand []string
}

// Engine implements capsule.Engine.
type Engine struct {
	identity capsule.Identity
	trusted  func(world.Ref) bool
	local    *machine
	workers  *pool
}

var _ capsule.Engine = (*Engine)(nil)

// New makes an engine after it has reproduced the golden vectors, which takes a few
// milliseconds. Workers are started when first needed.
func New(cfg Config) (*Engine, error) {
	local, err := newMachine()
	if err == nil {
		err = local.proveVectors()
	}
	if err != nil {
		return nil, &world.Error{Op: "starlark.New", Kind: world.KindInternal, Err: err,
			Hint: "this binary was built with another interpreter than its golden vectors are of"}
	}
	local.loaded = newCache()
	trusted := cfg.Trusted
	if trusted == nil {
		trusted = func(world.Ref) bool { return false }
	}
	return &Engine{
		identity: newIdentity(),
		trusted:  trusted,
		local:    local,
		workers:  newPool(cfg.WorkerCommand),
	}, nil
}

// Identity is the hash of the engine object.
func (e *Engine) Identity() capsule.Identity { return e.identity }

// Extension is ".star".
func (e *Engine) Extension() string { return ".star" }

// Check loads the source. The message of its KindConvention is for the source's author:
// what is wrong, with file, line and column. It takes at most capsule.PhaseTimeout; a
// source that cannot be loaded within that, or within a worker's memory, does not load.
// KindExecution is the engine's own trouble: no worker could be started.
func (e *Engine) Check(ctx context.Context, src capsule.Source) error {
	const op = "starlark.Check"
	if err := ctxError(ctx, op, src.Ref); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, capsule.PhaseTimeout)
	defer cancel()
	res := e.do(bounded, request{op: opCheck, src: src})
	switch {
	case res.died:
		cause := res.cause
		res = unloadable(sourceName + ": loading it takes more memory than a run may have")
		res.cause = cause
	case res.status == statusStopped && ctx.Err() == nil && bounded.Err() != nil:
		res = unloadable(fmt.Sprintf("%s: loading it takes longer than %v", sourceName, capsule.PhaseTimeout))
	case res.status == statusStopped:
		return stopped(ctx, op, src.Ref)
	}
	return res.asError(op, src.Ref, true)
}

// Run calls main. It takes as long as ctx allows; the step limit comes first unless a
// single builtin call is long.
func (e *Engine) Run(ctx context.Context, src capsule.Source, input []byte) ([]byte, error) {
	const op = "starlark.Run"
	if err := ctxError(ctx, op, src.Ref); err != nil {
		return nil, err
	}
	res := e.do(ctx, request{op: opRun, src: src, input: input})
	if res.status == statusStopped {
		return nil, stopped(ctx, op, src.Ref)
	}
	if err := res.asError(op, src.Ref, false); err != nil {
		return nil, err
	}
	return res.out, nil
}

// Close ends the workers and what they run, and waits until no process is left. Later runs
// of sources that are not trusted fail.
func (e *Engine) Close() error { return e.workers.close() }

func (e *Engine) do(ctx context.Context, req request) result {
	switch {
	case len(req.src.Text) > capsule.MaxSource || len(req.input) > capsule.MaxInput:
		// Refused here as a worker would refuse it, before it is framed.
		return e.local.handle(ctx, req)
	case e.trusted(req.src.Ref):
		return e.local.handle(ctx, req)
	}
	return e.workers.do(ctx, req)
}

func ctxError(ctx context.Context, op string, ref world.Ref) error {
	if ctx.Err() == nil {
		return nil
	}
	return stopped(ctx, op, ref)
}

// stopped says why ctx ended; without an ended ctx the engine was closed.
func stopped(ctx context.Context, op string, ref world.Ref) error {
	e := &world.Error{Op: op, Subject: ref.String(), Kind: world.KindCanceled, Err: ctx.Err()}
	switch {
	case errors.Is(e.Err, context.DeadlineExceeded):
		e.Kind = world.KindDeadline
	case e.Err == nil:
		e.Err = errClosed
	}
	return e
}
