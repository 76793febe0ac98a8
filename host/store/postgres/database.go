package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ailang.dev/world/host/store/sqlstore"
)

// database is the Backend: the writer's connection, and the readers'.
type database struct {
	target   *Target
	id       string
	logf     func(format string, args ...any)
	writerID string // this opener's row of writers

	readers   *pgxpool.Pool
	side      *pgxpool.Pool
	leases    leases
	pulse     pulse
	adopting  adopting
	beatEvery time.Duration // BeatEvery, but in tests
	beaten    chan struct{} // closed when the beat has ended
	writer    *pgx.Conn     // nil while it must be opened anew
	doubt     int64         // the batch of the last commit
	patience  time.Duration // ReconnectFor, but in tests

	closed chan struct{}
	once   sync.Once
	reads  sync.WaitGroup // reads, and the ends of their transactions
	err    error          // of the first Close
}

var _ sqlstore.Backend = (*database)(nil)

var (
	errNoRow  = errors.New("the row is missing")
	errClosed = errors.New("the store is closed")
)

func (d *database) ID() string { return d.id }

// Exclusive implements sqlstore.Backend: other daemons write too.
func (d *database) Exclusive() bool { return false }

// reach makes the writer's connection if there is none, trying again for ReconnectFor.
func (d *database) reach() error {
	if d.writer != nil && !d.writer.IsClosed() {
		return nil
	}
	d.drop()
	ctx, cancel := context.WithTimeout(context.Background(), d.patience)
	defer cancel()
	for b := (backoff{}); ; {
		c, err := d.target.connect(ctx)
		if err == nil {
			d.writer = c
			return nil
		}
		if !away(err) && ctx.Err() == nil || !b.wait(ctx) {
			return d.target.fail("connect", err)
		}
	}
}

func (d *database) drop() {
	if d.writer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), ConnectTimeout)
		defer cancel()
		_ = d.writer.Close(ctx) // what it held open is rolled back with it
		d.writer = nil
	}
}

// Begin implements sqlstore.Backend.
func (d *database) Begin(needs *sqlstore.Needs) (sqlstore.Tx, error) {
	for n := 0; ; n++ {
		if err := d.reach(); err != nil {
			return nil, err
		}
		f := newFetch(needs, d.writerID)
		err := d.trip(d.writer, &f.batch)
		if err == nil && f.headErr == nil {
			t := &tx{known: f.known, db: d, conn: d.writer}
			t.rows = rows{t}
			return t, nil
		}
		if err == nil {
			_ = d.simple(d.writer, "ROLLBACK")
			return nil, f.headErr
		}
		again := away(err) || d.writer.IsClosed()
		switch {
		case again:
			d.drop()
		case d.writer.PgConn().TxStatus() != 'I':
			if rerr := d.simple(d.writer, "ROLLBACK"); rerr != nil {
				d.drop()
			}
		}
		if !again && !makesWay(err) || n == sqlstore.MaxAgain {
			return nil, d.target.fail("begin", err)
		}
	}
}

// sign is the statement by which a batch leaves the mark that Settle looks for.
func (d *database) sign(batch int64) statement {
	return statement{"INSERT INTO writers (id, batch, until, sum) VALUES ($1, $2, clock_timestamp() + $3::interval, $4)" +
		" ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, until = excluded.until, sum = excluded.sum",
		[]any{d.writerID, batch, WriterTTL, writerSum(d.writerID, batch)}}
}

// writerSum is the checksum of a row of writers.
func writerSum(id string, batch int64) int64 { return sqlstore.SumOf("writers", []string{id}, batch) }

// Settle implements sqlstore.Backend. The lock on the head row is got only when the
// transaction in doubt has ended, one way or the other; a connection of ours whose end the
// server has not noticed is ended first.
func (d *database) Settle() (bool, error) {
	if c := d.writer; c != nil && !c.IsClosed() && c.PgConn().TxStatus() == 'E' {
		// The server refused a statement of the transaction, so it did not come to COMMIT.
		if err := d.simple(c, "ROLLBACK"); err == nil {
			return false, nil
		}
	}
	var old string
	var pid uint32
	if d.writer != nil {
		old, pid = d.writer.Config().RuntimeParams["application_name"], d.writer.PgConn().PID()
	}
	d.drop()
	if err := d.reach(); err != nil {
		return false, err
	}
	if old != "" {
		// It may not be allowed to, or the server another one: then the wait is longer.
		_ = d.endConnection(pid, old)
	}
	landed, err := d.landed()
	if err != nil {
		d.drop()
	}
	return landed, d.target.fail("settle", err)
}

func (d *database) endConnection(pid uint32, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), ConnectTimeout)
	defer cancel()
	_, err := d.writer.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = $2", int64(pid), name)
	return err
}

// landed looks for the mark of the batch in doubt, under the head's lock.
func (d *database) landed() (landed bool, err error) {
	var batch pgx.Batch
	batch.Queue(beginWrite)
	batch.Queue(selectHead + " FOR UPDATE")
	batch.Queue("SELECT batch, sum FROM writers WHERE id = $1", d.writerID).Query(func(r pgx.Rows) error {
		return show(r, func(k *cols) error {
			last := k.int()
			landed = last == d.doubt
			return k.prove("writers", d.writerID, k.int(), writerSum(d.writerID, last))
		})
	})
	batch.Queue("ROLLBACK")
	return landed, d.trip(d.writer, &batch)
}

// Close implements sqlstore.Backend.
func (d *database) Close() error {
	d.once.Do(func() {
		close(d.closed)
		<-d.beaten
		d.reads.Wait()
		if d.side != nil {
			d.side.Close()
		}
		if d.readers != nil {
			d.readers.Close()
		}
		if d.writer != nil && !d.writer.IsClosed() && d.writerID != "" {
			d.leave()
		}
		d.drop()
	})
	return d.err
}

// leave tells the others that this writer is gone. If that cannot be told, they find out when
// its time is over.
func (d *database) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), ConnectTimeout)
	defer cancel()
	if _, err := d.writer.Exec(ctx, "UPDATE writers SET until = clock_timestamp() WHERE id = $1", d.writerID); err != nil {
		d.logf("store %s: %v", d.target.display, err)
	}
}
