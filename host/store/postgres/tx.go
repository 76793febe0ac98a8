package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// tx is the write transaction, on the writer's connection.
type tx struct {
	rows
	known
	db   *database
	conn *pgx.Conn
	buf  buffer

	undo     []func() // what Restore does to known, the last first
	inOp     bool     // between Savepoint and its end
	mark     mark     // where in the buffer the operation began
	saved    bool     // the server was told of the savepoint
	released bool     // it is to be told of its end
	headSet  *sqlstore.HeadRow
}

var _ sqlstore.Tx = (*tx)(nil)

// each sends what was written so far along with the statement, since its answer depends on
// it.
func (t *tx) each(sql string, args []any, scan func(*cols) error) error {
	var batch pgx.Batch
	t.queue(&batch)
	batch.Queue(sql, args...).Query(func(r pgx.Rows) error { return show(r, scan) })
	return t.db.target.fail("step", t.db.trip(t.conn, &batch))
}

// queue takes all of the buffer to be sent, an operation's own part behind its savepoint.
func (t *tx) queue(batch *pgx.Batch) {
	if t.released {
		batch.Queue("RELEASE SAVEPOINT op")
		t.released = false
	}
	if t.inOp && !t.saved {
		before, after := t.buf.cut(t.mark)
		before.queue(batch, t.db.writerID)
		batch.Queue("SAVEPOINT op")
		t.saved = true
		after.queue(batch, t.db.writerID)
	} else {
		t.buf.queue(batch, t.db.writerID)
	}
	t.buf, t.mark = buffer{}, mark{}
}

func (t *tx) Savepoint() error {
	t.mark, t.inOp, t.saved, t.undo = t.buf.mark(), true, false, t.undo[:0]
	return nil
}

func (t *tx) Release() error {
	t.inOp, t.released, t.saved = false, t.saved, false
	return nil
}

var errAborted = errors.New("the engine ended the transaction")

func (t *tx) Restore() error {
	for _, f := range slices.Backward(t.undo) {
		f()
	}
	t.buf, _ = t.buf.cut(t.mark)
	saved := t.saved
	t.inOp, t.saved = false, false
	if !saved {
		if t.conn.IsClosed() || t.conn.PgConn().TxStatus() != 'T' {
			return errAborted
		}
		return nil
	}
	return t.db.simple(t.conn, "ROLLBACK TO SAVEPOINT op; RELEASE SAVEPOINT op")
}

// put changes a map of what is known, so that Restore can change it back.
func put[K comparable, V any](t *tx, m map[K]V, key K, v V) {
	old, had := m[key]
	t.undo = append(t.undo, func() {
		if had {
			m[key] = old
		} else {
			delete(m, key)
		}
	})
	m[key] = v
}

func (t *tx) Head() (sqlstore.HeadRow, error) { return t.head, nil }

func (t *tx) Object(hash world.Ref, payload bool) (sqlstore.ObjectRow, bool, error) {
	if f, ok := t.objects[hash]; ok && !payload {
		return f.get()
	}
	return t.rows.Object(hash, payload)
}

func (t *tx) PutObject(r *sqlstore.ObjectRow) (bool, error) {
	if _, there, err := t.Object(r.Meta.Hash, false); err != nil || there {
		return false, err
	}
	row := *r
	t.buf.objects = append(t.buf.objects, &row)
	row.Payload = r.Payload
	meta := row
	meta.Payload = nil
	put(t, t.objects, r.Meta.Hash, found[sqlstore.ObjectRow]{row: meta, ok: true})
	return true, nil
}

func (t *tx) Journal(id world.InvocationID, limit int) ([]sqlstore.JournalRow, error) {
	f, ok := t.calls[id]
	if !ok {
		return t.rows.Journal(id, limit)
	}
	list := slices.Clone(f.row)
	slices.Reverse(list)
	return list[:min(limit, len(list))], f.err
}

func (t *tx) AddJournal(r *sqlstore.JournalRow) error {
	row := *r
	t.buf.journal = append(t.buf.journal, &row)
	if f, ok := t.calls[r.Invocation]; ok {
		f.row = append(slices.Clip(f.row), row)
		put(t, t.calls, r.Invocation, f)
	}
	return nil
}

// AddEntry leaves it to the unique indexes to refuse a hash or a world that is there.
func (t *tx) AddEntry(r *sqlstore.EntryRow) error {
	row := *r
	t.buf.entries = append(t.buf.entries, &row)
	return nil
}

// Held implements sqlstore.Tx.
func (t *tx) Held(l store.Lease) (held bool, err error) {
	if f, ok := t.held[l]; ok {
		return f.ok, f.err
	}
	err = t.each(lockLeases, []any{[][]byte{textKey(l.Episode)}}, func(k *cols) error {
		got, err := scanHeld(k, t.db.writerID)
		held = got == l
		return err
	})
	return held, err
}

func (t *tx) AddPending(intent sqlstore.Seq) error {
	t.buf.opened = append(t.buf.opened, intent)
	return nil
}

func (t *tx) DropPending(intent sqlstore.Seq) error {
	t.buf.closed = append(t.buf.closed, intent)
	return nil
}

func (t *tx) other(sql string, args ...any) error { return t.buf.add(sql, args...) }

func (b *buffer) add(sql string, args ...any) error {
	b.other = append(b.other, statement{sql, args})
	return nil
}

func (t *tx) AddRegistry(r *sqlstore.RegistryRow) error { return t.buf.addRegistry(r) }

func (b *buffer) addRegistry(r *sqlstore.RegistryRow) error {
	return b.add("INSERT INTO registry (seq, name_key, name, revision, head, sum) VALUES ($1, $2, $3, $4, $5, $6)",
		r.Seq, textKey(r.Head.Name), encodeText(r.Head.Name), r.Head.Revision, refBytes(r.Head.Head), r.Sum())
}

func (t *tx) AddSession(r *sqlstore.SessionRow) error { return t.buf.addSession(r) }

func (b *buffer) addSession(r *sqlstore.SessionRow) error {
	return b.add("INSERT INTO sessions (seq, id, episode_key, episode, grants, created, expires, revoked, sum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		r.Seq, refBytes(r.ID), textKey(r.Episode), encodeText(r.Episode), encodeText(r.Grants),
		sqlstore.FormatTime(r.Created), sqlstore.FormatTime(r.Expires), bit(r.Revoked), r.Sum())
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (t *tx) RevokeSession(r *sqlstore.SessionRow) error {
	return t.other("UPDATE sessions SET revoked = $1, sum = $2 WHERE seq = $3", bit(r.Revoked), r.Sum(), r.Seq)
}

func (t *tx) Spend(episode, effect, scope string) (sqlstore.SpendRow, bool, error) {
	if f, ok := t.spend[spendKey{episode, effect, scope}]; ok {
		return f.get()
	}
	return t.rows.Spend(episode, effect, scope)
}

func (t *tx) SetSpend(r *sqlstore.SpendRow) error {
	row := *r
	t.buf.spend = append(t.buf.spend, &row)
	put(t, t.spend, spendKey{r.Episode, r.Effect, r.Scope}, found[sqlstore.SpendRow]{row: row, ok: true})
	return nil
}

func (t *tx) AddKept(r *sqlstore.KeptRow) error {
	// The place is in the checksum, so it is known before the row is.
	err := t.each("SELECT coalesce(max(id), 0) + 1 FROM kept", nil, func(k *cols) error { r.ID = k.int(); return nil })
	if err != nil {
		return err
	}
	return t.buf.addKept(r)
}

func (b *buffer) addKept(r *sqlstore.KeptRow) error {
	return b.add("INSERT INTO kept (id, kind, key, expires, sum, body) VALUES ($1, $2, $3, $4, $5, $6)",
		r.ID, encodeText(r.Kind), refBytes(r.Key), r.Expires, r.Sum(), append([]byte{}, r.Body...))
}

func (t *tx) SetKept(r *sqlstore.KeptRow) error {
	return t.other("UPDATE kept SET expires = $1, sum = $2, body = $3 WHERE id = $4", r.Expires, r.Sum(), append([]byte{}, r.Body...), r.ID)
}

func (t *tx) DropKept(kind string, key world.Ref) (there bool, err error) {
	err = t.each("DELETE FROM kept WHERE kind = $1 AND key = $2 RETURNING id", []any{encodeText(kind), refBytes(key)},
		func(*cols) error { there = true; return nil })
	return there, err
}

func (t *tx) SweepKept(ended int64, limit int) (n int, err error) {
	err = t.each("DELETE FROM kept WHERE id IN (SELECT id FROM kept WHERE expires <= $1 ORDER BY expires LIMIT $2) RETURNING id",
		[]any{ended, limit}, func(*cols) error { n++; return nil })
	return n, err
}

func (t *tx) AddRefs(list []sqlstore.RefRow) error {
	t.buf.refs = append(t.buf.refs, list...)
	return nil
}

func (t *tx) SetHead(r *sqlstore.HeadRow) error {
	t.headSet = r
	return t.other(setHead, headArgs(r)...)
}

const setHead = "UPDATE head SET batch = $1, seq = $2, world = $3, log_head = $4, next_index = $5, sum = $6 WHERE id = 1"

func headArgs(r *sqlstore.HeadRow) []any {
	return []any{r.Batch, r.Seq, refBytes(r.World), refBytes(r.LogHead), r.Next, r.Sum()}
}

// Commit sends all that was written, the writer's own mark, and COMMIT.
func (t *tx) Commit() error {
	var batch pgx.Batch
	t.queue(&batch)
	s := t.db.sign(t.headSet.Batch)
	batch.Queue(s.sql, s.args...)
	batch.Queue("COMMIT")
	t.db.doubt = t.headSet.Batch
	err := t.db.trip(t.conn, &batch)
	if err == nil && t.conn.PgConn().TxStatus() != 'I' {
		err = errAborted
	}
	return t.db.target.fail("commit", err)
}

func (t *tx) Rollback() error {
	if t.conn.IsClosed() {
		return nil // the server rolls back what it held open
	}
	return t.db.target.fail("rollback", t.db.simple(t.conn, "ROLLBACK"))
}

// simple runs statements that give no rows, within TripTimeout.
func (d *database) simple(c *pgx.Conn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), TripTimeout)
	defer cancel()
	_, err := c.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// trip sends statements together, within TripTimeout.
func (d *database) trip(c *pgx.Conn, batch *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), TripTimeout)
	defer cancel()
	return c.SendBatch(ctx, batch).Close()
}
