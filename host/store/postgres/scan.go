package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// cols reads a row's columns in order; err is the first that is not what it must be.
type cols struct {
	values []any // int64, string, []byte, or nil
	n      int
	err    error
}

// colsOf takes a row's values. What the driver cannot read ends the reading.
func colsOf(r pgx.Rows) (*cols, error) {
	v, err := r.Values()
	return &cols{values: v}, err
}

func next[T any](c *cols) T {
	v, _ := c.values[c.n].(T) // NULL, which is no value of a column that is NOT NULL, is the zero one
	c.n++
	return v
}

func (c *cols) int() int64 { return next[int64](c) }

func (c *cols) blob() []byte { return next[[]byte](c) }

func (c *cols) text() string {
	s, err := decodeText(next[string](c))
	c.note(err)
	return s
}

func (c *cols) ref() world.Ref {
	b := c.blob()
	if b == nil {
		return hashref.None
	}
	r, err := hashref.FromDigest(b)
	c.note(err)
	return r
}

func (c *cols) time() time.Time {
	t, err := sqlstore.ParseTime(c.text())
	c.note(err)
	return t
}

func (c *cols) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

// prove ends the reading of a row: its columns are what they must be, and give its checksum.
func (c *cols) prove(table string, row any, stored, computed int64) error {
	if c.err != nil {
		return sqlstore.Damaged(table, row, c.err)
	}
	return sqlstore.Prove(table, row, stored, computed)
}

const headCols = "batch, seq, world, log_head, next_index, sum"

func scanHead(k *cols, r *sqlstore.HeadRow) error {
	*r = sqlstore.HeadRow{Batch: k.int(), Seq: k.int(), World: k.ref(), LogHead: k.ref(), Next: k.int()}
	return k.prove("head", 1, k.int(), r.Sum())
}

const objectCols = "seq, hash, interface_hash, semantic_id, provenance, size, sum"

func scanObject(k *cols, r *sqlstore.ObjectRow) error {
	r.Seq = k.int()
	r.Meta = world.ObjectMeta{Hash: k.ref(), InterfaceHash: k.ref(), SemanticID: k.text(), Provenance: k.text()}
	r.Size = k.int()
	return k.prove("objects", r.Seq, k.int(), r.Sum())
}

func scanPayload(k *cols, r *sqlstore.ObjectRow) error {
	err := scanObject(k, r)
	if r.Payload = k.blob(); r.Payload == nil {
		r.Payload = []byte{}
	}
	return err
}

const entryCols = "entry_index, seq, semantics_epoch, transition_fn, interpreter, prev_hash, written_by, entry_hash," +
	" transition_ref, world, revision, state_root, log_head, sum"

func scanEntry(k *cols, r *sqlstore.EntryRow) error {
	h := &r.Entry.Header
	h.EntryIndex, r.Seq, h.SemanticsEpoch = k.int(), k.int(), k.int()
	h.TransitionFn, h.Interpreter, h.PrevEntryHash, h.WrittenBy = k.ref(), k.ref(), k.ref(), k.text()
	r.Entry.EntryHash, r.Entry.TransitionRef = k.ref(), k.ref()
	r.World = world.World{Ref: k.ref(), Revision: k.int(), StateRoot: k.ref(), LogHead: k.ref()}
	return k.prove("entries", h.EntryIndex, k.int(), r.Sum())
}

const registryCols = "seq, name, revision, head, sum"

func scanRegistry(k *cols, r *sqlstore.RegistryRow) error {
	r.Seq = k.int()
	r.Head = store.RegistryHead{Name: k.text(), Revision: k.int(), Head: k.ref()}
	return k.prove("registry", r.Seq, k.int(), r.Sum())
}

const journalCols = "journal.seq, kind, invocation, digest, credential, effect_id, episode, effect, scope, cost, ref, entry_index, journal.sum"

func scanJournal(k *cols, r *sqlstore.JournalRow) error {
	r.Seq, r.Kind, r.Invocation = k.int(), sqlstore.JournalKind(k.int()), world.InvocationID(k.text())
	r.Digest, r.Credential, r.EffectID, r.Episode = k.ref(), k.ref(), k.text(), k.text()
	r.Need = world.Need{Effect: k.text(), Scope: k.text(), Cost: k.int()}
	r.Ref, r.Index = k.ref(), k.int()
	return k.prove("journal", r.Seq, k.int(), r.Sum())
}

const sessionCols = "seq, id, episode, grants, created, expires, revoked, sum"

func scanSession(k *cols, r *sqlstore.SessionRow) error {
	r.Seq, r.ID, r.Episode, r.Grants = k.int(), k.ref(), k.text(), k.text()
	r.Created, r.Expires, r.Revoked = k.time(), k.time(), k.int() != 0
	return k.prove("sessions", r.Seq, k.int(), r.Sum())
}

const spendCols = "episode, effect, scope, spent, sum"

func scanSpend(k *cols, r *sqlstore.SpendRow) error {
	*r = sqlstore.SpendRow{Episode: k.text(), Effect: k.text(), Scope: k.text(), Spent: k.int()}
	return k.prove("spend", []string{r.Episode, r.Effect, r.Scope}, k.int(), r.Sum())
}

const keptCols = "id, kind, key, expires, sum, body"

func scanKept(k *cols, r *sqlstore.KeptRow) error {
	*r = sqlstore.KeptRow{ID: k.int(), Kind: k.text(), Key: k.ref(), Expires: k.int()}
	sum := k.int()
	r.Body = k.blob()
	return k.prove("kept", r.ID, sum, r.Sum())
}

const refCols = "target, seq, kind, place, sum"

func scanRef(k *cols, r *sqlstore.RefRow) error {
	*r = sqlstore.RefRow{Target: k.ref(), Seq: k.int(), Kind: sqlstore.RefKind(k.int()), Place: k.int()}
	return k.prove("refs", r.Seq, k.int(), r.Sum())
}
