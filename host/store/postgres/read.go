package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// maxReadAgain is how often a read is begun anew on another connection because the first
// turned out to be broken before it gave anything.
const maxReadAgain = 3

const beginRead = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// snapshot asks in one read-only transaction, which begins with the first statement and in
// the same way there and back.
type snapshot struct {
	ctx    context.Context
	conn   *pgxpool.Conn
	db     *database
	begun  bool
	broken error // of the first statement, before any row
}

func (s *snapshot) each(sql string, args []any, scan func(*cols) error) error {
	var batch pgx.Batch
	first := !s.begun
	if first {
		batch.Queue(beginRead)
		s.begun = true
	}
	seen := false
	batch.Queue(sql, args...).Query(func(r pgx.Rows) error {
		return show(r, func(k *cols) error { seen = true; return scan(k) })
	})
	err := s.conn.SendBatch(s.ctx, &batch).Close()
	if err != nil && first && !seen && s.ctx.Err() == nil && (away(err) || s.conn.Conn().IsClosed()) {
		s.broken = err
	}
	return s.db.target.fail("read", err)
}

// Read implements sqlstore.Backend.
func (d *database) Read(ctx context.Context, f func(sqlstore.Rows) error) error {
	const op = "postgres.Read"
	select {
	case <-d.closed:
		return world.Wrap(world.KindTimeout, op, errClosed)
	default:
	}
	d.reads.Add(1)
	defer d.reads.Done()
	for n := 0; ; n++ {
		s, err := d.read(ctx, f)
		if s != nil && s.broken != nil && n < maxReadAgain {
			continue
		}
		if err != nil && ctx.Err() != nil && world.KindOf(err) != world.KindIntegrity {
			err = world.Wrap(world.KindTimeout, op, errors.Join(context.Cause(ctx), err))
		}
		return err
	}
}

// read is one read on one connection. The transaction's end is waited for by nobody.
func (d *database) read(ctx context.Context, f func(sqlstore.Rows) error) (*snapshot, error) {
	c, err := d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s := &snapshot{ctx: ctx, conn: c, db: d}
	err = f(rows{s})
	if !s.begun || c.Conn().IsClosed() {
		c.Release()
		return s, err
	}
	d.reads.Add(1)
	go func() {
		defer d.reads.Done()
		defer c.Release() // a connection that is still in a transaction is closed by it
		_ = d.simple(c.Conn(), "ROLLBACK")
	}()
	return s, err
}

// acquire takes a reader's connection, trying again for ReconnectFor while the database is
// away.
func (d *database) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	until, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	for b := (backoff{}); ; {
		c, err := d.readers.Acquire(ctx)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, world.Wrap(world.KindTimeout, "postgres.Read", context.Cause(ctx))
		}
		if !away(err) || !b.wait(until) {
			return nil, d.target.fail("connect", err)
		}
	}
}
