package sqlite

import (
	"errors"
	"slices"

	"zombiezen.com/go/sqlite"

	"ailang.dev/world/host/store/sqlstore"
)

// tx is the write transaction, on the writer's connection.
type tx struct {
	*conn
	batch int64 // what SetHead wrote
}

var _ sqlstore.Tx = (*tx)(nil)

func (t *tx) Savepoint() error { return t.do("SAVEPOINT op", nil) }
func (t *tx) Release() error   { return t.do("RELEASE op", nil) }

func (t *tx) Restore() error {
	if t.AutocommitEnabled() {
		return errors.New("sqlite: the engine rolled the transaction back")
	}
	if err := t.do("ROLLBACK TO op", nil); err != nil {
		return err
	}
	return t.Release()
}

func (t *tx) PutObject(r *sqlstore.ObjectRow) (bool, error) {
	err := t.do("INSERT INTO objects ("+objectCols+", payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING",
		func(p *params) {
			m := &r.Meta
			p.int(r.Seq).ref(m.Hash, m.InterfaceHash).text(m.SemanticID, m.Provenance).int(r.Size, r.Sum()).blob(r.Payload)
		})
	return err == nil && t.Changes() == 1, err
}

func (t *tx) AddEntry(r *sqlstore.EntryRow) error {
	return t.do("INSERT INTO entries ("+entryCols+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", func(p *params) {
		h, w := &r.Entry.Header, &r.World
		p.int(h.EntryIndex, r.Seq, h.SemanticsEpoch).ref(h.TransitionFn, h.Interpreter, h.PrevEntryHash).text(h.WrittenBy)
		p.ref(r.Entry.EntryHash, r.Entry.TransitionRef, w.Ref).int(w.Revision).ref(w.StateRoot, w.LogHead).int(r.Sum())
	})
}

func (t *tx) AddJournal(r *sqlstore.JournalRow) error {
	return t.do("INSERT INTO journal (seq, kind, invocation, digest, credential, effect_id, episode, effect, scope, cost, ref, entry_index, sum)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", func(p *params) {
		p.int(r.Seq, int64(r.Kind)).text(string(r.Invocation)).ref(r.Digest, r.Credential)
		p.text(r.EffectID, r.Episode, r.Need.Effect, r.Need.Scope).int(r.Need.Cost).ref(r.Ref).int(r.Index, r.Sum())
	})
}

func (t *tx) AddPending(intent sqlstore.Seq) error {
	return t.do("INSERT INTO pending (seq) VALUES (?)", func(p *params) { p.int(intent) })
}

func (t *tx) DropPending(intent sqlstore.Seq) error {
	return t.do("DELETE FROM pending WHERE seq = ?", func(p *params) { p.int(intent) })
}

func (t *tx) AddRegistry(r *sqlstore.RegistryRow) error {
	return t.do("INSERT INTO registry ("+registryCols+") VALUES (?, ?, ?, ?, ?)", func(p *params) {
		p.int(r.Seq).text(r.Head.Name).int(r.Head.Revision).ref(r.Head.Head).int(r.Sum())
	})
}

func (t *tx) AddSession(r *sqlstore.SessionRow) error {
	return t.do("INSERT INTO sessions ("+sessionCols+") VALUES (?, ?, ?, ?, ?, ?, ?, ?)", func(p *params) {
		p.int(r.Seq).ref(r.ID).text(r.Episode, r.Grants, sqlstore.FormatTime(r.Created), sqlstore.FormatTime(r.Expires))
		p.int(flag(r.Revoked), r.Sum())
	})
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (t *tx) RevokeSession(r *sqlstore.SessionRow) error {
	return t.do("UPDATE sessions SET revoked = ?, sum = ? WHERE seq = ?", func(p *params) { p.int(flag(r.Revoked), r.Sum(), r.Seq) })
}

func (t *tx) SetSpend(r *sqlstore.SpendRow) error {
	return t.do("INSERT INTO spend (episode, effect, scope, spent, sum) VALUES (?, ?, ?, ?, ?)"+
		" ON CONFLICT (episode, effect, scope) DO UPDATE SET spent = excluded.spent, sum = excluded.sum", func(p *params) {
		p.text(r.Episode, r.Effect, r.Scope).int(r.Spent, r.Sum())
	})
}

// AddRefs inserts in the order of the index, so that a batch touches each page once.
func (t *tx) AddRefs(rows []sqlstore.RefRow) error {
	slices.SortFunc(rows, func(a, b sqlstore.RefRow) int {
		if c := a.Target.Compare(b.Target); c != 0 {
			return c
		}
		return int(a.Seq - b.Seq)
	})
	for i := range rows {
		r := &rows[i]
		if err := t.do("INSERT INTO refs (target, seq, kind, place, sum) VALUES (?, ?, ?, ?, ?)", func(p *params) {
			p.ref(r.Target).int(r.Seq, int64(r.Kind), r.Place, r.Sum())
		}); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) SetHead(r *sqlstore.HeadRow) error {
	t.batch = r.Batch
	return t.conn.setHead(r)
}

func (c *conn) setHead(r *sqlstore.HeadRow) error {
	return c.do("UPDATE head SET batch = ?, seq = ?, world = ?, log_head = ?, next_index = ?, sum = ? WHERE id = 1", func(p *params) {
		p.int(r.Batch, r.Seq).ref(r.World, r.LogHead).int(r.Next, r.Sum())
	})
}

func (t *tx) Commit() error {
	err := t.do("COMMIT", nil)
	if err != nil {
		t.db.doubt = doubt{batch: t.batch, full: sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull}
	}
	return err
}

func (t *tx) Rollback() error {
	if t.AutocommitEnabled() {
		return nil
	}
	return t.do("ROLLBACK", nil)
}
