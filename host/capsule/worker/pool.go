package worker

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds of the pool.
const (
	// Workers is how many operations of sources that are not trusted run at once; others
	// wait within their context.
	Workers = 8
	// Runs is after how many operations a worker is replaced.
	Runs = 1000
	// Keep is how much heap, in bytes, a worker may hold after an operation and still
	// be used for the next one.
	Keep = 128 << 20
	// Idle is how long a worker waits for work before it is ended.
	Idle = time.Minute
)

var errClosed = errors.New("the engine is closed")

// pool owns the worker processes. At most Workers exist: an operation holds a slot while it
// runs, and what is idle had one before.
type pool struct {
	command []string
	starter *starter
	slots   chan struct{}
	closing context.Context
	shut    context.CancelFunc
	once    sync.Once
	alive   sync.WaitGroup // processes not yet waited for; grows only while a slot is held

	mu   sync.Mutex
	idle []*worker // the last one used at the end
}

func newPool(command []string) *pool {
	p := &pool{command: command, starter: newStarter(), slots: make(chan struct{}, Workers)}
	p.closing, p.shut = context.WithCancel(context.Background())
	return p
}

// do runs one operation in a worker. A worker that dies had perhaps been filled by what it
// ran before, or was killed from outside; since sources are pure, the operation is tried
// once more in a new one, so that a death is always the doing of the source itself.
func (p *pool) do(ctx context.Context, req Request) Result {
	if len(p.command) == 0 {
		return Failed("the source is not trusted, and the engine has no worker command")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.closing, cancel)()

	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return Result{Status: Stopped}
	}
	frame := req.frame()
	w := p.takeIdle()
	if w != nil {
		if res, err := w.roundTrip(ctx, frame); err == nil {
			p.giveBack(w, res)
			return res
		}
		p.end(w)
	}
	return p.doFresh(ctx, frame)
}

func (p *pool) doFresh(ctx context.Context, frame []byte) Result {
	if ctx.Err() != nil {
		return Result{Status: Stopped}
	}
	w, err := newWorker(p.command, p.starter)
	if err != nil {
		return Failed("no worker could be started: %v", err)
	}
	p.alive.Add(1)
	res, err := w.roundTrip(ctx, frame)
	if err == nil {
		p.giveBack(w, res)
		return res
	}
	cause := p.end(w)
	if ctx.Err() != nil {
		return Result{Status: Stopped}
	}
	res = Failed("%s (%v)", cause, err)
	res.died = true
	return res
}

func (p *pool) takeIdle() *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	w := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	w.retire.Stop()
	return w
}

// giveBack keeps a worker for the next operation, unless it failed, ran many, or is full.
func (p *pool) giveBack(w *worker, res Result) {
	if res.Status == Execution || w.runs >= Runs || w.heap > Keep {
		p.end(w)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, w)
	w.retire = time.AfterFunc(Idle, func() { p.endIdle(w) })
}

// endIdle ends a worker that is still idle.
func (p *pool) endIdle(w *worker) {
	p.mu.Lock()
	for i, other := range p.idle {
		if other == w {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			p.mu.Unlock()
			p.end(w)
			return
		}
	}
	p.mu.Unlock()
}

func (p *pool) end(w *worker) string {
	defer p.alive.Done()
	return w.end()
}

// close kills what runs, takes every slot so that nothing more can, and waits for all
// processes.
func (p *pool) close() error {
	p.once.Do(func() {
		p.shut()
		for range Workers {
			p.slots <- struct{}{}
		}
		for w := p.takeIdle(); w != nil; w = p.takeIdle() {
			p.end(w)
		}
		p.alive.Wait()
		p.starter.stop()
	})
	return nil
}
