package sqlite

import (
	"errors"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

var _ sqlstore.Rows = (*conn)(nil)

// In a statement with ORDER BY or LIMIT, a parameter that stands alone makes the engine
// prepare the statement anew for every value bound to it, which costs more than the
// lookup; within an expression it does not. Hence the CASTs and the "+ 0".

var errNoRow = errors.New("the row is missing")

func (c *conn) Head() (r sqlstore.HeadRow, err error) {
	ok, err := c.one("SELECT batch, seq, world, log_head, next_index, sum FROM head WHERE id = 1", nil, func(k *cols) error {
		r = sqlstore.HeadRow{Batch: k.int(), Seq: k.int(), World: k.ref(), LogHead: k.ref(), Next: k.int()}
		return k.prove("head", 1, k.int(), r.Sum())
	})
	if err == nil && !ok {
		err = sqlstore.Damaged("head", 1, errNoRow)
	}
	return r, err
}

const objectCols = "seq, hash, interface_hash, semantic_id, provenance, size, sum"

func scanObject(k *cols, r *sqlstore.ObjectRow) error {
	r.Seq = k.int()
	r.Meta = world.ObjectMeta{Hash: k.ref(), InterfaceHash: k.ref(), SemanticID: k.text(), Provenance: k.text()}
	r.Size = k.int()
	return k.prove("objects", r.Seq, k.int(), r.Sum())
}

func (c *conn) ObjectBySeq(seq sqlstore.Seq) (sqlstore.ObjectRow, bool, error) {
	return c.objectAt(seq, false)
}

func (c *conn) objectAt(seq sqlstore.Seq, payload bool) (r sqlstore.ObjectRow, ok bool, err error) {
	sql := "SELECT " + objectCols + " FROM objects WHERE seq = ?"
	if payload {
		sql = "SELECT " + objectCols + ", payload FROM objects WHERE seq = ?"
	}
	ok, err = c.one(sql, func(p *params) { p.int(seq) }, func(k *cols) error {
		if err := scanObject(k, &r); err != nil {
			return err
		}
		if payload {
			r.Payload = k.blob()
		}
		return nil
	})
	return r, ok, err
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

func (c *conn) Entry(index int64) (r sqlstore.EntryRow, ok bool, err error) {
	ok, err = c.one("SELECT "+entryCols+" FROM entries WHERE entry_index = ?",
		func(p *params) { p.int(index) }, func(k *cols) error { return scanEntry(k, &r) })
	return r, ok, err
}

func (c *conn) Entries(from int64, limit int) (list []sqlstore.EntryRow, err error) {
	err = c.each("SELECT "+entryCols+" FROM entries WHERE entry_index >= ? + 0 ORDER BY entry_index LIMIT ? + 0",
		func(p *params) { p.int(from, int64(limit)) },
		func(k *cols) error {
			var r sqlstore.EntryRow
			err := scanEntry(k, &r)
			list = append(list, r)
			return err
		})
	return list, err
}

const registryCols = "seq, name, revision, head, sum"

func scanRegistry(k *cols, r *sqlstore.RegistryRow) error {
	r.Seq = k.int()
	r.Head = store.RegistryHead{Name: k.text(), Revision: k.int(), Head: k.ref()}
	return k.prove("registry", r.Seq, k.int(), r.Sum())
}

func (c *conn) Registry(name string) (r sqlstore.RegistryRow, ok bool, err error) {
	ok, err = c.one("SELECT "+registryCols+" FROM registry WHERE name = CAST(? AS TEXT) ORDER BY revision DESC LIMIT 1",
		func(p *params) { p.text(name) }, func(k *cols) error { return scanRegistry(k, &r) })
	return r, ok, err
}

func (c *conn) RegistryBySeq(seq sqlstore.Seq) (r sqlstore.RegistryRow, ok bool, err error) {
	ok, err = c.one("SELECT "+registryCols+" FROM registry WHERE seq = ?",
		func(p *params) { p.int(seq) }, func(k *cols) error { return scanRegistry(k, &r) })
	return r, ok, err
}

const journalCols = "seq, kind, invocation, digest, credential, effect_id, episode, effect, scope, cost, ref, entry_index, sum"

func scanJournal(k *cols, r *sqlstore.JournalRow) error {
	r.Seq, r.Kind, r.Invocation = k.int(), sqlstore.JournalKind(k.int()), world.InvocationID(k.text())
	r.Digest, r.Credential, r.EffectID, r.Episode = k.ref(), k.ref(), k.text(), k.text()
	r.Need = world.Need{Effect: k.text(), Scope: k.text(), Cost: k.int()}
	r.Ref, r.Index = k.ref(), k.int()
	return k.prove("journal", r.Seq, k.int(), r.Sum())
}

func (c *conn) journalAt(seq sqlstore.Seq) (r sqlstore.JournalRow, ok bool, err error) {
	ok, err = c.one("SELECT "+journalCols+" FROM journal WHERE seq = ?",
		func(p *params) { p.int(seq) }, func(k *cols) error { return scanJournal(k, &r) })
	return r, ok, err
}

func (c *conn) Pending(after sqlstore.Seq, limit int) (list []sqlstore.JournalRow, err error) {
	err = c.each("SELECT "+journalCols+" FROM pending JOIN journal USING (seq) WHERE pending.seq > ? + 0 ORDER BY pending.seq LIMIT ? + 0",
		func(p *params) { p.int(after, int64(limit)) }, func(k *cols) error {
			var r sqlstore.JournalRow
			err := scanJournal(k, &r)
			list = append(list, r)
			return err
		})
	return list, err
}

const sessionCols = "seq, id, episode, grants, created, expires, revoked, sum"

func scanSession(k *cols, r *sqlstore.SessionRow) error {
	r.Seq, r.ID, r.Episode, r.Grants = k.int(), k.ref(), k.text(), k.text()
	r.Created, r.Expires, r.Revoked = k.time(), k.time(), k.int() != 0
	return k.prove("sessions", r.Seq, k.int(), r.Sum())
}

func (c *conn) Session(id world.Ref) (r sqlstore.SessionRow, ok bool, err error) {
	ok, err = c.one("SELECT "+sessionCols+" FROM sessions WHERE id = ?",
		func(p *params) { p.ref(id) }, func(k *cols) error { return scanSession(k, &r) })
	return r, ok, err
}

func (c *conn) Sessions(episode string, live bool, after sqlstore.Seq, limit int) (list []sqlstore.SessionRow, err error) {
	sql := "SELECT " + sessionCols + " FROM sessions WHERE seq > ?2 + 0 ORDER BY seq LIMIT ?3 + 0"
	switch {
	case episode != "" && live:
		sql = "SELECT " + sessionCols + " FROM sessions WHERE episode = CAST(?1 AS TEXT) AND seq > ?2 + 0 AND revoked = 0 ORDER BY seq LIMIT ?3 + 0"
	case episode != "":
		sql = "SELECT " + sessionCols + " FROM sessions WHERE episode = CAST(?1 AS TEXT) AND seq > ?2 + 0 ORDER BY seq LIMIT ?3 + 0"
	case live:
		sql = "SELECT " + sessionCols + " FROM sessions WHERE seq > ?2 + 0 AND revoked = 0 ORDER BY seq LIMIT ?3 + 0"
	}
	err = c.each(sql, func(p *params) { p.text(episode).int(after, int64(limit)) }, func(k *cols) error {
		var r sqlstore.SessionRow
		err := scanSession(k, &r)
		list = append(list, r)
		return err
	})
	return list, err
}

func (c *conn) Spend(episode, effect, scope string) (r sqlstore.SpendRow, ok bool, err error) {
	ok, err = c.one("SELECT episode, effect, scope, spent, sum FROM spend WHERE episode = ? AND effect = ? AND scope = ?",
		func(p *params) { p.text(episode, effect, scope) },
		func(k *cols) error {
			r = sqlstore.SpendRow{Episode: k.text(), Effect: k.text(), Scope: k.text(), Spent: k.int()}
			return sqlstore.Prove("spend", []string{episode, effect, scope}, k.int(), r.Sum())
		})
	return r, ok, err
}
