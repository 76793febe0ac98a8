package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// tiny makes every few calls a run, and every three runs another, in slices of less.
var tiny = Limits{Rows: 150, Slice: 25, Fan: 3}

func TestStore(t *testing.T) {
	for name, l := range map[string]Limits{"": {}, "tiny runs": tiny} {
		run := func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Opener {
				return &opener{path: filepath.Join(t.TempDir(), "world.db"), limits: l}
			})
		}
		if name == "" {
			run(t)
		} else {
			t.Run(name, run)
		}
	}
}

// opener opens one file again and again.
type opener struct {
	path   string
	limits Limits
	open   *Store
}

func (o *opener) Open(t testing.TB) store.Store { return o.OpenHooked(t, sqlstore.Hooks{}) }

func (o *opener) OpenHooked(t testing.TB, hooks sqlstore.Hooks) store.Store {
	t.Helper()
	s, err := Open(context.Background(), Options{Path: o.path, Hooks: hooks, Logf: t.Logf, Limits: o.limits})
	if err != nil {
		t.Fatal(err)
	}
	o.open = s
	return s
}

// Corrupt changes rows through a connection of its own.
func (o *opener) Corrupt(t testing.TB, d storetest.Damage) {
	t.Helper()
	const newest = " WHERE seq = (SELECT max(seq) FROM %[1]s)"
	change := func(table, set string) string { return fmt.Sprintf("UPDATE %[1]s SET "+set+newest, table) }
	script := map[storetest.Damage]string{
		storetest.DamageHead:       "UPDATE head SET batch = batch + 1",
		storetest.DamageObject:     change("objects", "provenance = provenance || '!'"),
		storetest.DamagePayload:    change("objects", "payload = CAST(replace(payload, '{', '[') AS BLOB)"),
		storetest.DamageObjectLost: fmt.Sprintf("DELETE FROM %[1]s"+newest, "objects"),
		storetest.DamageEntry:      change("entries", "semantics_epoch = semantics_epoch + 1"),
		storetest.DamageEntryLost:  fmt.Sprintf("DELETE FROM %[1]s"+newest, "entries"),
		storetest.DamageJournal:    change("journal", "entry_index = entry_index - 1"),
		storetest.DamageRegistry:   change("registry", "head = zeroblob(32)"),
		storetest.DamageSession:    change("sessions", "expires = '9999-01-01T00:00:00Z'"),
		storetest.DamageSpend:      "UPDATE spend SET spent = 0",
	}[d]
	c := connection(t, o.path)
	var err error
	if harm, is := indexDamages[d]; is {
		o.onDisk(t)
		err = damagePart(c, harm.part, harm.lost)
	} else if d == storetest.DamageEntryHash {
		err = relink(c)
	} else if script == "" {
		t.Fatalf("unknown damage %q", d)
	} else {
		err = sqlitex.ExecScript(c.Conn, script+";")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// indexDamages are the damages of a derived index.
var indexDamages = map[storetest.Damage]struct {
	part part
	lost bool
}{
	storetest.DamageRefs:      {byTarget, false},
	storetest.DamageRefsLost:  {byTarget, true},
	storetest.DamageNames:     {byName, false},
	storetest.DamageNamesLost: {byName, true},
	storetest.DamageEpisodes:  {byEpisode, false},
	storetest.DamageHashes:    {byObject, false},
	storetest.DamageCalls:     {byCall, false},
}

// onDisk writes objects until none of the rows written before is in memory alone.
func (o *opener) onDisk(t testing.TB) {
	t.Helper()
	x := o.open.db.index
	before := x.cur.Load().seq
	for i := 0; ; i++ {
		runs := x.cur.Load().runs.runs
		if n := len(runs); n > 0 && runs[n-1].last >= before {
			return
		}
		if i == 100 {
			t.Fatal("no run is written")
		}
		if err := o.open.PutObjects(context.Background(), filler(i, o.limits.withDefaults().Rows)); err != nil {
			t.Fatal(err)
		}
	}
}

// filler is objects that name so many references, and so have as many index rows.
func filler(round, rows int) (list []world.Object) {
	for len(list)*store.MaxRefs < rows {
		var text strings.Builder
		for i := range min(store.MaxRefs, rows) {
			text.WriteString(hashref.SumString(fmt.Sprint(round, len(list), i)).String())
		}
		list = append(list, world.NewObject("test/filler", "", []byte(text.String())))
	}
	return list
}

// damagePart changes, or deletes, the blocks of one index.
func damagePart(c *conn, p part, lost bool) error {
	sql := "UPDATE index_blocks SET data = CAST(data || x'00' AS BLOB)"
	if lost {
		sql = "DELETE FROM index_blocks"
	}
	return c.do(sql+" WHERE (id >> ?) & 15 = ?", func(b *params) { b.int(partBits, int64(p)) })
}

// relink gives the newest entry another prevEntryHash, and a checksum that fits.
func relink(c *conn) error {
	head, err := c.Head()
	if err != nil {
		return err
	}
	row, _, err := c.Entry(head.Next - 1)
	if err != nil {
		return err
	}
	row.Entry.Header.PrevEntryHash = world.NewObject("", "", []byte("forged")).Hash
	return c.do("UPDATE entries SET prev_hash = ?, sum = ? WHERE entry_index = ?", func(p *params) {
		p.ref(row.Entry.Header.PrevEntryHash).int(row.Sum(), head.Next-1)
	})
}

func commit(t testing.TB, s store.Store, c store.Commit) store.Committed {
	t.Helper()
	done, err := s.Commit(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return done
}
