// Package store is the contract of durable storage: what is kept, what is atomic, when a
// write may be acknowledged, and who retries. Backends live in subfolders and pass the one
// suite in storetest; what is the same for all of them is in sqlstore. Nothing here knows
// HTTP, sessions' credentials or transitions. Answers spec/02-store.md.
package store

import (
	"context"
	"time"

	"ailang.dev/world/host/world"
)

// Bounds of what one write may bring. A larger one is KindTooLarge, and nothing of it is
// stored.
const (
	MaxPayload      = 16 << 20 // bytes of one object
	MaxBatchObjects = 10_000   // objects of one write
	MaxText         = 4 << 10  // bytes of a semantic id, provenance, writtenBy, invocation id
	MaxPage         = 500      // rows of one page; a larger limit is capped
	MaxRefs         = 256      // references indexed out of one object's payload
	MaxKind         = 64       // bytes of the kind of something kept
)

// Store keeps one world. All methods may be called from any goroutine.
//
// Reads see everything that any writer was acknowledged before they began, never wait for
// a writer, and check each row they return: one that does not prove itself is
// KindIntegrity, naming the row. What is not there is KindNotFound. A context that ends is
// KindTimeout.
//
// Writes go through one writer that puts whatever waits into one durable transaction and
// answers each caller only after it is on disk. One write is atomic: all of it or none.
// A failed write does not disturb the others of its batch. If the context ends before the
// writer took the write into a batch, the answer is KindTimeout and nothing was or will be
// written; after that it is KindUncertain, and the caller asks again by reading. Nobody but
// the caller retries. If the backend itself cannot tell whether a batch landed, it finds
// out by re-opening; until it knows, writes are KindUncertain.
//
// Payloads handed to a write must not be changed afterwards. Pages have at most MaxPage
// rows; a limit below 1 means 100.
type Store interface {
	Reader
	Writer
	// Close waits for the batch being written, refuses what waits with KindTimeout, and
	// gives up the writer lock.
	Close() error
}

// Reader is the reading half of a Store.
type Reader interface {
	// ID is a random text that names this store for ever.
	ID() string
	// Head is where the log stands. Before the first entry it is KindNoWorld.
	Head(ctx context.Context) (Head, error)
	World(ctx context.Context, ref world.Ref) (world.World, error)
	// Object reads an object with its payload and proves its hash.
	Object(ctx context.Context, ref world.Ref) (world.Object, error)
	// ObjectMeta reads an object without touching its payload.
	ObjectMeta(ctx context.Context, ref world.Ref) (world.ObjectMeta, error)
	// ObjectsBySemanticID pages objects in ascending hash order, strictly after a hash
	// (None: from the first). KindIndexMissing if the index cannot be used now.
	ObjectsBySemanticID(ctx context.Context, semanticID string, after world.Ref, limit int) ([]world.ObjectMeta, error)
	Entry(ctx context.Context, index int64) (world.Entry, error)
	// Entries is up to limit entries from an index on; it stops at the first absent one.
	Entries(ctx context.Context, from int64, limit int) ([]world.Entry, error)
	// RegistryHead is the newest head of a name.
	RegistryHead(ctx context.Context, name string) (RegistryHead, error)
	// Invocation is all that the journal says of an id; one never seen has StateUnknown.
	Invocation(ctx context.Context, id world.InvocationID) (Invocation, error)
	// Unresolved pages the intents that have no end, of effects and of REST commits, oldest
	// first: the invocations of up to limit of them, each once, and where the next page
	// begins. The first begins at 0; next is 0 after the last. An invocation whose intents
	// lie on two pages is on both.
	Unresolved(ctx context.Context, after int64, limit int) (open []Invocation, next int64, err error)
	Session(ctx context.Context, id world.Ref) (world.Session, error)
	// Sessions pages sessions in order of minting, newest last; after is the id of the
	// last one seen, episode "" means all.
	Sessions(ctx context.Context, episode string, after world.Ref, limit int) ([]world.Session, error)
	// Kept is what is kept of a kind under a key, also past its end, until it is swept.
	Kept(ctx context.Context, kind string, key world.Ref) (Kept, error)
	// KeptAll pages what is kept of a kind in order of keeping, strictly after a place (0:
	// from the first).
	KeptAll(ctx context.Context, kind string, after int64, limit int) ([]Kept, error)
	// Spent is the running sum of an episode's spend of an effect in a scope.
	Spent(ctx context.Context, episode, effect, scope string) (int64, error)
	// Referrers pages what names a reference, in order of writing, strictly after a
	// sequence number (0: from the first).
	Referrers(ctx context.Context, ref world.Ref, after int64, limit int) ([]Referrer, error)
	// EpisodeEntries pages the indexes of the entries that an episode's calls became: with
	// back those before a place, newest first, else those from it on, oldest first.
	EpisodeEntries(ctx context.Context, episode string, place int64, back bool, limit int) ([]int64, error)
	// Scan checks the newest maxEntries entries and what they stand on, and calls report
	// with each hole. It returns early, with done false, when ctx ends.
	Scan(ctx context.Context, maxEntries int, report func(Hole)) (done bool, err error)
	// Audit reads every row that there is, and calls report with each that does not prove
	// itself, and with what does not add up: the chain, places, spend, open intents.
	Audit(ctx context.Context, report func(Hole)) (Audited, error)
}

// Shared is what a Store also is where several daemons write one world at a time. One that
// is a single process's own is none.
type Shared interface {
	Store
	// TakeEpisode waits within ctx until an episode is this daemon's and no other's, or was
	// another's that is no longer alive. It may be taken several times at once by one daemon;
	// each is given back. A context that ends is KindTimeout.
	TakeEpisode(ctx context.Context, episode string) (Lease, error)
	// GiveEpisode gives back what was taken. It waits for the database a short time at most;
	// what could not be told then is told later.
	GiveEpisode(l Lease)
	// Adopt makes up to limit open intents this daemon's whose daemon is no more, and gives their
	// invocations; more says that there may be others. No two daemons that are alive are given
	// the same one, and after an error none is forgotten: the next Adopt gives it.
	Adopt(ctx context.Context, limit int) (open []Invocation, more bool, err error)
}

// Lease is that an episode is one daemon's for now. A write that brings one is KindCapacity,
// and nothing of it is stored, once another daemon has taken the episode. The zero Lease asks
// for nothing.
type Lease struct {
	Episode string
	Fence   int64 // tells this taking from all others of the same daemon
}

// Audited is what an audit read.
type Audited struct {
	Rows    int64 `json:"rows"`
	Entries int64 `json:"entries"`
	Effects int64 `json:"effects"` // intents
	Bytes   int64 `json:"bytes"`   // of payloads
	Foreign int64 `json:"foreign"` // objects whose interface hash is not that of their semantic id; only REST brings such
	Holes   int64 `json:"holes"`
}

// Writer is the writing half of a Store.
type Writer interface {
	// PutObjects stores objects that no entry needs yet. Those already there keep their
	// first metadata.
	PutObjects(ctx context.Context, objects []world.Object) error
	// Append commits one call as the next entry. The writer fixes index, previous hash,
	// entry hash and world. An invocation id that is already committed is
	// KindTaskIDUsed. Before genesis it is KindNoWorld. Outcomes that it brings are held to
	// the laws of RecordOutcome.
	Append(ctx context.Context, a Append) (Committed, error)
	// Commit commits a REST world transition verbatim; see Commit for its laws.
	Commit(ctx context.Context, c Commit) (Committed, error)
	// IntendEffect tests spent + cost <= budget, debits, stores the request and writes the
	// intent, in one transaction, and before them the outcomes of earlier effects that it
	// brings. A budget that does not suffice is no error: Debit says Denied, and nothing is
	// written. An effect id used before in the invocation is KindBadRequest.
	IntendEffect(ctx context.Context, i EffectIntent) (Debit, error)
	// RecordOutcome closes an intent with its record. An outcome without an intent, or a
	// second one, is KindBadRequest.
	RecordOutcome(ctx context.Context, o EffectOutcome) error
	// SwapRegistry moves a registry head if it still is observed (None: there was none),
	// else HeadConflictError. The objects are stored with it.
	SwapRegistry(ctx context.Context, name string, observed, next world.Ref, objects []world.Object) (RegistryHead, error)
	// PutSession stores a minted session. An id that is there is KindBadRequest.
	PutSession(ctx context.Context, s world.Session) error
	// RevokeSession marks a session revoked; one that is not there is KindNotFound, one
	// already revoked stays so.
	RevokeSession(ctx context.Context, id world.Ref) error
	// Keep keeps something beside the log until it ends. If the kind has the key already,
	// what is there stays and is returned, unless replace says to put this in its place.
	Keep(ctx context.Context, k Kept, replace bool) (Kept, error)
	// DropKept forgets something kept; what is not there is KindNotFound.
	DropKept(ctx context.Context, kind string, key world.Ref) error
	// SweepKept forgets up to limit things, those that ended first, that ended at a moment or
	// before it; it returns how many.
	SweepKept(ctx context.Context, ended time.Time, limit int) (int, error)
	// RevokeEpisode revokes all sessions of an episode that are not yet; it returns how
	// many.
	RevokeEpisode(ctx context.Context, episode string) (int, error)
}

// Kept is something that is kept beside the log until it ends: no part of the world, of no
// entry, and the only rows that are replaced and deleted. Place is given by the store.
type Kept struct {
	Place   int64
	Kind    string
	Key     world.Ref
	Expires time.Time // kept to the millisecond
	Body    []byte
}

// Head is where the log stands.
type Head struct {
	World   world.Ref // the selected head
	LogHead world.Ref // the newest entry's hash
	Next    int64     // the index the next entry will have
}

// Committed is what a commit made.
type Committed struct {
	Entry world.Entry
	World world.World
	// Replayed says that an earlier commit of the same id was found, and nothing written.
	Replayed bool
}

// Append is one coordinator call to be committed.
type Append struct {
	Invocation     world.InvocationID
	Digest         world.Ref // what the id was used for; see Invocation.Digest
	Credential     world.Ref // whose session it was; kept in the journal
	Objects        []world.Object
	TransitionFn   world.Ref
	Interpreter    world.Ref
	SemanticsEpoch int64
	WrittenBy      string
	TransitionRef  world.Ref       // the invocation record
	StateRoot      world.Ref       // the output object
	Outcomes       []EffectOutcome // of the invocation's effects, unless recorded before
	Lease          Lease
}

// Commit is a REST commit. Its laws, in this order: an Invocation already committed with
// the same Digest is replayed, with another is KindBadRequest; ObservedHead must be the
// selected head (None before genesis) or it is HeadConflictError; EntryIndex is the next
// one, PrevEntryHash the log head (free at genesis), NextWorld.LogHead the EntryHash,
// Revision the next one (0 at genesis), NextWorld.Ref and EntryHash are new, each broken
// one KindBadRequest with a Msg that begins with the field's path ("entry.header.entryIndex must be 4");
// every object's Hash is that of its payload, else KindInternal.
//
// With an Invocation the intent is durable before the commit is tried. A commit that is
// known not to have landed ends its intent, and the id is free again.
type Commit struct {
	Invocation   world.InvocationID // "" or rest:<id>
	Digest       world.Ref
	Credential   world.Ref // whose session it was; kept in the journal if there is an Invocation
	ObservedHead world.Ref
	Objects      []world.Object
	NextWorld    world.World
	Entry        world.Entry
}

// State is how far the journal says an invocation got.
type State int

// The states.
const (
	StateUnknown   State = iota // never seen, or ended with nothing done: the id is free
	StateOpen                   // an intent is durable, an end is not
	StateCommitted              // it is an entry
)

// Invocation is all that the journal says of an id.
type Invocation struct {
	ID     world.InvocationID
	State  State
	Digest world.Ref // what the id was first used for
	// Credential is the session that first used the id; None for a REST commit without one.
	Credential world.Ref
	// EntryIndex and World are set when State is StateCommitted.
	EntryIndex int64
	World      world.Ref
	Effects    []EffectTrace // intents in order of writing
}

// EffectTrace is one effect intent. Record is None while its outcome is unknown.
type EffectTrace struct {
	EffectID string
	Request  world.Ref
	Record   world.Ref
}

// EffectIntent is one effect about to be done.
type EffectIntent struct {
	Invocation world.InvocationID
	Digest     world.Ref
	Credential world.Ref // whose session it was; kept in the journal
	EffectID   string
	Episode    string
	Need       world.Need
	Budget     int64 // what the session was granted in all
	Request    world.Object
	Outcomes   []EffectOutcome // of the invocation's earlier effects, unless recorded before
	Lease      Lease
}

// Debit is what an intent did to the budget: what was left before, and after.
type Debit struct {
	Before, After int64
	Denied        bool
}

// EffectOutcome is one effect that was done, or failed.
type EffectOutcome struct {
	Invocation world.InvocationID // where it is part of a larger write: that one's
	EffectID   string
	Record     world.Ref
	Objects    []world.Object // the record, and the result if there is one
}

// RegistryHead is one name's newest head. Revision counts its moves from 1.
type RegistryHead struct {
	Name     string
	Head     world.Ref
	Revision int64
}

// ReferrerKind tells what refers.
type ReferrerKind string

// The kinds of referrers.
const (
	ReferrerObject   ReferrerKind = "object"   // an object's payload holds the reference
	ReferrerEntry    ReferrerKind = "entry"    // an entry's header or transitionRef
	ReferrerWorld    ReferrerKind = "world"    // a world's stateRoot or logHead
	ReferrerRegistry ReferrerKind = "registry" // a registry head
)

// Referrer is one thing that names a reference.
type Referrer struct {
	Seq   int64 // its place in the order of writing, for paging
	Kind  ReferrerKind
	Ref   world.Ref // object, world: its hash; registry: the head
	Index int64     // entry: its index
	Name  string    // registry: its name
}

// Hole is one thing that the integrity scan found not to be whole.
type Hole struct {
	What   string // "entry 17", "object sha256:…"
	Reason string
}
