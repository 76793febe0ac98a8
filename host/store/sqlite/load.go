package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// Bounds of one transaction while a world is brought.
const (
	loadRows  = 4096
	loadBytes = 16 << 20
)

// Load makes a store out of another one's rows, which dump gives, and keeps that one's id. It is
// made beside its path and put there whole; then its indexes are made. Where something is it is
// KindBadRequest, and nothing is changed.
func Load(ctx context.Context, o Options, id string, dump func(head func(sqlstore.HeadRow) error, v *sqlstore.Visitor) error) error {
	d, exists, err := locked(ctx, &o)
	if err == nil && exists {
		err = &world.Error{Op: "sqlite.Load", Kind: world.KindBadRequest, Subject: d.path, Msg: d.path + " is there already", Hint: "name a file that is not there"}
	}
	if err == nil {
		err = d.load(id, dump)
	}
	if err != nil {
		return d.giveUp(err)
	}
	if err := d.Close(); err != nil {
		return err
	}
	s, err := Open(ctx, o) // which makes the indexes
	switch {
	case err == nil:
		return s.Close()
	case ctx.Err() != nil:
		return nil // all is there; whoever opens it next goes on with them
	}
	return err
}

func (d *database) load(id string, dump func(func(sqlstore.HeadRow) error, *sqlstore.Visitor) error) error {
	tmp, err := d.beside()
	if err == nil {
		err = tmp.fill(id)
	}
	if err == nil {
		err = tmp.bring(dump)
	}
	if err == nil {
		err = syncFile(tmp.path)
	}
	if err == nil {
		err = os.Rename(tmp.path, d.path)
	}
	if err != nil {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(tmp.path + suffix)
		}
		return err
	}
	return syncFile(filepath.Dir(d.path))
}

// loader writes rows, a transaction for every few.
type loader struct {
	*conn
	rows, bytes int
}

func (d *database) bring(dump func(func(sqlstore.HeadRow) error, *sqlstore.Visitor) error) (err error) {
	c, err := d.connectWriter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	l := &loader{conn: c}
	if err := l.do("BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	var head sqlstore.HeadRow
	if err := dump(func(h sqlstore.HeadRow) error { head = h; return nil }, l.visitor()); err != nil {
		return err
	}
	if err := c.setHead(&head); err != nil {
		return err
	}
	return l.do("COMMIT", nil)
}

// wrote counts a row, and begins another transaction if this one has enough.
func (l *loader) wrote(bytes int, err error) error {
	if err != nil {
		return err
	}
	if l.rows, l.bytes = l.rows+1, l.bytes+bytes; l.rows < loadRows && l.bytes < loadBytes {
		return nil
	}
	l.rows, l.bytes = 0, 0
	if err := l.do("COMMIT", nil); err != nil {
		return err
	}
	return l.do("BEGIN IMMEDIATE", nil)
}

func (l *loader) visitor() *sqlstore.Visitor {
	t := &tx{conn: l.conn}
	return &sqlstore.Visitor{
		Object:   func(r *sqlstore.ObjectRow, _ error) error { return l.wrote(len(r.Payload), l.insertObject(r)) },
		Entry:    func(r *sqlstore.EntryRow, _ error) error { return l.wrote(0, l.insertEntry(r)) },
		Journal:  func(r *sqlstore.JournalRow, _ error) error { return l.wrote(0, l.insertJournal(r)) },
		Registry: func(r *sqlstore.RegistryRow, _ error) error { return l.wrote(0, t.AddRegistry(r)) },
		Session:  func(r *sqlstore.SessionRow, _ error) error { return l.wrote(0, t.AddSession(r)) },
		Spend:    func(r *sqlstore.SpendRow, _ error) error { return l.wrote(0, t.SetSpend(r)) },
		Kept:     func(r *sqlstore.KeptRow, _ error) error { return l.wrote(len(r.Body), l.insertKept(r)) },
		Pending:  func(intent sqlstore.Seq) error { return l.wrote(0, t.AddPending(intent)) },
		Derived:  func(error) error { return nil },
	}
}

func (c *conn) insertObject(r *sqlstore.ObjectRow) error {
	return c.do("INSERT INTO objects ("+objectCols+", payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", func(p *params) {
		m := &r.Meta
		p.int(r.Seq).ref(m.Hash, m.InterfaceHash).text(m.SemanticID, m.Provenance).int(r.Size, r.Sum()).blob(r.Payload)
	})
}

func (c *conn) insertEntry(r *sqlstore.EntryRow) error {
	return c.do("INSERT INTO entries ("+entryCols+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", func(p *params) {
		h, w := &r.Entry.Header, &r.World
		p.int(h.EntryIndex, r.Seq, h.SemanticsEpoch).ref(h.TransitionFn, h.Interpreter, h.PrevEntryHash).text(h.WrittenBy)
		p.ref(r.Entry.EntryHash, r.Entry.TransitionRef, w.Ref).int(w.Revision).ref(w.StateRoot, w.LogHead).int(r.Sum())
	})
}

func (c *conn) insertJournal(r *sqlstore.JournalRow) error {
	return c.do("INSERT INTO journal ("+journalCols+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", func(p *params) {
		p.int(r.Seq, int64(r.Kind)).text(string(r.Invocation)).ref(r.Digest, r.Credential)
		p.text(r.EffectID, r.Episode, r.Need.Effect, r.Need.Scope).int(r.Need.Cost).ref(r.Ref).int(r.Index, r.Sum())
	})
}

func (c *conn) insertKept(r *sqlstore.KeptRow) error {
	return c.do("INSERT INTO kept ("+keptCols+") VALUES (?, ?, ?, ?, ?, ?)", func(p *params) {
		p.int(r.ID).text(r.Kind).ref(r.Key).int(r.Expires, r.Sum()).blob(r.Body)
	})
}
