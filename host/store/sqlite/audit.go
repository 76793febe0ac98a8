package sqlite

import (
	"fmt"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// Audit implements sqlstore.Rows.
func (c *conn) Audit(v *sqlstore.Visitor) error {
	for _, table := range []func(*sqlstore.Visitor) error{
		c.auditObjects, c.auditEntries, c.auditJournal, c.auditControl, c.auditSpend, c.auditKept, c.auditIndexes,
	} {
		if err := table(v); err != nil {
			return err
		}
	}
	return nil
}

// damage parts a row's own damage from an error that ends the reading.
func damage(err error) (own, fatal error) {
	if err != nil && world.KindOf(err) == world.KindIntegrity {
		return err, nil
	}
	return nil, err
}

// visit reads one row and shows it.
func visit[R any](k *cols, scan func(*cols, *R) error, show func(*R, error) error) error {
	var r R
	own, fatal := damage(scan(k, &r))
	if fatal != nil {
		return fatal
	}
	return show(&r, own)
}

func (c *conn) auditObjects(v *sqlstore.Visitor) error {
	scan := func(k *cols, r *sqlstore.ObjectRow) error {
		err := scanObject(k, r)
		r.Payload = k.blob()
		return err
	}
	return c.each("SELECT "+objectCols+", payload FROM objects", nil, func(k *cols) error { return visit(k, scan, v.Object) })
}

func (c *conn) auditEntries(v *sqlstore.Visitor) error {
	return c.each("SELECT "+entryCols+" FROM entries ORDER BY entry_index", nil, func(k *cols) error { return visit(k, scanEntry, v.Entry) })
}

func (c *conn) auditJournal(v *sqlstore.Visitor) error {
	err := c.each("SELECT "+journalCols+" FROM journal ORDER BY seq", nil, func(k *cols) error { return visit(k, scanJournal, v.Journal) })
	if err != nil {
		return err
	}
	return c.each("SELECT seq FROM pending", nil, func(k *cols) error { return v.Pending(k.int()) })
}

func (c *conn) auditControl(v *sqlstore.Visitor) error {
	err := c.each("SELECT "+registryCols+" FROM registry ORDER BY seq", nil, func(k *cols) error { return visit(k, scanRegistry, v.Registry) })
	if err != nil {
		return err
	}
	return c.each("SELECT "+sessionCols+" FROM sessions ORDER BY seq", nil, func(k *cols) error { return visit(k, scanSession, v.Session) })
}

func (c *conn) auditSpend(v *sqlstore.Visitor) error {
	scan := func(k *cols, r *sqlstore.SpendRow) error {
		*r = sqlstore.SpendRow{Episode: k.text(), Effect: k.text(), Scope: k.text(), Spent: k.int()}
		return sqlstore.Prove("spend", []string{r.Episode, r.Effect, r.Scope}, k.int(), r.Sum())
	}
	return c.each("SELECT episode, effect, scope, spent, sum FROM spend", nil, func(k *cols) error { return visit(k, scan, v.Spend) })
}

func (c *conn) auditKept(v *sqlstore.Visitor) error {
	return c.each("SELECT "+keptCols+" FROM kept ORDER BY id", nil, func(k *cols) error { return visit(k, scanKept, v.Kept) })
}

// auditIndexes proves the catalogue, and each block that a run of it has.
func (c *conn) auditIndexes(v *sqlstore.Visitor) error {
	if _, err := c.readCatalogue(false); err != nil {
		own, fatal := damage(err)
		if fatal != nil {
			return fatal
		}
		if err := v.Derived(own); err != nil {
			return err
		}
	}
	// Runs that are on their way out are read by nobody, but their rows are rows too.
	err := c.each("SELECT run, part, row_count, block_count, sum FROM index_parts", nil, func(k *cols) error {
		run, p, rp := k.int(), part(k.int()), runPart{rows: k.int(), blocks: k.int()}
		if partSum(run, p, &rp) == k.int() {
			return nil
		}
		return v.Derived(sqlstore.Damaged("index_parts", run, fmt.Errorf("its checksum does not fit; %s", reindexHint)))
	})
	if err != nil {
		return err
	}
	return c.each("SELECT id, data, sum FROM index_blocks", nil, func(k *cols) error {
		id, data := k.int(), k.blob()
		if blockSum(id, data) == k.int() {
			return nil
		}
		return v.Derived(sqlstore.Damaged("index_blocks", id, fmt.Errorf("%w; %s", errBlock, reindexHint)))
	})
}
