package sqlite

import (
	"errors"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// truthPage is how many places in the order of writing are indexed at a time.
const truthPage = 512

// truth is how far the truth was indexed.
type truth struct {
	seq  sqlstore.Seq // of the last row
	next int64        // index of the first entry after it
	// damaged is told of rows that do not prove themselves; it may be nil. They are indexed
	// by what they say: who asks for one is told that it is damaged.
	damaged func(error)
}

// pass is nil for an error of a row that does not prove itself.
func (t *truth) pass(err error) error {
	if err == nil || world.KindOf(err) != world.KindIntegrity {
		return err
	}
	if t.damaged != nil {
		t.damaged(err)
	}
	return nil
}

// readTruth indexes the rows from t to a place, and moves t there.
func (c *conn) readTruth(t *truth, to sqlstore.Seq, d *draft) error {
	for t.seq < to {
		if err := c.readPage(t, min(t.seq+truthPage, to), d); err != nil {
			return err
		}
	}
	return nil
}

var errPast = errors.New("past the page")

func (c *conn) readPage(t *truth, to sqlstore.Seq, d *draft) error {
	const page = " WHERE seq > ? + 0 AND seq <= ? + 0 ORDER BY seq"
	between := func(p *params) { p.int(t.seq, to) }
	var refs []sqlstore.RefRow
	err := c.each("SELECT "+objectCols+", payload FROM objects"+page, between, func(k *cols) error {
		var r sqlstore.ObjectRow
		err := t.pass(scanObject(k, &r))
		r.Payload = k.blob()
		d.object(&r)
		refs = sqlstore.RefsOfObject(refs, &r)
		return err
	})
	if err != nil {
		return err
	}
	err = c.each("SELECT "+journalCols+" FROM journal"+page, between, func(k *cols) error {
		var r sqlstore.JournalRow
		err := t.pass(scanJournal(k, &r))
		d.journal(&r)
		return err
	})
	if err != nil {
		return err
	}
	err = c.each("SELECT "+entryCols+" FROM entries WHERE entry_index >= ? + 0 ORDER BY entry_index", func(p *params) { p.int(t.next) }, func(k *cols) error {
		var r sqlstore.EntryRow
		damage := scanEntry(k, &r)
		if damage == nil && r.Seq > to {
			return errPast // only a row that proves itself is believed; a damaged one ends nothing
		}
		if err := t.pass(damage); err != nil {
			return err
		}
		d.entry(&r)
		refs = sqlstore.RefsOfEntry(refs, &r)
		t.next = r.Entry.Header.EntryIndex + 1
		return nil
	})
	if err != nil && !errors.Is(err, errPast) {
		return err
	}
	err = c.each("SELECT "+registryCols+" FROM registry"+page, between, func(k *cols) error {
		var r sqlstore.RegistryRow
		err := t.pass(scanRegistry(k, &r))
		refs = sqlstore.RefsOfRegistry(refs, &r)
		return err
	})
	d.refs(refs)
	t.seq = to
	return err
}
