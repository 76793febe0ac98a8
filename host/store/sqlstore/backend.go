package sqlstore

import (
	"context"
	"errors"
	"time"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Rows reads rows. A row that is not there is ok false; one that does not prove itself is
// KindIntegrity. Lists are never longer than their limit.
type Rows interface {
	Head() (HeadRow, error)
	// Object finds an object by its hash, with its payload only if asked for.
	Object(hash world.Ref, payload bool) (row ObjectRow, ok bool, err error)
	ObjectBySeq(seq Seq) (row ObjectRow, ok bool, err error)
	// ObjectsBySemanticID lists metadata in ascending hash order, strictly after a hash.
	// KindIndexMissing if the index is not there.
	ObjectsBySemanticID(id string, after world.Ref, limit int) ([]ObjectRow, error)
	Entry(index int64) (row EntryRow, ok bool, err error)
	EntryByHash(hash world.Ref) (row EntryRow, ok bool, err error)
	EntryByWorld(ref world.Ref) (row EntryRow, ok bool, err error)
	// Entries lists entries with index >= from in ascending order.
	Entries(from int64, limit int) ([]EntryRow, error)
	// Registry is the newest row of a name.
	Registry(name string) (row RegistryRow, ok bool, err error)
	RegistryBySeq(seq Seq) (row RegistryRow, ok bool, err error)
	// Journal lists what is said of an invocation, newest first.
	Journal(id world.InvocationID, limit int) ([]JournalRow, error)
	// Pending lists the intents that AddPending named and DropPending did not, oldest first,
	// strictly after a place.
	Pending(after Seq, limit int) ([]JournalRow, error)
	Session(id world.Ref) (row SessionRow, ok bool, err error)
	// Sessions lists sessions in order of minting, strictly after a place; live leaves out
	// the revoked ones; episode "" means all.
	Sessions(episode string, live bool, after Seq, limit int) ([]SessionRow, error)
	Spend(episode, effect, scope string) (row SpendRow, ok bool, err error)
	Kept(kind string, key world.Ref) (row KeptRow, ok bool, err error)
	// KeptAll lists what is kept of a kind in ascending order of places, strictly after one.
	KeptAll(kind string, after int64, limit int) ([]KeptRow, error)
	// Refs lists what names a target, in order of writing, strictly after a place.
	// KindIndexMissing if the index is not there.
	Refs(target world.Ref, after Seq, limit int) ([]RefRow, error)
	// EpisodeEntries lists indexes of entries whose journal row names a call of an episode:
	// with back those before a place, descending, else those from it on, ascending.
	// KindIndexMissing if the index is not there.
	EpisodeEntries(episode string, place int64, back bool, limit int) ([]int64, error)
	// Audit hands every row that there is to v, table by table.
	Audit(v *Visitor) error
}

// Visitor is shown rows, objects with their payloads. damage is why a row does not prove
// itself, and nil if it does; what the row then says is not to be believed. An error of
// one of these ends the audit.
type Visitor struct {
	Object   func(row *ObjectRow, damage error) error
	Entry    func(row *EntryRow, damage error) error
	Journal  func(row *JournalRow, damage error) error
	Registry func(row *RegistryRow, damage error) error
	Session  func(row *SessionRow, damage error) error
	Spend    func(row *SpendRow, damage error) error
	Kept     func(row *KeptRow, damage error) error
	Pending  func(intent Seq) error
	// Derived is called for each part of an index that cannot be used.
	Derived func(damage error) error
}

// Tx is the one write transaction. It is used by one goroutine. After an error of any
// method but PutObject's hash being there, only Restore and Rollback may be called.
type Tx interface {
	Rows
	// Savepoint marks what Restore goes back to.
	Savepoint() error
	// Release forgets the mark and keeps what was done since.
	Release() error
	// Restore undoes all since the mark. An error says that the transaction is lost.
	Restore() error

	// PutObject adds an object unless its hash is there.
	PutObject(row *ObjectRow) (added bool, err error)
	// AddEntry adds an entry; an index, entry hash or world that is there is an error.
	AddEntry(row *EntryRow) error
	AddJournal(row *JournalRow) error
	AddPending(intent Seq) error
	DropPending(intent Seq) error
	AddRegistry(row *RegistryRow) error
	AddSession(row *SessionRow) error
	// RevokeSession replaces a session's row by one that differs in Revoked.
	RevokeSession(row *SessionRow) error
	SetSpend(row *SpendRow) error
	// AddKept adds a row and gives it its place; SetKept replaces the row of that place.
	AddKept(row *KeptRow) error
	SetKept(row *KeptRow) error
	DropKept(kind string, key world.Ref) (there bool, err error)
	// SweepKept deletes up to limit rows, those that ended first, that ended at a moment or
	// before it.
	SweepKept(ended int64, limit int) (n int, err error)
	// AddRefs indexes references. It may sort rows.
	AddRefs(rows []RefRow) error
	SetHead(row *HeadRow) error

	// Held tells whether a lease is still this opener's, and keeps it so until the transaction
	// ends. Where nobody else can write, it is.
	Held(l store.Lease) (bool, error)

	// Commit makes all of it durable. After an error only Backend.Settle can tell whether
	// it did.
	Commit() error
	// Rollback undoes all of it.
	Rollback() error
}

// Needs is what the operations of a batch are known to read, so that a backend to which every
// statement is a way there and back can fetch it all at once. It is a hint: all else can be
// read too, and what is not read does no harm. nil is none.
type Needs struct {
	Calls   []world.InvocationID // Journal
	Objects []world.Ref          // Object, without payloads
	Spend   []SpendRow           // Spend; the sums are not looked at
	Leases  []store.Lease        // Held
}

// ErrAgain is in the chain of an error of a transaction of which nothing is durable, and
// which is worth running again: the engine chose it to make way, or the connection broke.
var ErrAgain = errors.New("the transaction may be run again")

// Backend keeps rows durably. Read may be called from any goroutine; Begin, the Tx and
// Settle by the writer alone, and Close when neither runs any more.
type Backend interface {
	// ID names the store for ever.
	ID() string
	// Exclusive tells whether nobody but this process can write while the backend is open,
	// so that what its writer knows need not be read again.
	Exclusive() bool
	// Read calls f with a snapshot that holds everything committed before.
	Read(ctx context.Context, f func(Rows) error) error
	// Begin starts the write transaction. Until it ends nobody else, in whatever process, can
	// write: what is read in it stays true. What the operations are known to read may be
	// fetched with it.
	Begin(needs *Needs) (Tx, error)
	// Settle tells whether the transaction whose Commit failed last is durable, and makes
	// sure that the answer can no longer change. An error says that it is not known yet.
	Settle() (landed bool, err error)
	Close() error
}

// Hooks are pause points for tests; each may be nil. The writer's goroutine calls them,
// Withdrawn the caller's.
type Hooks struct {
	BeforeTake   func() // an operation waits, and was not taken
	AfterTake    func() // the batch is fixed
	BeforeCommit func() // all operations ran, nothing is durable
	AfterCommit  func() // the batch is durable
	BeforeAnswer func() // no caller was answered
	Withdrawn    func() // an operation was withdrawn, and will never be taken
	// Batch is told of each batch that was tried, after its callers were answered. It is no
	// pause point: what it takes, the next batch waits for.
	Batch func(Batch)
}

// Batch is one transaction of the writer, as it is told to who watches.
type Batch struct {
	Ops     []Op
	Bytes   int // of payloads
	Waiting int // operations in the queue when it was taken
	// Began is when the transaction did, Ran when its operations had, Ended when it was
	// durable or lost.
	Began, Ran, Ended time.Time
	Err               error // why it was lost; nil if it is durable, or had nothing to write
	Written           bool  // it had something to write
}

// Op is one operation of a batch. Those that nobody waits for have no context.
type Op struct {
	Name   string
	Ctx    context.Context
	Queued time.Time
}

func pause(f func()) {
	if f != nil {
		f()
	}
}
