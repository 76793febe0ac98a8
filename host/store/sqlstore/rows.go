package sqlstore

import (
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Seq is a place in the one order of writing that objects, entries, worlds, journal rows,
// registry moves and sessions share. It ascends, and may skip numbers.
type Seq = int64

// HeadRow is the one row that moves with every batch.
type HeadRow struct {
	Batch   int64 // transactions that committed anything
	Seq     Seq   // the last one given out
	World   world.Ref
	LogHead world.Ref
	Next    int64 // index of the next entry
}

// ObjectRow is a stored object. Payload is nil where only the metadata was asked for.
type ObjectRow struct {
	Seq     Seq
	Meta    world.ObjectMeta
	Size    int64 // bytes of the payload
	Payload []byte
}

// EntryRow is an entry with the world it led to. The entry's place is Seq, the world's
// Seq+1.
type EntryRow struct {
	Seq   Seq
	Entry world.Entry
	World world.World
}

// JournalKind tells what a journal row says.
type JournalKind int64

// The kinds of journal rows. Their numbers are on disk.
const (
	KindIntent    JournalKind = 1 // an effect is about to be done
	KindOutcome   JournalKind = 2 // an effect was done, or failed
	KindCommitted JournalKind = 3 // the invocation is an entry
	KindRESTOpen  JournalKind = 4 // a REST commit is about to be tried
	KindRESTEnd   JournalKind = 5 // it is known not to have landed
)

// JournalRow is one line of the journal. Which fields are set depends on Kind.
type JournalRow struct {
	Seq        Seq
	Kind       JournalKind
	Invocation world.InvocationID
	Digest     world.Ref // intents and committed: what the id is used for
	Credential world.Ref // intents and committed: whose session
	EffectID   string    // effect intent and outcome
	Episode    string    // effect intent
	Need       world.Need
	Ref        world.Ref // effect intent: the request; outcome: the record
	Index      int64     // committed: the entry
}

// RegistryRow is one move of a registry head.
type RegistryRow struct {
	Seq  Seq
	Head store.RegistryHead
}

// SessionRow is a minted session.
type SessionRow struct {
	Seq     Seq
	ID      world.Ref
	Episode string
	Grants  string // JSON array
	Created time.Time
	Expires time.Time
	Revoked bool
}

// KeptRow is something kept beside the log. Its place is none in the order of writing: rows
// are replaced and deleted.
type KeptRow struct {
	ID      int64
	Kind    string
	Key     world.Ref
	Expires int64 // milliseconds since 1970
	Body    []byte
}

// SpendRow is the running sum of what an episode spent of an effect in a scope.
type SpendRow struct {
	Episode, Effect, Scope string
	Spent                  int64
}

// RefKind tells, on disk, what kind of row names a reference.
type RefKind int64

// The kinds of referring rows.
const (
	RefObject   RefKind = 1
	RefEntry    RefKind = 2
	RefWorld    RefKind = 3
	RefRegistry RefKind = 4
)

// RefRow is one line of the references index: the row of Kind at Place names Target.
type RefRow struct {
	Target world.Ref
	Seq    Seq
	Kind   RefKind
	Place  int64 // object, registry: its Seq; entry, world: the entry's index
}
