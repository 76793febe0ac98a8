package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

const (
	flips     = 340 // how many values TestAuditFindsAnyChange tries to change, one at a time
	leastFlip = 300 // that the engine must let it change; some values are held by constraints
)

// unproved are the columns that are in no checksum, since they are times of the database's clock or
// nothing that the world is made of.
var unproved = []string{"writers.until", "leases.wanted", "leases.wanted_till"}

// fullSchema is a world that has rows in every table.
func fullSchema(t *testing.T, url string) *Store {
	s, err := Open(ctx, Options{URL: url, Logf: t.Logf, beatEvery: time.Hour}) // no heart moves what is put back
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Commit(ctx, storetest.Genesis())
	must(err)
	for i := range 20 {
		_, err := s.Append(ctx, storetest.Call(fmt.Sprint(i)))
		must(err)
	}
	for i := range 6 {
		in := storetest.Intent(world.InvocationID(fmt.Sprint("a2a:ep:e", i/2)), fmt.Sprint("e", i%2), int64(i), 100)
		_, err := s.IntendEffect(ctx, in)
		must(err)
		if i < 3 {
			rec := world.NewObject("r", "test", fmt.Appendf(nil, `{"record":%d}`, i))
			must(s.RecordOutcome(ctx, store.EffectOutcome{Invocation: in.Invocation, EffectID: in.EffectID, Record: rec.Hash, Objects: []world.Object{rec}}))
		}
		must(s.PutSession(ctx, world.Session{ID: hashref.SumString(fmt.Sprint("s", i)), Episode: "ep", Created: time.Unix(1, 0), Expires: time.Unix(9e8, 5),
			Grants: []world.Grant{{Effect: "E", Scope: "s", Budget: 5}}}))
		_, err = s.Keep(ctx, store.Kept{Kind: "task", Key: hashref.SumString(fmt.Sprint("k", i)), Expires: time.UnixMilli(1e12), Body: []byte(`{"kept":1}`)}, false)
		must(err)
		_, err = s.TakeEpisode(ctx, fmt.Sprint("ep", i)) // and keeps it
		must(err)
	}
	_, err = s.SwapRegistry(ctx, "names", hashref.None, hashref.SumString("s0"), nil)
	must(err)
	return s
}

// value is one value of one row.
type value struct{ table, column, kind string }

func values(t *testing.T, c *pgx.Conn) (all map[string][]value) {
	t.Helper()
	rows, err := c.Query(ctx, "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = current_schema() AND table_name <> 'migrations'")
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (v value, err error) { return v, r.Scan(&v.table, &v.column, &v.kind) })
	if err != nil {
		t.Fatal(err)
	}
	all = map[string][]value{}
	for _, v := range list {
		if !slices.Contains(unproved, v.table+"."+v.column) {
			all[v.table] = append(all[v.table], v)
		}
	}
	return all
}

// flipped is the expression for a value with one bit changed, or one character, or, where there is
// none, with one more.
func (v value) flipped(old any) string {
	col := pgx.Identifier{v.column}.Sanitize()
	switch old := old.(type) {
	case nil:
		return `'\x00'::bytea`
	case []byte:
		if len(old) == 0 {
			return `'\x00'::bytea`
		}
		return fmt.Sprintf("set_bit(%[1]s, %d, 1 - get_bit(%[1]s, %[2]d))", col, rand.IntN(8*len(old)))
	case string:
		chars := []rune(old)
		if len(chars) == 0 {
			return "'x'"
		}
		at := rand.IntN(len(chars))
		other := chars[at] ^ 1
		if other < ' ' || other == '\'' || other == '\\' || other == 127 {
			other = 'x'
		}
		return fmt.Sprintf("overlay(%s placing '%c' from %d for 1)", col, other, at+1)
	}
	return fmt.Sprintf("%s # (1::bigint << %d)", col, rand.IntN(63))
}

// flip changes a value of a random row; changed is false if there is no row, or a constraint
// forbids it.
func flip(t *testing.T, c *pgx.Conn, v value) (undo func(), was string, changed bool) {
	t.Helper()
	table, col := pgx.Identifier{v.table}.Sanitize(), pgx.Identifier{v.column}.Sanitize()
	var ctid, next string
	var old any
	err := c.QueryRow(ctx, "SELECT ctid::text, "+col+" FROM "+table+" ORDER BY random() LIMIT 1").Scan(&ctid, &old)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	err = c.QueryRow(ctx, "UPDATE "+table+" SET "+col+" = "+v.flipped(old)+" WHERE ctid = $1::tid RETURNING ctid::text", ctid).Scan(&next)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code[:2] == "23" {
		return nil, "", false
	}
	if err != nil {
		t.Fatalf("%+v: %v", v, err)
	}
	return func() {
		if tag, err := c.Exec(ctx, "UPDATE "+table+" SET "+col+" = $1 WHERE ctid = $2::tid", old, next); err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%+v is not put back: %v, %v", v, tag, err)
		}
	}, fmt.Sprint(old), true
}

// holes audits a world; an error is a hole too.
func holes(s *Store) (found []string) {
	if _, err := s.Audit(ctx, func(h store.Hole) { found = append(found, h.What+": "+h.Reason) }); err != nil {
		found = append(found, err.Error())
	}
	return found
}

// TestAuditFindsAnyChange changes one value somewhere in the database by SQL, a bit or a character
// of it, and expects to be told of it, over and over.
func TestAuditFindsAnyChange(t *testing.T) {
	database := cluster.Database(t)
	s := fullSchema(t, cluster.URL(database))
	c := (&opener{database: database}).admin(t)
	all := values(t, c)
	tables := []string{}
	for name := range all {
		tables = append(tables, name)
	}
	slices.Sort(tables)
	if found := holes(s); len(found) > 0 {
		t.Fatalf("before: %v", found)
	}
	seen, total := map[string]int{}, 0
	for range flips {
		table := tables[rand.IntN(len(tables))]
		v := all[table][rand.IntN(len(all[table]))]
		undo, was, changed := flip(t, c, v)
		if !changed {
			continue
		}
		seen[table]++
		total++
		if found := holes(s); len(found) == 0 {
			t.Fatalf("%s.%s: what was %q is changed, and the audit finds nothing", table, v.column, was)
		}
		undo()
	}
	if found := holes(s); len(found) > 0 {
		t.Fatalf("after all was put back: %v", found)
	}
	for _, table := range tables {
		if seen[table] == 0 {
			t.Errorf("nothing of %s was changed", table)
		}
	}
	t.Logf("%d values changed, %d found: %v", total, total, seen)
	if total < leastFlip {
		t.Errorf("only %d values were changed", total)
	}
}
