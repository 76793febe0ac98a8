package sqlite

import (
	"regexp"

	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

var (
	tableName = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)
	indexLine = regexp.MustCompile(`(?m)^CREATE (?:UNIQUE )?INDEX (\w+) .*;$`)
	refsTable = regexp.MustCompile(`(?ms)^CREATE TABLE refs .*?^\) WITHOUT ROWID;$`)
)

// refs is the one table that can be made anew from the others.
const refs = "refs"

// rebuildPage is how many rows are read between two writes to the references index.
const rebuildPage = 256

// checkTables tells whether the tables that hold the truth are there, and makes anew what
// is derived from them and is not. It ends before anything is served.
func (d *database) checkTables(logf func(string, ...any)) error {
	have := make(map[string]bool)
	err := d.writer.each("SELECT name FROM sqlite_schema", nil, func(k *cols) error {
		have[k.text()] = true
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range tableName.FindAllStringSubmatch(schema, -1) {
		if !have[m[1]] && m[1] != refs {
			return &world.Error{Op: openOp, Kind: world.KindIntegrity, Subject: d.path, Msg: "its table " + m[1] + " is missing", Hint: "restore a copy"}
		}
	}
	for _, m := range indexLine.FindAllStringSubmatch(schema, -1) {
		if have[m[1]] {
			continue
		}
		logf("store %s: the index %s is missing and is built anew", d.path, m[1])
		if err := sqlitex.ExecuteTransient(d.writer.Conn, m[0], nil); err != nil {
			return d.fail("rebuild", err)
		}
	}
	if have[refs] {
		return nil
	}
	logf("store %s: the references index is missing and is built anew", d.path)
	return d.rebuildRefs()
}

// rebuildRefs reads everything that names references, in one transaction.
func (d *database) rebuildRefs() error {
	begun, err := d.Begin()
	if err != nil {
		return err
	}
	t := begun.(*tx)
	defer t.Rollback()
	if err := sqlitex.ExecuteTransient(t.Conn, refsTable.FindString(schema), nil); err != nil {
		return d.fail("rebuild", err)
	}
	for _, step := range []func(after int64) (rows []sqlstore.RefRow, last int64, n int, err error){t.objectRefs, t.entryRefs, t.registryRefs} {
		for after := int64(-1); ; {
			rows, last, n, err := step(after)
			if err == nil {
				err = t.AddRefs(rows)
			}
			if err != nil {
				return err
			}
			if n < rebuildPage {
				break
			}
			after = last
		}
	}
	return t.Commit()
}

func (t *tx) objectRefs(after int64) (rows []sqlstore.RefRow, last int64, n int, err error) {
	err = t.each("SELECT "+objectCols+", payload FROM objects WHERE seq > ? ORDER BY seq LIMIT ? + 0",
		func(p *params) { p.int(after, rebuildPage) }, func(k *cols) error {
			var r sqlstore.ObjectRow
			if err := scanObject(k, &r); err != nil {
				return err
			}
			r.Payload = k.blob()
			rows, last, n = sqlstore.RefsOfObject(rows, &r), r.Seq, n+1
			return nil
		})
	return rows, last, n, err
}

func (t *tx) entryRefs(after int64) (rows []sqlstore.RefRow, last int64, n int, err error) {
	list, err := t.Entries(after+1, rebuildPage)
	for i := range list {
		rows, last = sqlstore.RefsOfEntry(rows, &list[i]), list[i].Entry.Header.EntryIndex
	}
	return rows, last, len(list), err
}

func (t *tx) registryRefs(after int64) (rows []sqlstore.RefRow, last int64, n int, err error) {
	err = t.each("SELECT "+registryCols+" FROM registry WHERE seq > ? ORDER BY seq LIMIT ? + 0",
		func(p *params) { p.int(after, rebuildPage) }, func(k *cols) error {
			var r sqlstore.RegistryRow
			if err := scanRegistry(k, &r); err != nil {
				return err
			}
			rows, last, n = sqlstore.RefsOfRegistry(rows, &r), r.Seq, n+1
			return nil
		})
	return rows, last, n, err
}
