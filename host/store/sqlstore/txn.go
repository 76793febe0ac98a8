package sqlstore

import (
	"fmt"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// maxJournal bounds the journal rows read of one invocation: two for each effect, and a
// few more.
const maxJournal = 2*MaxEffects + 8

// MaxEffects bounds the effect intents of one invocation.
const MaxEffects = 512

// txn is the write transaction as the laws see it: rows are given their places, and the
// head follows what the operations did so far.
type txn struct {
	Tx
	head  HeadRow
	refs  []RefRow // to be indexed before the commit
	dirty bool     // something was written

	control bool // a registry or a session was
}

// finish writes what belongs to the batch as a whole.
func (t *txn) finish() error {
	if err := t.AddRefs(t.refs); err != nil {
		return err
	}
	t.head.Batch++
	return t.SetHead(&t.head)
}

func (t *txn) place() Seq {
	t.dirty = true
	t.head.Seq++
	return t.head.Seq
}

// refer adds what a row names to the references index, each target once.
func refer(refs []RefRow, kind RefKind, seq Seq, place int64, targets ...world.Ref) []RefRow {
	for i, target := range targets {
		if target.IsNone() || contains(targets[:i], target) {
			continue
		}
		refs = append(refs, RefRow{Target: target, Seq: seq, Kind: kind, Place: place})
	}
	return refs
}

// RefsOfObject adds what an object's payload names to refs.
func RefsOfObject(refs []RefRow, r *ObjectRow) []RefRow {
	return refsOfObject(refs, r.Seq, References(r.Payload))
}

func refsOfObject(refs []RefRow, seq Seq, found []world.Ref) []RefRow {
	for _, target := range found {
		refs = append(refs, RefRow{Target: target, Seq: seq, Kind: RefObject, Place: seq})
	}
	return refs
}

// RefsOfEntry adds what an entry and its world name to refs.
func RefsOfEntry(refs []RefRow, r *EntryRow) []RefRow {
	h := &r.Entry.Header
	refs = refer(refs, RefEntry, r.Seq, h.EntryIndex, h.TransitionFn, h.Interpreter, h.PrevEntryHash, r.Entry.TransitionRef)
	return refer(refs, RefWorld, r.Seq+1, h.EntryIndex, r.World.StateRoot, r.World.LogHead)
}

// RefsOfRegistry adds the head that a move names to refs.
func RefsOfRegistry(refs []RefRow, r *RegistryRow) []RefRow {
	return refer(refs, RefRegistry, r.Seq, r.Seq, r.Head.Head)
}

func contains(refs []world.Ref, r world.Ref) bool {
	for i := range refs {
		if refs[i] == r {
			return true
		}
	}
	return false
}

// putObjects stores those that are not there.
func (t *txn) putObjects(p *prepared) error {
	for i := range p.objects {
		o := &p.objects[i]
		row := ObjectRow{Seq: t.head.Seq + 1, Meta: o.ObjectMeta, Size: int64(len(o.Payload)), Payload: o.Payload}
		added, err := t.PutObject(&row)
		if err != nil {
			return err
		}
		if added {
			t.refs = refsOfObject(t.refs, t.place(), p.refs[i])
		}
	}
	return nil
}

// addEntry appends an entry with its world, moves the head, and writes in the journal
// that the invocation that by names, if any, is this entry.
func (t *txn) addEntry(e world.Entry, w world.World, by JournalRow) error {
	row := EntryRow{Seq: t.place(), Entry: e, World: w}
	t.place() // of the world
	if err := t.AddEntry(&row); err != nil {
		return err
	}
	t.refs = RefsOfEntry(t.refs, &row)
	t.head.World, t.head.LogHead, t.head.Next = w.Ref, e.EntryHash, e.Header.EntryIndex+1
	if by.Invocation == "" {
		return nil
	}
	by.Kind, by.Index = KindCommitted, e.Header.EntryIndex
	return t.journal(by)
}

func (t *txn) journal(row JournalRow) error {
	row.Seq = t.place()
	return t.AddJournal(&row)
}

// account is what the journal says of an invocation, with the places of its open intents.
type account struct {
	store.Invocation
	rest    Seq            // the open REST intent, or 0
	effects map[string]Seq // intents by effect id; 0 once there is an outcome
	entry   EntryRow       // set when it is committed
}

// readAccount reads the journal of an invocation.
func readAccount(r Rows, id world.InvocationID) (account, error) {
	a := account{Invocation: store.Invocation{ID: id}}
	rows, err := r.Journal(id, maxJournal)
	if err != nil || len(rows) == 0 {
		return a, err
	}
	for i := len(rows) - 1; i >= 0; i-- {
		if err := a.apply(&rows[i]); err != nil {
			return a, err
		}
	}
	if a.State != store.StateCommitted {
		return a, nil
	}
	row, ok, err := r.Entry(a.EntryIndex)
	if err != nil {
		return a, err
	}
	if !ok {
		return a, Damaged("entries", a.EntryIndex, fmt.Errorf("the journal names it for %s, but it is not there", id))
	}
	a.entry, a.World = row, row.World.Ref
	return a, nil
}

// apply takes in one row; rows come oldest first.
func (a *account) apply(row *JournalRow) error {
	switch row.Kind {
	case KindIntent:
		if a.effects == nil {
			a.effects = make(map[string]Seq)
		}
		a.effects[row.EffectID] = row.Seq
		a.Effects = append(a.Effects, store.EffectTrace{EffectID: row.EffectID, Request: row.Ref})
		a.open(row)
	case KindOutcome:
		if _, there := a.effects[row.EffectID]; !there {
			return Damaged("journal", row.Seq, fmt.Errorf("effect %q has an outcome, but no intent", row.EffectID))
		}
		for i := range a.Effects {
			if a.Effects[i].EffectID == row.EffectID {
				a.Effects[i].Record = row.Ref
			}
		}
		a.effects[row.EffectID] = 0
	case KindCommitted:
		a.open(row)
		a.State, a.EntryIndex, a.rest = store.StateCommitted, row.Index, 0
	case KindRESTOpen:
		a.rest = row.Seq
		a.open(row)
	case KindRESTEnd:
		if a.State == store.StateOpen {
			a.Invocation = store.Invocation{ID: a.ID}
		}
		a.rest = 0
	default:
		return Damaged("journal", row.Seq, fmt.Errorf("kind %d is unknown", row.Kind))
	}
	return nil
}

// open notes what an id is used for, and by whom, when it is used first.
func (a *account) open(row *JournalRow) {
	if a.State == store.StateUnknown {
		a.State, a.Digest, a.Credential = store.StateOpen, row.Digest, row.Credential
	}
}
