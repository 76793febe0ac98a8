package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// Bounds of what is sent at a time while a world is brought.
const (
	loadRows  = 4096
	loadBytes = 16 << 20
)

// Load puts another store's rows, which dump gives, into a database that has no world, or one in
// which nothing was written, and keeps that store's id. All of it is one transaction: if it does
// not end, nothing of it is there. Where something was written it is KindBadRequest.
func Load(ctx context.Context, o Options, id string, dump func(head func(sqlstore.HeadRow) error, v *sqlstore.Visitor) error) error {
	s, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.db.target.fail("load", s.db.load(ctx, id, dump))
}

// Writers are how many daemons are alive that have the world open, and batch the number of the
// last transaction that wrote anything.
func Writers(ctx context.Context, o Options) (n, batch int64, err error) {
	s, err := OpenReadOnly(ctx, o)
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	err = s.db.writer.QueryRow(ctx, "SELECT (SELECT count(*) FROM writers WHERE until > clock_timestamp()), batch FROM head WHERE id = 1").Scan(&n, &batch)
	return n, batch, s.db.target.fail("read", err)
}

// loader sends rows, a batch for every few.
type loader struct {
	ctx         context.Context
	db          *database
	tx          pgx.Tx
	buf         buffer
	rows, bytes int
}

func (d *database) load(ctx context.Context, id string, dump func(func(sqlstore.HeadRow) error, *sqlstore.Visitor) error) error {
	// What is read may be slow to come: the transaction waits for it.
	c, err := d.target.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, "SET idle_in_transaction_session_timeout = 0"); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		l := &loader{ctx: ctx, db: d, tx: tx}
		if err := l.empty(); err != nil {
			return err
		}
		var head sqlstore.HeadRow
		if err := dump(func(h sqlstore.HeadRow) error { head = h; return nil }, l.visitor()); err != nil {
			return err
		}
		if err := l.send(); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, setHead, headArgs(&head)...)
		if err == nil {
			_, err = tx.Exec(ctx, "UPDATE meta SET store_id = $1, sum = $2 WHERE id = 1", id, sqlstore.SumMeta(id, 1))
		}
		return err
	})
}

// empty takes the head's lock, and refuses a world in which something was written.
func (l *loader) empty() error {
	if _, err := l.tx.Exec(l.ctx, "SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	head, _, err := one(txAsker{l.ctx, l.tx, l.db.target}, scanHead, selectHead+" FOR UPDATE")
	if err == nil && head.Batch > 0 {
		err = &world.Error{Op: "postgres.Load", Kind: world.KindBadRequest, Subject: l.db.target.display,
			Msg: "there is a world already in " + l.db.target.display, Hint: "name another schema: ?schema=NAME"}
	}
	if err != nil {
		return err
	}
	var others int64
	err = l.tx.QueryRow(l.ctx, "SELECT count(*) FROM writers WHERE id <> $1 AND until > clock_timestamp()", l.db.writerID).Scan(&others)
	if err == nil && others > 0 {
		err = &world.Error{Op: "postgres.Load", Kind: world.KindLocked, Subject: l.db.target.display,
			Msg: fmt.Sprintf("%s has %d daemons, and is another store to them", l.db.target.display, others), Hint: "end them first"}
	}
	return err
}

// wrote counts a row, and sends what there is if that is enough.
func (l *loader) wrote(bytes int) error {
	if l.rows, l.bytes = l.rows+1, l.bytes+bytes; l.rows < loadRows && l.bytes < loadBytes {
		return nil
	}
	return l.send()
}

func (l *loader) send() error {
	var batch pgx.Batch
	l.buf.queue(&batch, "") // nobody's: what is open was left by one who is gone
	l.buf, l.rows, l.bytes = buffer{}, 0, 0
	if batch.Len() == 0 {
		return nil
	}
	return l.tx.SendBatch(l.ctx, &batch).Close()
}

func (l *loader) visitor() *sqlstore.Visitor {
	b := &l.buf
	other := func(err error) error {
		if err != nil {
			return err
		}
		return l.wrote(0)
	}
	return &sqlstore.Visitor{
		Object: func(r *sqlstore.ObjectRow, _ error) error {
			b.objects = append(b.objects, r)
			b.refs = sqlstore.RefsOfObject(b.refs, r)
			return l.wrote(len(r.Payload))
		},
		Entry: func(r *sqlstore.EntryRow, _ error) error {
			b.entries = append(b.entries, r)
			b.refs = sqlstore.RefsOfEntry(b.refs, r)
			return l.wrote(0)
		},
		Journal: func(r *sqlstore.JournalRow, _ error) error {
			b.journal = append(b.journal, r)
			return l.wrote(0)
		},
		Registry: func(r *sqlstore.RegistryRow, _ error) error {
			b.refs = sqlstore.RefsOfRegistry(b.refs, r)
			return other(b.addRegistry(r))
		},
		Session: func(r *sqlstore.SessionRow, _ error) error { return other(b.addSession(r)) },
		Spend: func(r *sqlstore.SpendRow, _ error) error {
			b.spend = append(b.spend, r)
			return l.wrote(0)
		},
		Kept: func(r *sqlstore.KeptRow, _ error) error {
			if err := b.addKept(r); err != nil {
				return err
			}
			return l.wrote(len(r.Body))
		},
		Pending: func(intent sqlstore.Seq) error {
			b.opened = append(b.opened, intent)
			return l.wrote(0)
		},
		Derived: func(error) error { return nil },
	}
}
