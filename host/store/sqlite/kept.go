package sqlite

import (
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

const keptCols = "id, kind, key, expires, sum, body"

func scanKept(k *cols, r *sqlstore.KeptRow) error {
	*r = sqlstore.KeptRow{ID: k.int(), Kind: k.text(), Key: k.ref(), Expires: k.int()}
	sum := k.int()
	r.Body = k.blob()
	return k.prove("kept", r.ID, sum, r.Sum())
}

func (c *conn) Kept(kind string, key world.Ref) (r sqlstore.KeptRow, ok bool, err error) {
	ok, err = c.one("SELECT "+keptCols+" FROM kept WHERE kind = ? AND key = ?",
		func(p *params) { p.text(kind).ref(key) }, func(k *cols) error { return scanKept(k, &r) })
	return r, ok, err
}

func (c *conn) KeptAll(kind string, after int64, limit int) (list []sqlstore.KeptRow, err error) {
	err = c.each("SELECT "+keptCols+" FROM kept WHERE id > ?1 + 0 AND kind = CAST(?2 AS TEXT) ORDER BY id LIMIT ?3 + 0",
		func(p *params) { p.int(after).text(kind).int(int64(limit)) }, func(k *cols) error {
			var r sqlstore.KeptRow
			err := scanKept(k, &r)
			list = append(list, r)
			return err
		})
	return list, err
}

func (t *tx) AddKept(r *sqlstore.KeptRow) error {
	// The place is in the checksum, so it is known before the row is.
	_, err := t.one("SELECT coalesce(max(id), 0) + 1 FROM kept", nil, func(k *cols) error { r.ID = k.int(); return nil })
	if err != nil {
		return err
	}
	return t.insertKept(r)
}

func (t *tx) SetKept(r *sqlstore.KeptRow) error {
	return t.do("UPDATE kept SET expires = ?, sum = ?, body = ? WHERE id = ?", func(p *params) {
		p.int(r.Expires, r.Sum()).blob(r.Body).int(r.ID)
	})
}

func (t *tx) DropKept(kind string, key world.Ref) (there bool, err error) {
	err = t.do("DELETE FROM kept WHERE kind = ? AND key = ?", func(p *params) { p.text(kind).ref(key) })
	return t.Changes() > 0, err
}

// SweepKept takes rows by the index of ends, and does not read what they hold: a damaged
// row goes with the others.
func (t *tx) SweepKept(ended int64, limit int) (int, error) {
	err := t.do("DELETE FROM kept WHERE id IN (SELECT id FROM kept WHERE expires <= ? + 0 ORDER BY expires LIMIT ? + 0)",
		func(p *params) { p.int(ended, int64(limit)) })
	return t.Changes(), err
}
