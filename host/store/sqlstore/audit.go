package sqlstore

import (
	"context"
	"fmt"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Audit implements store.Reader.
func (s *Store) Audit(ctx context.Context, report func(store.Hole)) (store.Audited, error) {
	return view(ctx, s, "store.Audit", func(r Rows) (store.Audited, error) {
		a := &auditor{report: report, spent: make(map[spendKey]int64), open: make(map[Seq]string)}
		head, err := r.Head()
		if err != nil && world.KindOf(err) != world.KindIntegrity {
			return a.done, err
		}
		if err != nil {
			a.hole("head", err.Error())
		}
		if verr := r.Audit(a.visitor(ctx)); verr != nil {
			return a.done, verr
		}
		a.balance(head, err == nil)
		return a.done, nil
	})
}

type spendKey struct{ episode, effect, scope string }

// auditor adds up what rows say, and compares it when all were seen.
type auditor struct {
	report func(store.Hole)
	done   store.Audited
	last   *EntryRow

	spent   map[spendKey]int64 // by the journal's intents
	open    map[Seq]string     // intents without an end
	byCall  map[string]Seq     // the open intent of an effect or a REST commit
	written Seq                // places that rows take
}

func (a *auditor) hole(what, reason string) {
	a.done.Holes++
	a.report(store.Hole{What: what, Reason: reason})
}

// seen counts a row, or reports it.
func (a *auditor) seen(ctx context.Context, what func() string, damage error) error {
	a.done.Rows++
	if damage != nil {
		a.hole(what(), damage.Error())
	}
	return ctx.Err()
}

func (a *auditor) visitor(ctx context.Context) *Visitor {
	a.byCall = make(map[string]Seq)
	return &Visitor{
		Object: func(row *ObjectRow, damage error) error {
			a.written++
			a.done.Bytes += int64(len(row.Payload))
			if damage == nil {
				damage = row.prove()
			}
			if damage == nil && row.Meta.InterfaceHash != hashref.SumString(row.Meta.SemanticID) {
				a.done.Foreign++ // by REST an object brings what it likes
			}
			return a.seen(ctx, func() string { return fmt.Sprintf("objects row %d (%s)", row.Seq, row.Meta.Hash) }, damage)
		},
		Entry: func(row *EntryRow, damage error) error {
			a.written += 2
			a.entry(row, damage)
			return a.seen(ctx, func() string { return fmt.Sprintf("entries row %d", row.Entry.Header.EntryIndex) }, damage)
		},
		Journal: func(row *JournalRow, damage error) error {
			a.written++
			if damage == nil {
				a.journal(row)
			}
			return a.seen(ctx, func() string { return fmt.Sprintf("journal row %d (%s)", row.Seq, row.Invocation) }, damage)
		},
		Registry: func(row *RegistryRow, damage error) error {
			a.written++
			return a.seen(ctx, func() string { return fmt.Sprintf("registry row %d (%s)", row.Seq, row.Head.Name) }, damage)
		},
		Session: func(row *SessionRow, damage error) error {
			a.written++
			return a.seen(ctx, func() string { return fmt.Sprintf("sessions row %d (%s)", row.Seq, row.ID) }, damage)
		},
		Spend: func(row *SpendRow, damage error) error {
			if damage == nil {
				a.spend(row)
			}
			return a.seen(ctx, func() string { return fmt.Sprintf("spend row %s %s=%s", row.Episode, row.Effect, row.Scope) }, damage)
		},
		Kept: func(row *KeptRow, damage error) error {
			return a.seen(ctx, func() string { return fmt.Sprintf("kept row %d (%s %s)", row.ID, row.Kind, row.Key) }, damage)
		},
		Pending: func(intent Seq) error {
			a.done.Rows++
			if _, ok := a.open[intent]; !ok {
				a.hole(fmt.Sprintf("pending row %d", intent), "the journal has no open intent there")
			}
			delete(a.open, intent)
			return ctx.Err()
		},
		Derived: func(damage error) error {
			a.hole("index", damage.Error())
			return ctx.Err()
		},
	}
}

// entry holds an entry to the one before it.
func (a *auditor) entry(row *EntryRow, damage error) {
	a.done.Entries++
	if damage != nil {
		a.last = nil
		return
	}
	h := &row.Entry.Header
	name := fmt.Sprintf("entry %d", h.EntryIndex)
	if a.last != nil && a.last.Entry.EntryHash != h.PrevEntryHash {
		a.hole(name, fmt.Sprintf("it names %s before it, which is %s", h.PrevEntryHash, a.last.Entry.EntryHash))
	}
	if a.last != nil && a.last.Entry.Header.EntryIndex+1 != h.EntryIndex {
		a.hole(name, fmt.Sprintf("it follows entry %d", a.last.Entry.Header.EntryIndex))
	}
	if row.World.LogHead != row.Entry.EntryHash || row.World.Revision != h.EntryIndex {
		a.hole(name, "its world is another entry's")
	}
	keep := *row
	a.last = &keep
}

// journal follows intents and their ends, and adds up what they cost.
func (a *auditor) journal(row *JournalRow) {
	call := string(row.Invocation) + "\x00" + row.EffectID
	switch row.Kind {
	case KindIntent:
		a.done.Effects++
		a.spent[spendKey{row.Episode, row.Need.Effect, row.Need.Scope}] += row.Need.Cost
		a.open[row.Seq], a.byCall[call] = string(row.Invocation), row.Seq
	case KindRESTOpen:
		a.open[row.Seq], a.byCall[call] = string(row.Invocation), row.Seq
	case KindOutcome, KindRESTEnd:
		a.close(call)
	case KindCommitted:
		a.close(string(row.Invocation) + "\x00") // a REST intent, if there is one
	}
}

func (a *auditor) close(call string) {
	if seq, ok := a.byCall[call]; ok {
		delete(a.open, seq)
		delete(a.byCall, call)
	}
}

func (a *auditor) spend(row *SpendRow) {
	k := spendKey{row.Episode, row.Effect, row.Scope}
	if want := a.spent[k]; want != row.Spent {
		a.hole(fmt.Sprintf("spend of %s on %s=%s", row.Episode, row.Effect, row.Scope), fmt.Sprintf("it is %d, the journal's intents cost %d", row.Spent, want))
	}
	delete(a.spent, k)
}

// balance compares what is left when all rows were seen.
func (a *auditor) balance(head HeadRow, headProved bool) {
	for k, n := range a.spent {
		if n != 0 {
			a.hole(fmt.Sprintf("spend of %s on %s=%s", k.episode, k.effect, k.scope), fmt.Sprintf("the journal's intents cost %d, and nothing says so", n))
		}
	}
	for seq, id := range a.open {
		a.hole(fmt.Sprintf("journal row %d (%s)", seq, id), "it is an open intent, and is not listed as one")
	}
	if !headProved {
		return
	}
	if a.written != head.Seq {
		a.hole("rows", fmt.Sprintf("they take %d places, the head gave out %d", a.written, head.Seq))
	}
	switch {
	case a.last == nil && head.Next > 0, a.last != nil && a.last.Entry.Header.EntryIndex+1 != head.Next:
		a.hole("head", fmt.Sprintf("the log does not end with entry %d", head.Next-1))
	case a.last != nil && (a.last.Entry.EntryHash != head.LogHead || a.last.World.Ref != head.World):
		a.hole("head", "it names another entry or world than the last one")
	}
}
