package sqlstore

import (
	"context"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// IntendEffect implements store.Writer.
func (s *Store) IntendEffect(ctx context.Context, i store.EffectIntent) (store.Debit, error) {
	const op = "store.IntendEffect"
	if err := checkIntent(op, &i); err != nil {
		return store.Debit{}, err
	}
	i.Need.Approval = false // it is the declaration's, and no column
	objects, err := bring(op, i.Invocation, i.Outcomes, []world.Object{i.Request})
	if err != nil {
		return store.Debit{}, err
	}
	p, err := prepareProven(op, objects)
	if err != nil {
		return store.Debit{}, err
	}
	needs := func(n *Needs) {
		p.needs(i.Invocation)(n)
		n.Spend = append(n.Spend, SpendRow{Episode: i.Episode, Effect: i.Need.Effect, Scope: i.Need.Scope})
	}
	return submit(ctx, s.writer, op, p.bytes, needLease(i.Lease, needs), func(t *txn) (store.Debit, error) {
		if err := t.fenced(op, i.Lease); err != nil {
			return store.Debit{}, err
		}
		a, err := readAccount(t, i.Invocation)
		if err != nil {
			return store.Debit{}, err
		}
		if err := a.intend(op, &i); err != nil {
			return store.Debit{}, err
		}
		d, err := t.debit(&i)
		if err != nil || d.Denied {
			return d, err
		}
		if err := t.end(op, &a, i.Outcomes); err != nil {
			return d, err
		}
		if err := t.putObjects(p); err != nil {
			return d, err
		}
		row := JournalRow{Kind: KindIntent, Invocation: i.Invocation, Digest: i.Digest, Credential: i.Credential, EffectID: i.EffectID,
			Episode: i.Episode, Need: i.Need, Ref: i.Request.Hash}
		if err := t.journal(row); err != nil {
			return d, err
		}
		return d, t.AddPending(t.head.Seq)
	})
}

func checkIntent(op string, i *store.EffectIntent) error {
	if err := checkTexts(op, text{"invocation", string(i.Invocation)}, text{"effect id", i.EffectID}, text{"episode", i.Episode},
		text{"effect", i.Need.Effect}, text{"scope", i.Need.Scope}); err != nil {
		return err
	}
	switch {
	case i.Invocation == "":
		return world.Errorf(world.KindBadRequest, op, "an effect needs an invocation")
	case i.EffectID == "":
		return world.Errorf(world.KindBadRequest, op, "an effect needs an id")
	case i.Need.Cost < 0 || i.Need.Cost > hashref.MaxInt:
		return world.Errorf(world.KindBadRequest, op, "cost must be from 0 to 2^53-1, not %d", i.Need.Cost)
	case i.Budget < 0 || i.Budget > hashref.MaxInt:
		return world.Errorf(world.KindBadRequest, op, "budget must be from 0 to 2^53-1, not %d", i.Budget)
	}
	return nil
}

// intend tells whether an invocation may do one more effect.
func (a *account) intend(op string, i *store.EffectIntent) error {
	if err := a.free(op, i.Digest); err != nil {
		return err
	}
	if _, there := a.effects[i.EffectID]; there {
		return world.Errorf(world.KindBadRequest, op, "effect id %q was already used in this invocation", i.EffectID)
	}
	if len(a.effects) >= MaxEffects {
		return world.Errorf(world.KindTooLarge, op, "an invocation may do at most %d effects", MaxEffects)
	}
	return nil
}

// debit moves the running sum, if the budget suffices.
func (t *txn) debit(i *store.EffectIntent) (store.Debit, error) {
	sum, _, err := t.Spend(i.Episode, i.Need.Effect, i.Need.Scope)
	if err != nil {
		return store.Debit{}, err
	}
	left := i.Budget - sum.Spent
	if i.Need.Cost > left {
		left = max(left, 0)
		return store.Debit{Before: left, After: left, Denied: true}, nil
	}
	t.dirty = true
	row := SpendRow{Episode: i.Episode, Effect: i.Need.Effect, Scope: i.Need.Scope, Spent: sum.Spent + i.Need.Cost}
	return store.Debit{Before: left, After: left - i.Need.Cost}, t.SetSpend(&row)
}

// RecordOutcome implements store.Writer.
func (s *Store) RecordOutcome(ctx context.Context, o store.EffectOutcome) error {
	const op = "store.RecordOutcome"
	if err := checkTexts(op, text{"invocation", string(o.Invocation)}); err != nil {
		return err
	}
	outcomes := []store.EffectOutcome{o}
	objects, err := bring(op, o.Invocation, outcomes, nil)
	if err != nil {
		return err
	}
	p, err := prepareProven(op, objects)
	if err != nil {
		return err
	}
	_, err = submit(ctx, s.writer, op, p.bytes, p.needs(o.Invocation), func(t *txn) (struct{}, error) {
		a, err := readAccount(t, o.Invocation)
		if err != nil {
			return struct{}{}, err
		}
		if err := t.end(op, &a, outcomes); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, t.putObjects(p)
	})
	return err
}

// bring is the objects of a write with those of the outcomes that it brings before them.
func bring(op string, id world.InvocationID, outcomes []store.EffectOutcome, own []world.Object) ([]world.Object, error) {
	if len(outcomes) == 0 {
		return own, nil
	}
	var objects []world.Object
	for i := range outcomes {
		o := &outcomes[i]
		if err := checkTexts(op, text{"effect id", o.EffectID}); err != nil {
			return nil, err
		}
		switch {
		case o.Invocation == "" || o.Invocation != id:
			return nil, world.Errorf(world.KindBadRequest, op, "an outcome must be of the invocation that brings it")
		case o.Record.IsNone():
			return nil, world.Errorf(world.KindBadRequest, op, "an outcome needs a record")
		}
		objects = append(objects, o.Objects...)
	}
	return append(objects, own...), nil
}

// end closes intents of an invocation.
func (t *txn) end(op string, a *account, outcomes []store.EffectOutcome) error {
	for i := range outcomes {
		o := &outcomes[i]
		intent, there := a.effects[o.EffectID]
		switch {
		case !there:
			return world.Errorf(world.KindBadRequest, op, "effect %q has no intent in this invocation", o.EffectID)
		case intent == 0:
			return world.Errorf(world.KindBadRequest, op, "effect %q already has an outcome", o.EffectID)
		}
		a.effects[o.EffectID] = 0
		if err := t.DropPending(intent); err != nil {
			return err
		}
		if err := t.journal(JournalRow{Kind: KindOutcome, Invocation: o.Invocation, EffectID: o.EffectID, Ref: o.Record}); err != nil {
			return err
		}
	}
	return nil
}
