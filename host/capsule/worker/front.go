package worker

import (
	"context"
	"errors"
	"fmt"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

// Config is how a Front is to run sources.
type Config struct {
	// Name is the engine's, for errors; SourceName begins messages to authors.
	Name, SourceName string
	// Local runs what may run in this process.
	Local Machine
	// Trusted names the sources that may: those that ship inside the binary. nil trusts none.
	Trusted func(world.Ref) bool
	// Command is the command line, its program an absolute path, of a process that does
	// nothing but call Main. Without one, sources that are not trusted fail.
	Command []string
}

// Front is what an embedded engine shows of a capsule.Engine: it runs trusted sources
// here, all others in workers, and tells in the contract's words how that ended.
type Front struct {
	cfg     Config
	workers *pool
}

// NewFront starts nothing: workers are started when first needed.
func NewFront(cfg Config) *Front {
	if cfg.Trusted == nil {
		cfg.Trusted = func(world.Ref) bool { return false }
	}
	return &Front{cfg: cfg, workers: newPool(cfg.Command)}
}

// Check loads the source. The message of its KindConvention is for the source's author. It
// takes at most capsule.PhaseTimeout; a source that cannot be loaded within that, or within
// a worker's memory, does not load. KindExecution is the engine's own trouble: no worker
// could be started.
func (f *Front) Check(ctx context.Context, src capsule.Source) error {
	op := f.cfg.Name + ".Check"
	if err := ctxError(ctx, op, src.Ref); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, capsule.PhaseTimeout)
	defer cancel()
	res := f.do(bounded, Request{Op: OpCheck, Source: src})
	switch {
	case res.died:
		cause := res.Cause
		res = Unloadable(f.cfg.SourceName + ": loading it takes more memory than a run may have")
		res.Cause = cause
	case res.Status == Stopped && ctx.Err() == nil && bounded.Err() != nil:
		res = Unloadable(fmt.Sprintf("%s: loading it takes longer than %v", f.cfg.SourceName, capsule.PhaseTimeout))
	case res.Status == Stopped:
		return stopped(ctx, op, src.Ref)
	}
	return res.asError(op, src.Ref, true)
}

// Run calls main. It takes as long as ctx allows, unless the engine's own bounds come
// first.
func (f *Front) Run(ctx context.Context, src capsule.Source, input []byte) ([]byte, error) {
	op := f.cfg.Name + ".Run"
	if err := ctxError(ctx, op, src.Ref); err != nil {
		return nil, err
	}
	res := f.do(ctx, Request{Op: OpRun, Source: src, Input: input})
	if res.Status == Stopped {
		return nil, stopped(ctx, op, src.Ref)
	}
	if err := res.asError(op, src.Ref, false); err != nil {
		return nil, err
	}
	return res.Out, nil
}

// Close ends the workers and what they run, and waits until no process is left. Later runs
// of sources that are not trusted fail.
func (f *Front) Close() error { return f.workers.close() }

func (f *Front) do(ctx context.Context, req Request) Result {
	switch {
	case len(req.Source.Text) > capsule.MaxSource:
		// Refused before it is framed, as what comes next.
		return Unloadable(fmt.Sprintf("%s: the source is longer than %d bytes", f.cfg.SourceName, capsule.MaxSource))
	case len(req.Input) > capsule.MaxInput:
		return Failed("the input is longer than %d bytes", capsule.MaxInput)
	case f.cfg.Trusted(req.Source.Ref):
		return f.cfg.Local.Handle(ctx, req)
	}
	return f.workers.do(ctx, req)
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
