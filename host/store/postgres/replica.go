package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// How long a replica that is away is waited for before the primary is asked, and how long it is
// then not asked again.
const (
	replicaPatience = 500 * time.Millisecond
	replicaRest     = 3 * time.Second
)

// Replica reads a world from a streaming copy of its database, and from the database itself while
// the copy is away. What it reads may be older than what was acknowledged.
type Replica struct {
	*sqlstore.Store
	copy *replica
}

// replica is the Backend of a Replica.
type replica struct {
	*database
	primary *Store
	rest    atomic.Int64 // until when it is not asked, in nanoseconds since 1970
}

var _ sqlstore.Backend = (*replica)(nil)

// OpenReplica opens a copy of the world that primary has open, which stays the caller's. A copy
// of another world is KindSchema; one that cannot be reached now is asked again later.
func OpenReplica(ctx context.Context, primary *Store, o Options) (*Replica, error) {
	d, err := newDatabase(&o)
	if err != nil {
		return nil, err
	}
	if d.target.schema == "" {
		d.target.schema = primary.db.target.schema
	}
	d.id, d.patience = primary.ID(), replicaPatience
	close(d.beaten) // it has no heart
	r := &replica{database: d, primary: primary}
	if d.readers, err = d.pool(ctx, MaxReaders, func(c *pgxpool.Config) {
		c.ConnConfig = d.target.connConfig(true)
		c.AfterConnect = d.checkCopy
	}); err != nil {
		return nil, d.target.fail("open", err)
	}
	within, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	switch err := d.readers.Ping(within); {
	case err != nil && (away(err) || within.Err() != nil):
		d.logf("store %s: the replica cannot be reached now; the primary is read until it can: %v", d.target.display, err)
	case err != nil:
		d.readers.Close()
		return nil, d.target.fail("open", err)
	}
	return &Replica{Store: sqlstore.New(r, o.Hooks, o.Logf), copy: r}, nil
}

// checkCopy holds each connection to the world that is copied: what answers at an address may be
// another server tomorrow.
func (d *database) checkCopy(ctx context.Context, c *pgx.Conn) error {
	var id string
	if err := c.QueryRow(ctx, "SELECT store_id FROM meta WHERE id = 1").Scan(&id); err != nil {
		return err
	}
	if id != d.id {
		err := d.schemaError("it is a copy of another world", "name a replica of the database of --db")
		d.logf("%v; the primary is read", err)
		return err
	}
	return nil
}

// Behind is how many entries the copy does not have yet; away says that it cannot be reached,
// and the primary is read.
func (r *Replica) Behind(ctx context.Context) (entries int64, away bool, err error) {
	next := func(read func(context.Context, func(sqlstore.Rows) error) error) (n int64, err error) {
		err = read(ctx, func(q sqlstore.Rows) error {
			head, err := q.Head()
			n = head.Next
			return err
		})
		return n, err
	}
	if r.copy.rests() {
		return 0, true, nil
	}
	have, err := next(r.copy.database.Read)
	if err != nil {
		return 0, ctx.Err() == nil, ctx.Err()
	}
	there, err := next(r.copy.primary.db.Read)
	return max(0, there-have), false, err
}

func (r *replica) rests() bool { return time.Now().UnixNano() < r.rest.Load() }

// Read implements sqlstore.Backend.
func (r *replica) Read(ctx context.Context, f func(sqlstore.Rows) error) error {
	if r.rests() {
		return r.primary.db.Read(ctx, f)
	}
	begun := false
	err := r.database.Read(ctx, func(q sqlstore.Rows) error {
		begun = true
		return f(q)
	})
	if err == nil || begun || ctx.Err() != nil {
		return err
	}
	select {
	case <-r.closed:
		return err
	default:
		r.rest.Store(time.Now().Add(replicaRest).UnixNano())
		return r.primary.db.Read(ctx, f)
	}
}

// Begin implements sqlstore.Backend: nothing is written.
func (r *replica) Begin(*sqlstore.Needs) (sqlstore.Tx, error) {
	return nil, world.Wrap(world.KindInternal, "postgres.Begin", errReadOnly)
}

// Settle implements sqlstore.Backend; no batch ever is in doubt.
func (r *replica) Settle() (bool, error) { return false, nil }
