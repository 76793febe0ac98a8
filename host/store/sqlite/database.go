package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// MaxReaders bounds the connections that read at the same time; more reads wait, within
// their context.
const MaxReaders = 8

// database is the Backend: the file, its writer's connection and its readers.
type database struct {
	path    string
	id      string
	version int64 // of its format
	unlock  func() error

	index  *index
	writer *conn // nil while it must be opened anew
	doubt  doubt
	full   atomic.Bool // the disk was full since the last Begin

	slots  chan struct{} // one for each reader that may run
	idle   chan *conn
	closed chan struct{}
	once   sync.Once
	err    error // of the first Close
}

// doubt is a batch of which it is not known whether it landed.
type doubt struct {
	batch int64
	full  bool // the engine had no room for it
}

var _ sqlstore.Backend = (*database)(nil)

func newDatabase(path string, l Limits, logf func(string, ...any), unlock func() error) *database {
	return &database{
		path: path, index: newIndex(l, logf), unlock: unlock,
		slots: make(chan struct{}, MaxReaders), idle: make(chan *conn, MaxReaders), closed: make(chan struct{}),
	}
}

func (d *database) ID() string { return d.id }

// Exclusive implements sqlstore.Backend: the writer lock sees to it.
func (d *database) Exclusive() bool { return true }

var errClosed = errors.New("the store is closed")

// Read implements sqlstore.Backend.
func (d *database) Read(ctx context.Context, f func(sqlstore.Rows) error) error {
	select {
	case <-d.closed:
		return world.Wrap(world.KindTimeout, "sqlite.Read", errClosed)
	default:
	}
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return world.Wrap(world.KindTimeout, "sqlite.Read", context.Cause(ctx))
	case <-d.closed:
		return world.Wrap(world.KindTimeout, "sqlite.Read", errClosed)
	}
	defer func() { <-d.slots }()
	c, err := d.reader()
	if err != nil {
		return err
	}
	s := d.index.acquire() // before the snapshot; see there
	c.seen = seen{state: s}
	c.SetInterrupt(ctx.Done())
	err = c.snapshot(f)
	c.SetInterrupt(nil)
	c.seen = seen{}
	s.release()
	if ctx.Err() != nil && world.KindOf(err) == world.KindInternal && err != nil {
		err = world.Wrap(world.KindTimeout, "sqlite.Read", errors.Join(context.Cause(ctx), err))
	}
	if !c.AutocommitEnabled() {
		_ = c.Close() // it is stuck in an old snapshot
		return err
	}
	d.idle <- c
	return err
}

func (d *database) reader() (*conn, error) {
	select {
	case c := <-d.idle:
		return c, nil
	default:
		return d.connectReader()
	}
}

func (c *conn) snapshot(f func(sqlstore.Rows) error) error {
	if err := c.do("BEGIN", nil); err != nil {
		return err
	}
	err := f(c)
	c.SetInterrupt(nil)        // the rollback is not to be interrupted
	if c.AutocommitEnabled() { // the engine ended it because of the error
		return err
	}
	if rerr := c.do("ROLLBACK", nil); err == nil {
		err = rerr
	}
	return err
}

// Begin implements sqlstore.Backend.
func (d *database) Begin(*sqlstore.Needs) (sqlstore.Tx, error) {
	if d.writer != nil && !d.writer.AutocommitEnabled() {
		d.dropWriter() // a rollback failed
	}
	if d.writer == nil {
		c, err := d.connectWriter()
		if err != nil {
			return nil, err
		}
		d.writer = c
	}
	if d.full.Swap(false) {
		// Most of the space may be page versions in the write-ahead log that are not needed
		// any more. If they cannot be copied back either, the write will tell.
		_ = d.writer.do("PRAGMA wal_checkpoint(PASSIVE)", nil)
	}
	if err := d.writer.do("BEGIN IMMEDIATE", nil); err != nil {
		return nil, err
	}
	d.writer.seen = seen{state: d.index.cur.Load(), draft: d.index.draft, synced: true}
	return &tx{conn: d.writer}, nil
}

func (d *database) dropWriter() {
	if d.writer != nil {
		_ = d.writer.Close() // what it held open is rolled back with it
		d.writer = nil
	}
}

// Settle implements sqlstore.Backend.
//
// A commit that failed may have left its frames in the write-ahead log, where no reader
// sees them but a recovery after a crash would. So that the answer can no longer change,
// another transaction is written over them. The one exception is a full disk: then the
// frame that ends the transaction is not there in whole, and no recovery takes it.
func (d *database) Settle() (bool, error) {
	d.dropWriter()
	landed, err := d.settle()
	if err == nil && landed {
		d.index.landed()
	} else if err == nil {
		d.index.lost()
	}
	return landed, err
}

func (d *database) settle() (bool, error) {
	if _, err := d.Begin(nil); err != nil {
		if d.doubt.full {
			return false, nil
		}
		return false, err
	}
	c := d.writer
	defer func() {
		if !c.AutocommitEnabled() {
			_ = c.do("ROLLBACK", nil)
		}
	}()
	head, err := c.Head()
	if err != nil {
		return false, err
	}
	if head.Batch == d.doubt.batch {
		return true, nil
	}
	if d.doubt.full {
		return false, nil
	}
	head.Batch = d.doubt.batch + 1
	if err := c.setHead(&head); err != nil {
		return false, err
	}
	if err := c.do("COMMIT", nil); err != nil {
		return false, err
	}
	return false, nil
}

// Close implements sqlstore.Backend.
func (d *database) Close() error {
	d.once.Do(func() {
		close(d.closed)
		for range MaxReaders { // wait for the reads that run
			d.slots <- struct{}{}
		}
		close(d.idle)
		for c := range d.idle {
			d.err = errors.Join(d.err, c.Close())
		}
		if d.writer != nil {
			d.err = errors.Join(d.err, d.writer.Close())
		}
		d.err = errors.Join(d.err, d.unlock())
	})
	return d.err
}
