package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		return &opener{path: filepath.Join(t.TempDir(), "world.db")}
	})
}

// opener opens one file again and again.
type opener struct{ path string }

func (o *opener) Open(t testing.TB) store.Store { return o.OpenHooked(t, sqlstore.Hooks{}) }

func (o *opener) OpenHooked(t testing.TB, hooks sqlstore.Hooks) store.Store {
	t.Helper()
	s, err := Open(context.Background(), Options{Path: o.path, Hooks: hooks, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
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
		storetest.DamageRefs:       change("refs", "place = place - 1"),
		storetest.DamageRefsLost:   "DROP TABLE refs",
		storetest.DamageNamesLost:  "DROP INDEX objects_by_semantic_id",
	}[d]
	d0 := newDatabase(o.path, nil)
	c, err := d0.connectWriter()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if d == storetest.DamageEntryHash {
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
