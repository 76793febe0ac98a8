package postgres

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/postgres/pgtest"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// cluster is the server of this package's tests; nil where its programs are missing.
var cluster *pgtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(m, func(c *pgtest.Cluster) { cluster = c }))
}

var ctx = context.Background()

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener { return &opener{database: cluster.Database(t)} })
}

// opener opens one database again and again.
type opener struct {
	database string
	open     *Store
}

func (o *opener) Open(t testing.TB) store.Store { return o.OpenHooked(t, sqlstore.Hooks{}) }

func (o *opener) OpenHooked(t testing.TB, hooks sqlstore.Hooks) store.Store {
	t.Helper()
	s, err := Open(ctx, Options{URL: cluster.URL(o.database), Hooks: hooks, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	o.open = s
	return s
}

// Corrupt changes rows through a connection of its own, indexes as a failed build or a disk
// would.
func (o *opener) Corrupt(t testing.TB, d storetest.Damage) {
	t.Helper()
	change := func(table, set string) string {
		return "UPDATE " + table + " SET " + set + " WHERE seq = (SELECT max(seq) FROM " + table + ")"
	}
	invalid := func(index string) string {
		return "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '" + index + "'::regclass"
	}
	sql := map[storetest.Damage]string{
		storetest.DamageHead:       "UPDATE head SET batch = batch + 1",
		storetest.DamageObject:     change("objects", "provenance = provenance || '!'"),
		storetest.DamagePayload:    change("objects", "payload = convert_to(replace(convert_from(payload, 'UTF8'), '{', '['), 'UTF8')"),
		storetest.DamageObjectLost: "DELETE FROM objects WHERE seq = (SELECT max(seq) FROM objects)",
		storetest.DamageEntry:      change("entries", "semantics_epoch = semantics_epoch + 1"),
		storetest.DamageEntryLost:  "DELETE FROM entries WHERE seq = (SELECT max(seq) FROM entries)",
		storetest.DamageJournal:    change("journal", "entry_index = entry_index - 1"),
		storetest.DamageRegistry:   change("registry", "head = decode(repeat('00', 32), 'hex')"),
		storetest.DamageSession:    change("sessions", "expires = '9999-01-01T00:00:00Z'"),
		storetest.DamageSpend:      "UPDATE spend SET spent = 0",
		storetest.DamageRefs:       "UPDATE refs SET place = place + 1",
		storetest.DamageRefsLost:   "DROP INDEX refs_by_target",
		storetest.DamageNames:      invalid(indexByName),
		storetest.DamageNamesLost:  "DROP INDEX objects_by_name",
		storetest.DamageEpisodes:   invalid(indexByEpisode),
	}[d]
	switch d {
	case storetest.DamageEntryHash:
		o.relink(t)
		return
	case storetest.DamageHashes:
		o.garble(t, "objects_by_hash")
		return
	case storetest.DamageCalls:
		o.garble(t, "journal_by_call")
		return
	}
	if sql == "" {
		t.Fatalf("unknown damage %q", d)
	}
	if err := cluster.Exec(o.database, sql); err != nil {
		t.Fatal(err)
	}
}

func (o *opener) admin(t testing.TB) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(ctx, cluster.AdminURL(o.database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ctx) })
	return c
}

// garble stops the server, writes over the pages of an index, and starts it again. The store
// finds its connections cut.
func (o *opener) garble(t testing.TB, index string) {
	t.Helper()
	var path string
	c := o.admin(t)
	if err := c.QueryRow(ctx, "SELECT pg_relation_filepath($1::text::regclass)", index).Scan(&path); err != nil {
		t.Fatal(err)
	}
	c.Close(ctx)
	if err := cluster.Halt("fast"); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(cluster.Folder, path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 0x5a
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Boot(); err != nil {
		t.Fatal(err)
	}
}

// relink gives the newest entry another prevEntryHash, and a checksum that fits.
func (o *opener) relink(t testing.TB) {
	t.Helper()
	err := o.open.db.Read(ctx, func(r sqlstore.Rows) error {
		head, err := r.Head()
		if err != nil {
			return err
		}
		row, _, err := r.Entry(head.Next - 1)
		if err != nil {
			return err
		}
		row.Entry.Header.PrevEntryHash = world.NewObject("", "", []byte("forged")).Hash
		_, err = o.admin(t).Exec(ctx, "UPDATE entries SET prev_hash = $1, sum = $2 WHERE entry_index = $3",
			refBytes(row.Entry.Header.PrevEntryHash), row.Sum(), head.Next-1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
