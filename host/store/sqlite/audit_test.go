package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// flips is how many bytes TestAuditFindsAnyByte changes, one at a time.
const flips = 1200

// fullStore is a store that has rows in every table.
func fullStore(t *testing.T, path string) {
	ctx := context.Background()
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	appendCalls(t, s, "c", 60)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		in := storetest.Intent(world.InvocationID(fmt.Sprint("a2a:ep:e", i/2)), fmt.Sprint("e", i%2), int64(i), 100)
		_, err := s.IntendEffect(ctx, in)
		must(err)
		if i < 3 {
			rec := world.NewObject("r", "test", fmt.Appendf(nil, `{"record":%d}`, i))
			must(s.RecordOutcome(ctx, store.EffectOutcome{Invocation: in.Invocation, EffectID: in.EffectID, Record: rec.Hash, Objects: []world.Object{rec}}))
		}
	}
	for i := range 5 {
		must(s.PutSession(ctx, world.Session{ID: hashref.SumString(fmt.Sprint("s", i)), Episode: "ep", Created: time.Unix(1, 0), Expires: time.Unix(9e8, 5),
			Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 5}}}))
	}
	for i := range 5 {
		_, err := s.Keep(ctx, store.Kept{Kind: "task", Key: hashref.SumString(fmt.Sprint("k", i)), Expires: time.UnixMilli(1e12), Body: []byte(`{"kept":1}`)}, false)
		must(err)
	}
	_, err := s.SwapRegistry(ctx, "names", hashref.None, hashref.SumString("s0"), nil)
	must(err)
	must(s.Close())
}

// audit opens a store to be read and audits it; an error of the opening is a hole too.
func audit(t *testing.T, path string) (holes []string, done store.Audited) {
	t.Helper()
	s, err := OpenReadOnly(context.Background(), Options{Path: path})
	if err != nil {
		return []string{err.Error()}, done
	}
	defer s.Close()
	done, err = s.Audit(context.Background(), func(h store.Hole) { holes = append(holes, h.What+": "+h.Reason) })
	if err != nil {
		holes = append(holes, err.Error())
	}
	return holes, done
}

func TestAuditOfAWholeStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	fullStore(t, path)
	holes, done := audit(t, path)
	if len(holes) > 0 || done.Entries != 61 || done.Effects != 6 || done.Rows < 300 || done.Bytes == 0 || done.Holes != 0 {
		t.Fatalf("%+v: %s", done, strings.Join(holes, "\n"))
	}
}

// TestAuditFindsAnyByte changes one byte of one value somewhere in the store, and expects
// to be told of it, over and over.
func TestAuditFindsAnyByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	fullStore(t, path)
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tables := columns(t, c)
	seen := map[string]int{}
	for range flips {
		table := tables[rand.IntN(len(tables))]
		col := table.columns[rand.IntN(len(table.columns))]
		undo, was := flip(t, c, table.name, col)
		if undo == nil {
			continue
		}
		seen[table.name]++
		if holes, _ := audit(t, path); len(holes) == 0 {
			t.Fatalf("%s.%s: a byte of %s was changed, and the audit finds nothing", table.name, col, was)
		}
		undo()
	}
	if holes, _ := audit(t, path); len(holes) > 0 {
		t.Fatalf("after all was put back: %v", holes)
	}
	total := 0
	for _, table := range tables {
		total += seen[table.name]
		if seen[table.name] == 0 {
			t.Errorf("no byte of %s was changed", table.name)
		}
	}
	t.Logf("%d bytes changed, %d found: %v", total, total, seen)
	if total < 1000 {
		t.Errorf("only %d bytes were changed", total)
	}
}

type tableColumns struct {
	name    string
	columns []string
}

func columns(t *testing.T, c *sqlite.Conn) (all []tableColumns) {
	for _, m := range tableDef.FindAllStringSubmatch(schema, -1) {
		tc := tableColumns{name: m[1]}
		err := sqlitex.ExecuteTransient(c, "SELECT name FROM pragma_table_info('"+m[1]+"')", &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
			tc.columns = append(tc.columns, st.ColumnText(0))
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tc)
	}
	return all
}

// flip changes one byte of one column of a random row; nil if there is nothing to change.
func flip(t *testing.T, c *sqlite.Conn, table, col string) (undo func(), was string) {
	t.Helper()
	type value struct {
		kind  sqlite.ColumnType
		bytes []byte
		n     int64
	}
	var old value
	rows := []string{}
	key := "rowid"
	switch table {
	case "spend":
		key = "episode || '/' || effect || '/' || scope"
	case "index_parts":
		key = "run || '/' || part"
	}
	run := func(sql string, v *value, each func(*sqlite.Stmt)) {
		t.Helper()
		o := &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
			if each != nil {
				each(st)
			}
			return nil
		}}
		if v != nil {
			switch v.kind {
			case sqlite.TypeInteger:
				o.Args = []any{v.n}
			case sqlite.TypeText:
				o.Args = []any{string(v.bytes)}
			default:
				o.Args = []any{v.bytes}
			}
		}
		if err := sqlitex.ExecuteTransient(c, sql, o); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run("SELECT "+key+" FROM "+table, nil, func(st *sqlite.Stmt) { rows = append(rows, st.ColumnText(0)) })
	if len(rows) == 0 {
		return nil, ""
	}
	where := " WHERE " + key + " = '" + rows[rand.IntN(len(rows))] + "'"
	run("SELECT "+col+" FROM "+table+where, nil, func(st *sqlite.Stmt) {
		old = value{kind: st.ColumnType(0), n: st.ColumnInt64(0), bytes: make([]byte, st.ColumnLen(0))}
		st.ColumnBytes(0, old.bytes)
	})
	changed := value{kind: old.kind, n: old.n, bytes: append([]byte{}, old.bytes...)}
	switch {
	case old.kind == sqlite.TypeInteger:
		changed.n ^= 1 << rand.IntN(20)
	case len(old.bytes) > 0:
		at := rand.IntN(len(old.bytes))
		if old.kind == sqlite.TypeText {
			changed.bytes[at] ^= 1 // stays ASCII
		} else {
			changed.bytes[at] ^= 1 << rand.IntN(8)
		}
	default:
		return nil, ""
	}
	// The row is found again by what identifies it, unless that is what was changed.
	free := func(v *value) bool {
		taken := false
		run("SELECT 1 FROM "+table+" WHERE "+col+" = ?", v, func(*sqlite.Stmt) { taken = true })
		return !taken
	}
	back := where
	if ids := map[string]string{"meta": "id", "head": "id", "objects": "seq", "entries": "entry_index", "journal": "seq", "pending": "seq", "registry": "seq",
		"sessions": "seq", "kept": "id", "index_runs": "run", "index_blocks": "id"}; ids[table] == col {
		if table == "meta" || table == "head" || !free(&changed) {
			return nil, "" // a CHECK or the key itself forbids it
		}
		back = fmt.Sprintf(" WHERE rowid = %d", changed.n)
	}
	if table == "spend" && col != "spent" && col != "sum" {
		back = fmt.Sprintf(" WHERE %s = '%s'", col, changed.bytes)
	}
	if table == "index_parts" && (col == "run" || col == "part") {
		return nil, "" // of the key; what is then missing is found by the other one's test
	}
	run("UPDATE "+table+" SET "+col+" = ?"+where, &changed, nil)
	return func() { run("UPDATE "+table+" SET "+col+" = ?"+back, &old, nil) }, fmt.Sprintf("%v %q", old.n, old.bytes)
}
