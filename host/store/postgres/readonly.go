package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// frozen is the Backend of a store that is only read: one connection in one transaction, which
// sees the world as it was when it was opened, whoever writes to it meanwhile.
type frozen struct {
	*database
	turn chan struct{} // whoever holds its one token reads
}

var _ sqlstore.Backend = (*frozen)(nil)

var errReadOnly = errors.New("the store was opened to be read")

// OpenReadOnly opens the world in a database as it is at this moment, and changes nothing:
// every write is refused. Reads take turns. It is for commands that end: while it is open the
// server keeps row versions that nobody else needs. A replica will do. Where there is no world
// it is KindNotFound.
func OpenReadOnly(ctx context.Context, o Options) (*Store, error) {
	d, err := newDatabase(&o)
	if err != nil {
		return nil, err
	}
	f := &frozen{database: d, turn: make(chan struct{}, 1)}
	if err := f.open(ctx); err != nil {
		d.drop()
		return nil, d.target.fail("open", err)
	}
	f.turn <- struct{}{}
	return &Store{Store: sqlstore.New(f, o.Hooks, o.Logf), db: d}, nil
}

// ReadID is the id of the store in a database; KindNotFound where there is no world.
func ReadID(ctx context.Context, o Options) (string, error) {
	s, err := OpenReadOnly(ctx, o)
	if err != nil {
		return "", err
	}
	return s.ID(), s.Close()
}

// open connects, finds the world's schema, and begins the one transaction.
func (f *frozen) open(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	for b := (backoff{}); ; {
		c, err := f.target.connectToRead(within, func(c *pgx.ConnConfig) {
			c.RuntimeParams["statement_timeout"] = "0"
			c.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
		})
		if err == nil {
			f.writer = c
			break
		}
		if !away(err) || !b.wait(within) {
			return f.target.fail("connect", err)
		}
	}
	var version *int64
	if err := f.writer.QueryRow(ctx, "SELECT CASE WHEN to_regclass('migrations') IS NULL THEN NULL ELSE 1 END").Scan(&version); err != nil {
		return err
	}
	if version == nil {
		return &world.Error{Op: openOp, Kind: world.KindNotFound, Subject: f.target.display, Msg: "there is no world in this database, or not in this schema",
			Hint: "`ailang-worldd genesis --db URL` makes one; ?schema=NAME names another schema"}
	}
	if err := f.writer.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM migrations").Scan(&version); err != nil {
		return err
	}
	if *version != Version {
		return f.schemaError(versionText(*version), "start a daemon of this program with it once, if it is the newer one; else run the newer program")
	}
	tx, err := f.writer.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	return f.identify(ctx, tx)
}

// Read implements sqlstore.Backend.
func (f *frozen) Read(ctx context.Context, ask func(sqlstore.Rows) error) error {
	const op = "postgres.Read"
	select {
	case <-f.turn:
	case <-ctx.Done():
		return world.Wrap(world.KindTimeout, op, context.Cause(ctx))
	case <-f.closed:
		return world.Wrap(world.KindTimeout, op, errClosed)
	}
	defer func() { f.turn <- struct{}{} }()
	if f.writer.IsClosed() {
		return world.Wrap(world.KindTimeout, op, errors.New("the connection to the database is lost"))
	}
	return ask(rows{&frozenAsker{ctx, f}})
}

type frozenAsker struct {
	ctx context.Context
	f   *frozen
}

func (a *frozenAsker) each(sql string, args []any, scan func(*cols) error) error {
	r, err := a.f.writer.Query(a.ctx, sql, args...)
	if err == nil {
		err = show(r, scan)
	}
	if err != nil && a.ctx.Err() != nil && world.KindOf(err) != world.KindIntegrity {
		return world.Wrap(world.KindTimeout, "postgres.Read", errors.Join(context.Cause(a.ctx), err))
	}
	return a.f.target.fail("read", err)
}

// Begin implements sqlstore.Backend: nothing is written.
func (f *frozen) Begin(*sqlstore.Needs) (sqlstore.Tx, error) {
	return nil, world.Wrap(world.KindInternal, "postgres.Begin", errReadOnly)
}

// Settle implements sqlstore.Backend; no batch ever is in doubt.
func (f *frozen) Settle() (bool, error) { return false, nil }

// Close implements sqlstore.Backend.
func (f *frozen) Close() error {
	f.once.Do(func() {
		<-f.turn // wait for the read that runs; none begins after it
		close(f.closed)
		f.drop()
	})
	return f.err
}
