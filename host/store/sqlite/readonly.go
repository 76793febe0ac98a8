package sqlite

import (
	"context"
	"errors"
	"fmt"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// snapshot is the Backend of a store that is only read: one connection in one transaction,
// which sees the store as it was when it was opened, whoever writes to it meanwhile.
type snapshot struct {
	*database
	turn chan struct{} // whoever holds its one token reads
}

var _ sqlstore.Backend = (*snapshot)(nil)

var errReadOnly = errors.New("the store was opened to be read")

// OpenReadOnly opens the store at a path as it is at this moment, also one that another
// process has open for writing, and changes nothing: every write is refused. Reads take
// turns. While it is open the writer's log cannot be copied back and grows, so it is for
// commands that end. A store that is not there is KindNotFound; one whose indexes are
// damaged is KindIntegrity, with the way out.
func OpenReadOnly(ctx context.Context, o Options) (*Store, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	path, exists, err := resolve(o.Path)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, &world.Error{Op: openOp, Kind: world.KindNotFound, Subject: path, Msg: "there is no store",
			Hint: "`ailang-worldd genesis --db FILE` makes one"}
	}
	d := newDatabase(path, o.Limits, o.Logf, func() error { return nil })
	if err := d.openSnapshot(ctx); err != nil {
		return nil, d.giveUp(err)
	}
	s := &snapshot{database: d, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return &Store{Store: sqlstore.New(s, o.Hooks, o.Logf), db: d}, nil
}

// openSnapshot begins the one transaction, and takes the indexes as they stand in it; what
// they do not hold yet is indexed in memory.
func (d *database) openSnapshot(ctx context.Context) (err error) {
	if err := checkHeader(d.path, false); err != nil {
		return err
	}
	if d.writer, err = d.connectReader(); err != nil {
		return err
	}
	if err := d.checkMeta(false); err != nil {
		return err
	}
	if err := d.writer.do("BEGIN", nil); err != nil {
		return err
	}
	head, err := d.checkTruth()
	if err != nil {
		return err
	}
	cat, err := d.writer.readCatalogue(true)
	if err == nil {
		err = d.index.adopt(cat, head)
	}
	if err != nil {
		return &world.Error{Op: openOp, Kind: world.KindOf(err), Subject: d.path, Msg: "its indexes cannot be used",
			Hint: "stop its daemon and run `ailang-worldd store reindex --db FILE`", Err: err}
	}
	x := d.index
	s := x.cur.Load()
	t := truth{seq: s.seq, next: s.next, damaged: func(err error) { x.logf("store %s: %v", d.path, err) }}
	for t.seq < head.Seq {
		if err := ctx.Err(); err != nil {
			return world.Wrap(world.KindTimeout, openOp, context.Cause(ctx))
		}
		if err := d.writer.readPage(&t, min(t.seq+truthPage, head.Seq), x.draft); err != nil {
			return err
		}
	}
	x.out = &outcome{}
	x.out.next = x.prepare(t.seq, t.next)
	x.landed()
	return nil
}

// Exclusive implements sqlstore.Backend. Nothing may be kept beyond a read, since rows are
// to be proved each time.
func (s *snapshot) Exclusive() bool { return false }

// Read implements sqlstore.Backend.
func (s *snapshot) Read(ctx context.Context, f func(sqlstore.Rows) error) error {
	const op = "sqlite.Read"
	select {
	case <-s.turn:
	case <-ctx.Done():
		return world.Wrap(world.KindTimeout, op, context.Cause(ctx))
	case <-s.closed:
		return world.Wrap(world.KindTimeout, op, errClosed)
	}
	defer func() { s.turn <- struct{}{} }()
	c := s.writer
	if c == nil || c.AutocommitEnabled() {
		return world.Wrap(world.KindInternal, op, fmt.Errorf("the snapshot is lost"))
	}
	c.seen = seen{state: s.index.cur.Load(), synced: true}
	c.SetInterrupt(ctx.Done())
	err := f(c)
	c.SetInterrupt(nil)
	if ctx.Err() != nil && err != nil && world.KindOf(err) == world.KindInternal {
		err = world.Wrap(world.KindTimeout, op, errors.Join(context.Cause(ctx), err))
	}
	return err
}

// Begin implements sqlstore.Backend: nothing is written.
func (s *snapshot) Begin(*sqlstore.Needs) (sqlstore.Tx, error) {
	return nil, world.Wrap(world.KindInternal, "sqlite.Begin", errReadOnly)
}

// Settle implements sqlstore.Backend; no batch ever is in doubt.
func (s *snapshot) Settle() (bool, error) { return false, nil }

// Close implements sqlstore.Backend.
func (s *snapshot) Close() error {
	s.once.Do(func() {
		<-s.turn // wait for the read that runs; none begins after it
		close(s.closed)
		s.err = s.writer.Close()
	})
	return s.err
}
