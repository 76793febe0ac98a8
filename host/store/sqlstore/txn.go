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

func (t *txn) refer(kind RefKind, seq Seq, place int64, targets ...world.Ref) {
	for i, target := range targets {
		if target.IsNone() || contains(targets[:i], target) {
			continue
		}
		t.refs = append(t.refs, RefRow{Target: target, Seq: seq, Kind: kind, Place: place})
	}
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
			seq := t.place()
			for _, target := range p.refs[i] {
				t.refs = append(t.refs, RefRow{Target: target, Seq: seq, Kind: RefObject, Place: seq})
			}
		}
	}
	return nil
}

// addEntry appends an entry with its world, moves the head, and writes in the journal
// that an invocation is this entry.
func (t *txn) addEntry(e world.Entry, w world.World, id world.InvocationID, digest world.Ref) error {
	row := EntryRow{Seq: t.place(), Entry: e, World: w}
	worldSeq := t.place()
	if err := t.AddEntry(&row); err != nil {
		return err
	}
	h := e.Header
	t.refer(RefEntry, row.Seq, h.EntryIndex, h.TransitionFn, h.Interpreter, h.PrevEntryHash, e.TransitionRef)
	t.refer(RefWorld, worldSeq, h.EntryIndex, w.StateRoot, w.LogHead)
	t.head.World, t.head.LogHead, t.head.Next = w.Ref, e.EntryHash, h.EntryIndex+1
	if id == "" {
		return nil
	}
	return t.journal(JournalRow{Kind: KindCommitted, Invocation: id, Digest: digest, Index: h.EntryIndex})
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
		for i := range a.Effects {
			if a.Effects[i].EffectID == row.EffectID {
				a.Effects[i].Record = row.Ref
			}
		}
		a.effects[row.EffectID] = 0
	case KindCommitted:
		a.State, a.EntryIndex, a.Digest, a.rest = store.StateCommitted, row.Index, row.Digest, 0
	case KindRESTOpen:
		a.rest = row.Seq
		a.open(row)
	case KindRESTEnd:
		if a.State == store.StateOpen {
			a.State, a.Digest = store.StateUnknown, world.Ref{}
		}
		a.rest = 0
	default:
		return Damaged("journal", row.Seq, fmt.Errorf("kind %d is unknown", row.Kind))
	}
	return nil
}

func (a *account) open(row *JournalRow) {
	if a.State == store.StateUnknown {
		a.State, a.Digest = store.StateOpen, row.Digest
	}
}
