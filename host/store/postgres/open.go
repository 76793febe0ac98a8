package postgres

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

const openOp = "postgres.Open"

//go:embed schema/*.sql
var schemas embed.FS

// Version is the version of the tables that this package writes, and the newest it reads: the
// number of the last migration.
var Version = int64(len(migrations))

// migrations make the tables of each version out of those of the one before.
var migrations = []string{mustSchema("schema/1.sql")}

func mustSchema(name string) string {
	b, err := schemas.ReadFile(name)
	if err != nil {
		panic(err) // it is compiled in
	}
	return string(b)
}

// Options says what to open.
type Options struct {
	URL string // of the database; see ParseTarget
	// Logf, unless nil, gets what an operator should know: failed batches, rebuilt indexes.
	Logf  func(format string, args ...any)
	Hooks sqlstore.Hooks

	beatEvery time.Duration // 0 but in tests
}

var _ store.Shared = (*Store)(nil)

// Store is an open store.
type Store struct {
	*sqlstore.Store
	db *database
}

// Display is the database's URL without a password.
func (s *Store) Display() string { return s.db.target.display }

// Open opens the world in a database, or makes a new one where no tables are. It takes no lock:
// other daemons may have it open. Tables of an older version become those of this one; of a
// newer, KindSchema. A database that cannot be reached within ReconnectFor is KindTimeout.
func Open(ctx context.Context, o Options) (*Store, error) {
	d, err := newDatabase(&o)
	if err != nil {
		return nil, err
	}
	if err := d.open(ctx); err != nil {
		close(d.beaten) // it never began
		return nil, errors.Join(err, d.Close())
	}
	return &Store{Store: sqlstore.New(d, o.Hooks, o.Logf), db: d}, nil
}

// newDatabase is a database that is not connected.
func newDatabase(o *Options) (*database, error) {
	t, err := ParseTarget(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	d := &database{target: t, logf: o.Logf, patience: ReconnectFor, beatEvery: BeatEvery,
		leases: leases{m: make(map[string]*lease)}, closed: make(chan struct{}), beaten: make(chan struct{})}
	if o.beatEvery > 0 {
		d.beatEvery = o.beatEvery
	}
	return d, nil
}

func (d *database) open(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return world.Wrap(world.KindTimeout, openOp, context.Cause(ctx))
	}
	if err := d.reach(); err != nil {
		return err
	}
	if err := d.enterSchema(ctx); err != nil {
		return d.target.fail("open", err)
	}
	d.drop() // so that from now on every connection has the schema as its search path
	if err := d.reach(); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return d.target.fail("open", err)
	}
	if err := d.mend(ctx, false); err != nil {
		return d.target.fail("open", err)
	}
	if d.readers, err = d.pool(ctx, MaxReaders, nil); err != nil {
		return d.target.fail("open", err)
	}
	if err := d.openSide(ctx); err != nil {
		return d.target.fail("open", err)
	}
	if err := d.join(ctx); err != nil {
		return err
	}
	d.pulse.beaten(time.Now())
	go d.beat()
	return nil
}

// pool makes up to n connections when they are needed. change may change how.
func (d *database) pool(ctx context.Context, n int32, change func(*pgxpool.Config)) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.ConnConfig = d.target.connConfig(false)
	if change != nil {
		change(config)
	}
	config.MaxConns = n
	return pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
}

// enterSchema finds the world's schema, and makes it if the URL names one that is not there.
func (d *database) enterSchema(ctx context.Context) error {
	var encoding, fsync string
	if err := d.writer.QueryRow(ctx, "SELECT current_setting('server_encoding'), current_setting('fsync')").Scan(&encoding, &fsync); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return d.schemaError(fmt.Sprintf("its encoding is %s", encoding), "make a database with ENCODING 'UTF8'")
	}
	if fsync != "on" {
		d.logf("store %s: the server does not wait for its disk (fsync = %s): what is acknowledged may be lost", d.target.display, fsync)
	}
	if d.target.create {
		return again(func() error {
			_, err := d.writer.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{d.target.schema}.Sanitize())
			return err
		})
	}
	var schema *string
	if err := d.writer.QueryRow(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return err
	}
	if schema == nil {
		return d.schemaError("its search path names no schema that is there", "name one: ?schema=NAME, which is made if it is not there")
	}
	d.target.schema = *schema
	return nil
}

func (d *database) schemaError(msg, hint string) error {
	return &world.Error{Op: openOp, Kind: world.KindSchema, Subject: d.target.display, Msg: msg, Hint: hint}
}

// createTries is how often something is made that other daemons make at the same moment: the
// engine lets IF NOT EXISTS fail for all but one of them, and each time one more is done.
const createTries = 20

// again runs a statement until nobody else ran it at the same moment.
func again(f func() error) (err error) {
	for range createTries {
		err = f()
		switch codeOf(err) {
		case codeUnique, codeDuplicate, codeDuplicateName, codeDuplicateObj:
			continue
		}
		break
	}
	return err
}

// migrate brings the tables to Version, one version after the other, in one transaction under
// the lock of a row.
func (d *database) migrate(ctx context.Context) error {
	var have bool
	if err := d.writer.QueryRow(ctx, "SELECT to_regclass('migrations') IS NOT NULL").Scan(&have); err != nil {
		return err
	}
	if !have {
		if err := again(func() error {
			_, err := d.writer.Exec(ctx, "CREATE TABLE IF NOT EXISTS migrations (version bigint PRIMARY KEY, applied timestamptz NOT NULL)")
			return err
		}); err != nil {
			return err
		}
	}
	// Also where the table is there: whoever made it may not have come so far.
	if _, err := d.writer.Exec(ctx, "INSERT INTO migrations (version, applied) VALUES (0, clock_timestamp()) ON CONFLICT DO NOTHING"); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, d.writer, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT 1 FROM migrations WHERE version = 0 FOR UPDATE"); err != nil {
			return err
		}
		var version int64
		if err := tx.QueryRow(ctx, "SELECT coalesce(max(version), -1) FROM migrations").Scan(&version); err != nil {
			return err
		}
		switch {
		case version < 0:
			return d.schemaError("its table migrations is empty", "name another schema, or restore a copy")
		case version > Version:
			return d.schemaError(versionText(version), "run the newer program")
		}
		for v := version; v < Version; v++ {
			if err := d.apply(ctx, tx, v+1); err != nil {
				return err
			}
		}
		return d.identify(ctx, tx)
	})
}

func versionText(version int64) string {
	if version > Version {
		return fmt.Sprintf("was written by a newer version: its tables are of version %d, this program knows %d", version, Version)
	}
	return fmt.Sprintf("was written by an older version: its tables are of version %d, this program reads %d", version, Version)
}

func (d *database) apply(ctx context.Context, tx pgx.Tx, version int64) error {
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	if _, err := tx.Conn().PgConn().Exec(ctx, migrations[version-1]).ReadAll(); err != nil {
		return err
	}
	if version == 1 {
		id := rand.Text()
		if _, err := tx.Exec(ctx, "INSERT INTO meta (id, store_id, sum) VALUES (1, $1, $2)", id, sqlstore.SumMeta(id, 1)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO head (id, batch, seq, next_index, sum) VALUES (1, 0, 0, 0, $1)", sqlstore.HeadRow{}.Sum()); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "INSERT INTO migrations (version, applied) VALUES ($1, clock_timestamp())", version)
	return err
}

// identify reads which store this is.
func (d *database) identify(ctx context.Context, tx pgx.Tx) error {
	var sum int64
	err := tx.QueryRow(ctx, "SELECT store_id, sum FROM meta WHERE id = 1").Scan(&d.id, &sum)
	if errors.Is(err, pgx.ErrNoRows) {
		return sqlstore.Damaged("meta", 1, errNoRow)
	}
	if err != nil {
		return err
	}
	return sqlstore.Prove("meta", 1, sum, sqlstore.SumMeta(d.id, 1))
}

// join makes this opener a writer, and forgets those that were gone for long and left nothing
// open, and whose turn it was.
func (d *database) join(ctx context.Context) error {
	d.writerID = rand.Text()
	s := d.sign(0)
	if _, err := d.writer.Exec(ctx, s.sql, s.args...); err != nil {
		return d.target.fail("open", err)
	}
	for _, forget := range []string{
		"DELETE FROM leases WHERE wanted_till < clock_timestamp() - $1::interval" +
			" AND NOT EXISTS (SELECT 1 FROM writers WHERE writers.id = leases.holder AND writers.until > clock_timestamp() - $1::interval)",
		"DELETE FROM writers WHERE until < clock_timestamp() - $1::interval" +
			" AND NOT EXISTS (SELECT 1 FROM pending WHERE pending.writer = writers.id)" +
			" AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.holder = writers.id)",
	} {
		if _, err := d.writer.Exec(ctx, forget, forgetAfter); err != nil {
			return d.target.fail("open", err)
		}
	}
	return nil
}

// forgetAfter is how long the row of a writer that is gone is kept: a batch of its own whose
// end it does not know is settled long before.
const forgetAfter = 24 * time.Hour

// Reindex makes all that is derived anew, while no other batch is written, and tells how many
// entries and references there are.
func Reindex(ctx context.Context, o Options) (entries, refs int64, err error) {
	s, err := Open(ctx, o)
	if err != nil {
		return 0, 0, err
	}
	if err = s.db.mend(ctx, true); err == nil {
		err = s.db.refill(ctx)
	}
	if err == nil {
		err = s.db.writer.QueryRow(ctx, "SELECT (SELECT next_index FROM head), (SELECT count(*) FROM refs)").Scan(&entries, &refs)
	}
	return entries, refs, errors.Join(s.db.target.fail("reindex", err), s.Close())
}
