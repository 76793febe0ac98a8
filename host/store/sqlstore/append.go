package sqlstore

import (
	"context"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Append implements store.Writer.
func (s *Store) Append(ctx context.Context, a store.Append) (store.Committed, error) {
	const op = "store.Append"
	if err := checkTexts(op, text{"invocation", string(a.Invocation)}, text{"writtenBy", a.WrittenBy}); err != nil {
		return store.Committed{}, err
	}
	objects, err := bring(op, a.Invocation, a.Outcomes, a.Objects)
	if err != nil {
		return store.Committed{}, err
	}
	p, err := prepareProven(op, objects)
	if err != nil {
		return store.Committed{}, err
	}
	return submit(ctx, s.writer, op, p.bytes, needLease(a.Lease, p.needs(a.Invocation)), func(t *txn) (store.Committed, error) {
		if err := t.fenced(op, a.Lease); err != nil {
			return store.Committed{}, err
		}
		if t.head.World.IsNone() {
			return store.Committed{}, noWorld(op)
		}
		if a.Invocation != "" {
			j, err := readAccount(t, a.Invocation)
			if err != nil {
				return store.Committed{}, err
			}
			if err := j.free(op, a.Digest); err != nil {
				return store.Committed{}, err
			}
			if err := t.end(op, &j, a.Outcomes); err != nil {
				return store.Committed{}, err
			}
		}
		if err := t.putObjects(p); err != nil {
			return store.Committed{}, err
		}
		c := t.next(&a)
		return c, t.addEntry(c.Entry, c.World, JournalRow{Invocation: a.Invocation, Digest: a.Digest, Credential: a.Credential})
	})
}

// fenced refuses a write whose lease another daemon has by now.
func (t *txn) fenced(op string, l store.Lease) error {
	if l == (store.Lease{}) {
		return nil
	}
	held, err := t.Held(l)
	if err != nil || held {
		return err
	}
	return &world.Error{Op: op, Kind: world.KindCapacity, Subject: l.Episode, Msg: "the episode was given to another daemon meanwhile"}
}

func needLease(l store.Lease, rest func(*Needs)) func(*Needs) {
	return func(n *Needs) {
		if l != (store.Lease{}) {
			n.Leases = append(n.Leases, l)
		}
		rest(n)
	}
}

func noWorld(op string) error {
	return world.Errorf(world.KindNoWorld, op, "no world head has been selected yet")
}

// free tells whether an invocation may still become an entry, or do an effect: it is not
// one yet, and was not used for anything else.
func (a *account) free(op string, digest world.Ref) error {
	if a.State == store.StateCommitted || a.State == store.StateOpen && a.Digest != digest {
		return &world.Error{Op: op, Kind: world.KindTaskIDUsed, Subject: string(a.ID), Msg: "invocation id already used"}
	}
	return nil
}

// next is the entry, and its world, that an Append becomes here.
func (t *txn) next(a *store.Append) store.Committed {
	h := world.EntryHeader{
		EntryIndex: t.head.Next, SemanticsEpoch: a.SemanticsEpoch, TransitionFn: a.TransitionFn,
		Interpreter: a.Interpreter, PrevEntryHash: t.head.LogHead, WrittenBy: a.WrittenBy,
	}
	e := world.Entry{Header: h, EntryHash: world.ComputeEntryHash(h, a.TransitionRef), TransitionRef: a.TransitionRef}
	return store.Committed{Entry: e, World: world.World{
		Ref:      world.ComputeWorldRef(h.EntryIndex, a.StateRoot, e.EntryHash),
		Revision: h.EntryIndex, StateRoot: a.StateRoot, LogHead: e.EntryHash,
	}}
}

// Commit implements store.Writer.
func (s *Store) Commit(ctx context.Context, c store.Commit) (store.Committed, error) {
	const op = "store.Commit"
	if err := checkTexts(op, text{"invocationId", string(c.Invocation)}, text{"entry.header.writtenBy", c.Entry.Header.WrittenBy}); err != nil {
		return store.Committed{}, err
	}
	p, err := prepare(op, c.Objects)
	if err != nil {
		return store.Committed{}, err
	}
	r := &restCommit{op: op, c: c, p: p}
	if c.Invocation == "" {
		return submit(ctx, s.writer, op, p.bytes, p.needs(c.Invocation), r.land)
	}
	done, err := submit(ctx, s.writer, op, 0, needCall(c.Invocation), r.intend)
	if err != nil && ctx.Err() != nil && world.KindOf(err) == world.KindUncertain {
		// The intent may be durable, but the commit will never be tried.
		s.end(ctx, r)
		return done, timeout(op, context.Cause(ctx))
	}
	if err != nil || done.Replayed {
		return done, err
	}
	done, err = submit(ctx, s.writer, op, p.bytes, p.needs(c.Invocation), r.land)
	if err != nil && world.KindOf(err) != world.KindUncertain {
		s.end(ctx, r)
	}
	return done, err
}

// restCommit is one Commit on its way.
type restCommit struct {
	op string
	c  store.Commit
	p  *prepared
}

// by is what the journal says of the commit in each of its rows.
func (r *restCommit) by() JournalRow {
	return JournalRow{Invocation: r.c.Invocation, Digest: r.c.Digest, Credential: r.c.Credential}
}

// intend writes the intent, unless the commit was done before or cannot be done. An open
// intent of the same commit is taken over: it is in flight, or its end was lost in a crash.
func (r *restCommit) intend(t *txn) (store.Committed, error) {
	a, done, err := r.check(t)
	if err != nil || done.Replayed || a.rest != 0 {
		return done, err
	}
	row := r.by()
	row.Kind = KindRESTOpen
	if err := t.journal(row); err != nil {
		return done, err
	}
	return done, t.AddPending(t.head.Seq)
}

// land commits.
func (r *restCommit) land(t *txn) (store.Committed, error) {
	a, done, err := r.check(t)
	if err != nil || done.Replayed {
		return done, err
	}
	if err := t.putObjects(r.p); err != nil {
		return done, err
	}
	if a.rest != 0 {
		if err := t.DropPending(a.rest); err != nil {
			return done, err
		}
	}
	done = store.Committed{Entry: r.c.Entry, World: r.c.NextWorld}
	return done, t.addEntry(r.c.Entry, r.c.NextWorld, r.by())
}

// check is the laws of a commit, in their order.
func (r *restCommit) check(t *txn) (account, store.Committed, error) {
	var a account
	var done store.Committed
	if r.c.Invocation != "" {
		var err error
		if a, err = readAccount(t, r.c.Invocation); err != nil {
			return a, done, err
		}
		if a.State != store.StateUnknown && a.Digest != r.c.Digest {
			return a, done, world.Errorf(world.KindBadRequest, r.op, "invocationId was already used for a different commit")
		}
		if a.State == store.StateCommitted {
			return a, store.Committed{Entry: a.entry.Entry, World: a.entry.World, Replayed: true}, nil
		}
	}
	if r.c.ObservedHead != t.head.World {
		return a, done, conflict(r.op, r.c.ObservedHead, t.head.World)
	}
	if err := r.chain(t); err != nil {
		return a, done, err
	}
	return a, done, r.p.bad
}

func conflict(op string, observed, selected world.Ref) error {
	return world.Wrap(world.KindHeadConflict, op, &world.HeadConflictError{Observed: observed, Selected: selected})
}

// chain is the laws that tie an entry and its world to the log.
func (r *restCommit) chain(t *txn) error {
	h, w, head := r.c.Entry.Header, r.c.NextWorld, t.head
	must := func(path string, want any) error {
		return world.Errorf(world.KindBadRequest, r.op, "%s must be %v", path, want)
	}
	switch {
	case h.EntryIndex != head.Next:
		return must("entry.header.entryIndex", head.Next)
	case head.Next > 0 && h.PrevEntryHash != head.LogHead:
		return must("entry.header.prevEntryHash", head.LogHead)
	case w.LogHead != r.c.Entry.EntryHash:
		return must("nextWorld.logHead", r.c.Entry.EntryHash)
	case w.Revision != head.Next:
		return must("nextWorld.revision", head.Next)
	case w.Ref.IsNone():
		return must("nextWorld.ref", "a reference")
	case r.c.Entry.EntryHash.IsNone():
		return must("entry.entryHash", "a reference")
	}
	if _, there, err := t.EntryByWorld(w.Ref); err != nil || there {
		return cmpErr(err, must("nextWorld.ref", "one that no world has"))
	}
	if _, there, err := t.EntryByHash(r.c.Entry.EntryHash); err != nil || there {
		return cmpErr(err, must("entry.entryHash", "one that no entry has"))
	}
	return nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// end closes the intent of a commit that is known not to have landed, so that its id is
// free again. It waits no longer than the caller does: what cannot be written by then goes
// with a later batch. Until it is written the id is told as indeterminate, and the same
// commit may still be sent again.
func (s *Store) end(ctx context.Context, r *restCommit) {
	o := &op{name: r.op, run: r.close}
	if ctx.Err() == nil {
		if _, err := submit(ctx, s.writer, r.op, 0, needCall(r.c.Invocation), func(t *txn) (struct{}, error) { return struct{}{}, r.close(t) }); err == nil {
			return
		}
	}
	s.writer.oweNow(o)
}

// close writes the end, if the intent is still open.
func (r *restCommit) close(t *txn) error {
	a, err := readAccount(t, r.c.Invocation)
	if err != nil || a.rest == 0 || a.Digest != r.c.Digest {
		return err
	}
	if err := t.DropPending(a.rest); err != nil {
		return err
	}
	return t.journal(JournalRow{Kind: KindRESTEnd, Invocation: r.c.Invocation})
}
