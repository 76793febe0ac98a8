package sqlite

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// tx is the write transaction, on the writer's connection.
type tx struct {
	*conn
	mark [parts]int       // of the draft at the savepoint
	head sqlstore.HeadRow // what SetHead wrote
}

var _ sqlstore.Tx = (*tx)(nil)

func (t *tx) Savepoint() error {
	t.mark = t.seen.draft.mark()
	return t.do("SAVEPOINT op", nil)
}

func (t *tx) Release() error { return t.do("RELEASE op", nil) }

func (t *tx) Restore() error {
	if t.AutocommitEnabled() {
		return errors.New("sqlite: the engine rolled the transaction back")
	}
	t.seen.draft.undo(t.mark)
	if err := t.do("ROLLBACK TO op", nil); err != nil {
		return err
	}
	return t.Release()
}

func (t *tx) PutObject(r *sqlstore.ObjectRow) (bool, error) {
	if _, there, err := t.Object(r.Meta.Hash, false); err != nil || there {
		return false, err
	}
	if err := t.insertObject(r); err != nil {
		return false, err
	}
	t.seen.draft.object(r)
	return true, nil
}

var errThere = errors.New("its hash or world is there already")

func (t *tx) AddEntry(r *sqlstore.EntryRow) error {
	index := r.Entry.Header.EntryIndex
	for _, by := range []struct {
		find func(world.Ref) (sqlstore.EntryRow, bool, error)
		ref  world.Ref
	}{{t.EntryByHash, r.Entry.EntryHash}, {t.EntryByWorld, r.World.Ref}} {
		if _, there, err := by.find(by.ref); err != nil {
			return err
		} else if there {
			return &world.Error{Op: "sqlite.AddEntry", Kind: world.KindInternal, Subject: fmt.Sprint("entry ", index), Err: errThere}
		}
	}
	err := t.insertEntry(r)
	if err == nil {
		t.seen.draft.entry(r)
	}
	return err
}

func (t *tx) AddJournal(r *sqlstore.JournalRow) error {
	err := t.insertJournal(r)
	if err == nil {
		t.seen.draft.journal(r)
	}
	return err
}

// Held implements sqlstore.Tx: nobody else can take anything.
func (t *tx) Held(store.Lease) (bool, error) { return true, nil }

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
		p.int(bit(r.Revoked), r.Sum())
	})
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (t *tx) RevokeSession(r *sqlstore.SessionRow) error {
	return t.do("UPDATE sessions SET revoked = ?, sum = ? WHERE seq = ?", func(p *params) { p.int(bit(r.Revoked), r.Sum(), r.Seq) })
}

func (t *tx) SetSpend(r *sqlstore.SpendRow) error {
	return t.do("INSERT INTO spend (episode, effect, scope, spent, sum) VALUES (?, ?, ?, ?, ?)"+
		" ON CONFLICT (episode, effect, scope) DO UPDATE SET spent = excluded.spent, sum = excluded.sum", func(p *params) {
		p.text(r.Episode, r.Effect, r.Scope).int(r.Spent, r.Sum())
	})
}

// AddRefs is durable with the rows that hold the references: they are found in those again.
func (t *tx) AddRefs(rows []sqlstore.RefRow) error {
	t.seen.draft.refs(rows)
	return nil
}

func (t *tx) SetHead(r *sqlstore.HeadRow) error {
	t.head = *r
	return t.conn.setHead(r)
}

func (c *conn) setHead(r *sqlstore.HeadRow) error {
	return c.do("UPDATE head SET batch = ?, seq = ?, world = ?, log_head = ?, next_index = ?, sum = ? WHERE id = 1", func(p *params) {
		p.int(r.Batch, r.Seq).ref(r.World, r.LogHead).int(r.Next, r.Sum())
	})
}

// Commit takes a slice of the indexes' work along, and makes what it wrote visible when it
// is durable.
func (t *tx) Commit() error {
	x := t.db.index
	if err := t.tend(); err != nil {
		t.db.doubt = doubt{batch: t.head.Batch}
		return err
	}
	ready := make(chan *state, 1)
	go func() { ready <- x.prepare(t.head.Seq, t.head.Next) }() // while the disk is waited for
	err := t.do("COMMIT", nil)
	x.out.next = <-ready
	if err != nil {
		t.db.doubt = doubt{batch: t.head.Batch, full: sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull}
		return err
	}
	x.landed()
	return nil
}

// tend does some of the indexes' work. A fault in it is no fault of the batch, as long as
// memory can hold what was not written.
func (t *tx) tend() error {
	x := t.db.index
	x.out = &outcome{}
	full := x.failing && x.full()
	if x.rest > 0 && !full {
		x.rest--
		return nil
	}
	lost, err := x.work(t.conn, max(x.limits.Slice, sliceFactor*t.seen.draft.count()), full)
	if err == nil {
		return nil
	}
	x.rest, x.out = restAfterFault, &outcome{}
	x.fault(err)
	if lost || full {
		return err
	}
	return nil
}

func (t *tx) Rollback() error {
	t.db.index.lost()
	if t.AutocommitEnabled() {
		return nil
	}
	return t.do("ROLLBACK", nil)
}
