package storetest

import (
	"context"
	"errors"
	"testing"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

var errGone = errors.New("the caller went away")

// stage pauses a store's writer once, at one point: reached is closed there, and it goes
// on when resume is.
type stage struct{ armed, reached, resume chan struct{} }

func newStage() *stage {
	return &stage{armed: make(chan struct{}, 1), reached: make(chan struct{}), resume: make(chan struct{})}
}

func (p *stage) arm() { p.armed <- struct{}{} }

func (p *stage) hook() {
	select {
	case <-p.armed:
		close(p.reached)
		<-p.resume
	default:
	}
}

func openHooked(t *testing.T, o Opener, hooks sqlstore.Hooks) *opened {
	t.Helper()
	h, can := o.(Hooked)
	if !can {
		t.Skip("this backend cannot pause its writer")
	}
	s := &opened{Store: h.OpenHooked(t, hooks), opener: o}
	t.Cleanup(func() {
		CheckWhole(t, s)
		s.close(t)
	})
	return s
}

func testContexts(t *testing.T, o Opener) {
	t.Run("ended before", func(t *testing.T) {
		s := open(t, o)
		begin(t, s, 0)
		dead, cancel := context.WithCancelCause(ctx)
		cancel(errGone)
		a := Call("dead")
		_, err := s.Append(dead, a)
		wantKind(t, err, world.KindTimeout)
		absent(t, s, a.TransitionRef)
		_, err = s.Head(dead)
		wantKind(t, err, world.KindTimeout)
		_, err = s.Entries(dead, 0, 10)
		wantKind(t, err, world.KindTimeout)
		done, err := s.Scan(dead, 10, func(store.Hole) {})
		if done || err != nil {
			t.Fatalf("Scan: done %v, %v", done, err)
		}
	})
	t.Run("ends before it is taken", func(t *testing.T) {
		p := newStage()
		s := openHooked(t, o, sqlstore.Hooks{BeforeTake: p.hook})
		p.arm()
		callCtx, cancel := context.WithCancelCause(ctx)
		a := Call("never taken")
		got := make(chan error, 1)
		go func() { _, err := s.Append(callCtx, a); got <- err }()
		<-p.reached
		cancel(errGone)
		err := <-got
		wantKind(t, err, world.KindTimeout)
		if !errors.Is(err, errGone) {
			t.Fatalf("%v does not say why", err)
		}
		close(p.resume)
		must(s.Append(ctx, Call("after it")))(t)
		absent(t, s, a.TransitionRef)
		if inv := must(s.Invocation(ctx, a.Invocation))(t); inv.State != store.StateUnknown {
			t.Fatalf("%+v", inv)
		}
	})
	for name, hooks := range map[string]func(*stage) sqlstore.Hooks{
		"taken":           func(p *stage) sqlstore.Hooks { return sqlstore.Hooks{AfterTake: p.hook} },
		"all but durable": func(p *stage) sqlstore.Hooks { return sqlstore.Hooks{BeforeCommit: p.hook} },
		"durable":         func(p *stage) sqlstore.Hooks { return sqlstore.Hooks{AfterCommit: p.hook} },
	} {
		t.Run("ends when it is "+name, func(t *testing.T) {
			p := newStage()
			s := openHooked(t, o, hooks(p))
			p.arm()
			callCtx, cancel := context.WithCancelCause(ctx)
			a := Call("uncertain " + name)
			got := make(chan error, 1)
			go func() { _, err := s.Append(callCtx, a); got <- err }()
			<-p.reached
			cancel(errGone)
			wantKind(t, <-got, world.KindUncertain)
			close(p.resume)
			ok(t, s.PutObjects(ctx, nil)) // the batch is over
			inv := must(s.Invocation(ctx, a.Invocation))(t)
			if inv.State != store.StateCommitted {
				t.Fatalf("%+v", inv)
			}
		})
	}
	t.Run("reads do not wait for a writer", func(t *testing.T) {
		p := newStage()
		s := openHooked(t, o, sqlstore.Hooks{BeforeCommit: p.hook})
		head := must(s.Head(ctx))(t)
		p.arm()
		a := Call("slow")
		got := make(chan error, 1)
		go func() { _, err := s.Append(ctx, a); got <- err }()
		<-p.reached
		same(t, "head", must(s.Head(ctx))(t), head)
		absent(t, s, a.TransitionRef)
		CheckWhole(t, s)
		close(p.resume)
		ok(t, <-got)
		same(t, "next", must(s.Head(ctx))(t).Next, head.Next+1)
	})
	t.Run("a rest commit that is given up between intent and commit", func(t *testing.T) {
		// The second batch is that of the commit itself; nothing but its own caller waits.
		batches := 0
		p := newStage()
		withdrawn := make(chan struct{})
		s := openHooked(t, o, sqlstore.Hooks{Withdrawn: func() { close(withdrawn) }, BeforeTake: func() {
			if batches++; batches == 2 {
				p.arm()
			}
			p.hook()
		}})
		c := NextCommit(must(s.Head(ctx))(t), "given up")
		c.Invocation, c.Digest, c.Credential = "rest:given-up", ref("given up"), ref("session")
		callCtx, cancel := context.WithCancelCause(ctx)
		got := make(chan error, 1)
		go func() { _, err := s.Commit(callCtx, c); got <- err }()
		<-p.reached
		inv := must(s.Invocation(ctx, c.Invocation))(t)
		same(t, "while it is tried", inv, store.Invocation{ID: c.Invocation, State: store.StateOpen, Digest: c.Digest, Credential: c.Credential})
		same(t, "unresolved", unresolved(t, s, 10), []store.Invocation{inv})
		cancel(errGone)
		<-withdrawn
		close(p.resume)
		wantKind(t, <-got, world.KindTimeout)
		// The caller has not waited for the end; it goes with the next batch at the latest.
		ok(t, s.PutObjects(ctx, []world.Object{world.NewObject("t", "t", []byte("the next batch"))}))
		same(t, "after it", must(s.Invocation(ctx, c.Invocation))(t), store.Invocation{ID: c.Invocation})
		same(t, "unresolved", unresolved(t, s, 10), []store.Invocation(nil))
		absent(t, s, c.Objects[0].Hash)
	})
	t.Run("a rest commit that is given up while it lands", func(t *testing.T) {
		batches := 0
		p := newStage()
		s := openHooked(t, o, sqlstore.Hooks{AfterTake: func() {
			if batches++; batches == 2 {
				p.arm()
			}
			p.hook()
		}})
		c := NextCommit(must(s.Head(ctx))(t), "uncertain")
		c.Invocation, c.Digest = "rest:uncertain", ref("uncertain")
		callCtx, cancel := context.WithCancelCause(ctx)
		got := make(chan error, 1)
		go func() { _, err := s.Commit(callCtx, c); got <- err }()
		<-p.reached
		cancel(errGone)
		wantKind(t, <-got, world.KindUncertain)
		close(p.resume)
		if again := must(s.Commit(ctx, c))(t); !again.Replayed {
			t.Fatalf("%+v", again)
		}
	})
}

func testClosing(t *testing.T, o Opener) {
	t.Run("what is in hand is finished, what waits is refused", func(t *testing.T) {
		p := newStage()
		s := openHooked(t, o, sqlstore.Hooks{AfterTake: p.hook})
		begin(t, s, 0)
		p.arm()
		inHand, waiting := Call("in hand"), Call("waiting")
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := s.Append(ctx, inHand); first <- err }()
		<-p.reached
		go func() { _, err := s.Append(ctx, waiting); second <- err }()
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		// Close cannot end while the batch is paused, so the second is refused by it or by a
		// store that is closing already.
		select {
		case err := <-closed:
			t.Fatalf("closed (%v) during a batch", err)
		case err := <-second:
			wantKind(t, err, world.KindTimeout)
			second <- err
		}
		close(p.resume)
		ok(t, <-first)
		wantKind(t, <-second, world.KindTimeout)
		ok(t, <-closed)
		ok(t, s.Close())
		_, err := s.Append(ctx, waiting)
		wantKind(t, err, world.KindTimeout)
		_, err = s.Head(ctx)
		wantKind(t, err, world.KindTimeout)
		s.Store = o.Open(t)
		if inv := must(s.Invocation(ctx, inHand.Invocation))(t); inv.State != store.StateCommitted {
			t.Fatalf("%+v", inv)
		}
		absent(t, s, waiting.TransitionRef)
	})
}
