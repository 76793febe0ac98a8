package sqlstore

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ailang.dev/world/host/world"
)

// Bounds of the writer.
const (
	MaxQueue      = 1024     // operations that may wait; more wait to be let in, within their context
	MaxBatchOps   = 512      // operations of one transaction
	MaxBatchBytes = 32 << 20 // payload bytes of one transaction; one operation may exceed it alone
	MaxAgain      = 5        // times that a transaction is run again because its backend says so
	MaxOwed       = 1024     // operations of the store's own that wait for a batch that succeeds
)

// The states of an operation.
const (
	opWaiting int32 = iota
	opTaken
	opWithdrawn
)

// op is one operation on its way through the writer. run may be called again after the
// transaction it ran in was rolled back.
type op struct {
	name  string
	bytes int
	run   func(*txn) error
	needs func(*Needs) // adds what run will read; nil if that is nothing, or not known
	state atomic.Int32
	err   error      // what run said, before it is durable
	done  chan error // of capacity 1; nil if it is owed

	ctx    context.Context // whose it is, and since when it waits; for who watches
	queued time.Time
}

type writer struct {
	backend Backend
	hot     *hot
	hooks   Hooks
	logf    func(format string, args ...any)

	queue   chan *op
	closing chan struct{} // closed by close
	stopped chan struct{} // closed when the goroutine has ended
	once    sync.Once

	held      *op // taken from the queue, but too big for the batch before it
	unsettled bool

	owedMu sync.Mutex
	owed   []*op         // nobody waits for them; they go with the next batch
	wake   chan struct{} // of capacity 1: something is newly owed
}

func newWriter(b Backend, h *hot, hooks Hooks, logf func(string, ...any)) *writer {
	w := &writer{
		backend: b, hot: h, hooks: hooks, logf: logf,
		queue:   make(chan *op, MaxQueue),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	go w.loop()
	return w
}

// close lets the batch in hand end, and returns when it has. The callers of what waits
// withdraw it as soon as they see closing.
func (w *writer) close() {
	w.once.Do(func() { close(w.closing) })
	<-w.stopped
}

// submit has run executed by the writer, and returns its result once it is durable. The
// result of an operation that was not answered is never read.
func submit[T any](ctx context.Context, w *writer, name string, bytes int, needs func(*Needs), run func(*txn) (T, error)) (T, error) {
	var result, zero T
	o := &op{name: name, bytes: bytes, needs: needs, done: make(chan error, 1)}
	o.run = func(t *txn) (err error) {
		result, err = run(t)
		return err
	}
	if err := w.do(ctx, o); err != nil {
		return zero, err
	}
	return result, nil
}

func (w *writer) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return timeout(o.name, context.Cause(ctx))
	}
	if w.hooks.Batch != nil {
		o.ctx, o.queued = ctx, time.Now()
	}
	select {
	case w.queue <- o:
	case <-ctx.Done():
		return timeout(o.name, context.Cause(ctx))
	case <-w.closing:
		return timeout(o.name, errClosed)
	}
	for closing := w.closing; ; {
		select {
		case err := <-o.done:
			return err
		case <-ctx.Done():
			if w.withdraw(o) {
				return timeout(o.name, context.Cause(ctx))
			}
			return o.uncertain(ctx)
		case <-closing:
			if w.withdraw(o) {
				return timeout(o.name, errClosed)
			}
			closing = nil // it is in the last batch, and will be answered
		}
	}
}

// withdraw makes sure that an operation is never run, unless it was taken.
func (w *writer) withdraw(o *op) bool {
	if !o.state.CompareAndSwap(opWaiting, opWithdrawn) {
		return false
	}
	pause(w.hooks.Withdrawn)
	return true
}

// uncertain is the answer of a caller that leaves while its operation is being done.
func (o *op) uncertain(ctx context.Context) error {
	select {
	case err := <-o.done: // it was answered in the same moment
		return err
	default:
		return &world.Error{Op: o.name, Kind: world.KindUncertain, Err: context.Cause(ctx)}
	}
}

var (
	errClosed    = errors.New("the store is closed")
	errUnsettled = errors.New("whether the last batch is durable is not known")
)

func timeout(name string, cause error) error { return world.Wrap(world.KindTimeout, name, cause) }

func (w *writer) loop() {
	defer close(w.stopped)
	var batch []*op
	for {
		first, ok := w.next()
		if !ok {
			w.write(w.takeOwed())
			return
		}
		batch = batch[:0]
		if first != nil {
			pause(w.hooks.BeforeTake)
			if batch = w.take(batch, first); len(batch) == 0 {
				continue
			}
			pause(w.hooks.AfterTake)
		}
		w.write(append(batch, w.takeOwed()...))
		clear(batch)
		// The answered callers may have more to bring; let them in before the next batch.
		runtime.Gosched()
	}
}

// next waits for an operation, or, with none, for something newly owed. ok is false when
// the store is closing and no more is taken.
func (w *writer) next() (first *op, ok bool) {
	select {
	case <-w.closing:
		return nil, false
	default:
	}
	if o := w.held; o != nil {
		w.held = nil
		return o, true
	}
	select {
	case o := <-w.queue:
		return o, true
	case <-w.wake:
		return nil, true
	case <-w.closing:
		return nil, false
	}
}

// take fixes a batch: first and what else waits, within the bounds, without those that
// were withdrawn.
func (w *writer) take(batch []*op, first *op) []*op {
	bytes := 0
	for o := first; ; {
		if len(batch) > 0 && bytes+o.bytes > MaxBatchBytes {
			w.held = o
			return batch
		}
		if o.state.CompareAndSwap(opWaiting, opTaken) {
			batch = append(batch, o)
			bytes += o.bytes
		}
		if len(batch) == MaxBatchOps {
			return batch
		}
		select {
		case o = <-w.queue:
		default:
			return batch
		}
	}
}

// write makes a batch durable and answers it.
func (w *writer) write(batch []*op) {
	if len(batch) == 0 {
		return
	}
	if err := w.settle(); err != nil {
		w.answer(batch, world.KindUncertain, err)
		return
	}
	again, err := w.attempt(batch)
	if len(again) == 1 {
		w.answer(again, world.KindOf(err), err)
		return
	}
	for i := range again {
		// The transaction was lost to one of them. Alone, each is disturbed by none.
		if one, err := w.attempt(again[i : i+1]); one != nil {
			w.answer(one, world.KindOf(err), err)
		}
	}
}

// attempt is transact, again as often as the backend says that it is worth it.
func (w *writer) attempt(batch []*op) (again []*op, err error) {
	again, err = w.transact(batch)
	for n := 0; again != nil && errors.Is(err, ErrAgain) && n < MaxAgain; n++ {
		again, err = w.transact(again)
	}
	return again, err
}

// settle finds out about a batch of which it is not known whether it landed.
func (w *writer) settle() error {
	if !w.unsettled {
		return nil
	}
	if _, err := w.backend.Settle(); err != nil {
		return errors.Join(errUnsettled, err)
	}
	w.unsettled = false
	w.hot.forget() // what was read while it was not known may be older than what is durable
	return nil
}

// transact runs a batch in one transaction and answers it, or returns it and why it was
// lost: then nothing of it is durable.
func (w *writer) transact(batch []*op) (again []*op, err error) {
	if w.unsettled { // by one before it, run alone
		w.answer(batch, world.KindUncertain, errUnsettled)
		return nil, nil
	}
	seen := w.watch(batch)
	defer func() { seen.tell(len(again) > 1 || again != nil && errors.Is(err, ErrAgain)) }()
	tx, err := w.backend.Begin(needsOf(batch))
	if err != nil {
		w.answer(batch, world.KindOf(err), err)
		seen.ended(err)
		return nil, nil
	}
	t := &txn{Tx: tx}
	if err = w.runAll(t, batch); err == nil && t.dirty {
		err = t.finish()
	}
	seen.ran(t.dirty)
	if err != nil || !t.dirty {
		if rerr := tx.Rollback(); rerr != nil {
			w.logf("store: rollback: %v", rerr)
		}
		seen.ended(err)
		return w.lost(batch, err)
	}
	pause(w.hooks.BeforeCommit)
	err = tx.Commit()
	seen.ended(err)
	if err != nil {
		landed, serr := w.backend.Settle()
		switch {
		case serr != nil:
			w.unsettled = true
			w.hot.forget()
			w.answer(batch, world.KindUncertain, errors.Join(err, serr))
			return nil, nil
		case !landed:
			return w.lost(batch, err)
		}
		w.logf("store: commit reported %v, but the batch is durable", err)
		seen.ended(nil)
	}
	w.hot.landed(t)
	pause(w.hooks.AfterCommit)
	w.answer(batch, 0, nil)
	return nil, nil
}

// lost returns a batch of which nothing is durable to be run again, or answers it if nothing
// was to be.
func (w *writer) lost(batch []*op, err error) (again []*op, why error) {
	if err != nil {
		return batch, err
	}
	w.answer(batch, 0, nil)
	return nil, nil
}

// needsOf is what a batch's operations will read.
func needsOf(batch []*op) *Needs {
	n := &Needs{}
	for _, o := range batch {
		if o.needs != nil {
			o.needs(n)
		}
	}
	return n
}

// runAll runs each operation in its own savepoint. An error says that the transaction is
// lost.
func (w *writer) runAll(t *txn, batch []*op) error {
	head, err := t.Head()
	if err != nil {
		return err
	}
	t.head = head
	for _, o := range batch {
		if err := w.runOne(t, o); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) runOne(t *txn, o *op) error {
	if err := t.Savepoint(); err != nil {
		return err
	}
	head, refs, dirty := t.head, len(t.refs), t.dirty
	if o.err = o.run(t); o.err == nil {
		return t.Release()
	}
	t.head, t.refs, t.dirty = head, t.refs[:refs], dirty
	if err := t.Restore(); err != nil {
		return errors.Join(o.err, err)
	}
	return nil
}

// answer tells each caller how its operation ended: by batchErr, which has kind, or
// without one by what the operation itself said.
func (w *writer) answer(batch []*op, kind world.Kind, batchErr error) {
	pause(w.hooks.BeforeAnswer)
	for _, o := range batch {
		err := o.err
		if batchErr != nil {
			err = world.Wrap(kind, o.name, batchErr)
		}
		err = named(o.name, err)
		switch {
		case o.done != nil:
			o.done <- err
		case err != nil:
			w.owe(o)
		}
	}
}

// named makes an error that of an operation.
func named(op string, err error) error {
	var e *world.Error
	if err == nil || errors.As(err, &e) && e.Op == op {
		return err
	}
	return world.Wrap(world.KindOf(err), op, err)
}

// owe has an operation that nobody waits for run with the next batch, again until it
// succeeds, and for a last time when the store is closed.
func (w *writer) owe(o *op) {
	w.owedMu.Lock()
	defer w.owedMu.Unlock()
	if len(w.owed) == MaxOwed {
		w.logf("store: %s: %d operations are owed already; this one is given up, and what it would have closed stays open", o.name, MaxOwed)
		return
	}
	w.owed = append(w.owed, o)
}

// oweNow is owe, and has the writer begin a batch for it. Only what is newly owed does: an
// operation that failed waits for a batch that somebody needs.
func (w *writer) oweNow(o *op) {
	w.owe(o)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) takeOwed() []*op {
	w.owedMu.Lock()
	defer w.owedMu.Unlock()
	taken := w.owed
	w.owed = nil
	return taken
}
