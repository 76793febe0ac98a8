package sqlite

import (
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// Settings of the engine.
const (
	busyTimeout     = 5 * time.Second // wait for another process that reads or checkpoints
	checkpointPages = 16_000          // pages of the write-ahead log before it is copied back
	writerCacheKiB  = 64 << 10
	readerCacheKiB  = 8 << 10
	walKeepBytes    = 128 << 20 // the log's file is cut to this after a checkpoint
)

// conn is one connection. It is used by one goroutine at a time.
type conn struct {
	*sqlite.Conn
	db   *database
	seen seen // by the transaction that is open
	args params
}

func (d *database) connect(pragmas ...string) (*conn, error) {
	c, err := sqlite.OpenConn(d.path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, d.fail("open", err)
	}
	c.SetBusyTimeout(busyTimeout)
	for _, p := range pragmas {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+p, nil); err != nil {
			c.Close()
			return nil, d.fail("open", err)
		}
	}
	return &conn{Conn: c, db: d}, nil
}

func (d *database) connectWriter() (*conn, error) {
	return d.connect("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON", "temp_store = MEMORY",
		fmt.Sprintf("wal_autocheckpoint = %d", checkpointPages), fmt.Sprintf("journal_size_limit = %d", walKeepBytes),
		fmt.Sprintf("cache_size = -%d", writerCacheKiB))
}

func (d *database) connectReader() (*conn, error) {
	return d.connect("query_only = ON", "temp_store = MEMORY", fmt.Sprintf("cache_size = -%d", readerCacheKiB))
}

// do runs a statement that gives no rows. bind may be nil.
func (c *conn) do(sql string, bind func(*params)) error {
	_, err := c.one(sql, bind, nil)
	return err
}

// one runs a statement and hands its first row, if there is one, to scan.
func (c *conn) one(sql string, bind func(*params), scan func(*cols) error) (bool, error) {
	st, err := c.prepare(sql, bind)
	if err != nil {
		return false, err
	}
	row, err := st.Step()
	if err == nil && row && scan != nil {
		err = scan(&cols{st: st})
	}
	_ = st.Reset() // its error is that of Step
	return row, c.db.fail("step", err)
}

// each runs a statement and hands every row to scan.
func (c *conn) each(sql string, bind func(*params), scan func(*cols) error) error {
	st, err := c.prepare(sql, bind)
	if err != nil {
		return err
	}
	for {
		row, err := st.Step()
		if err == nil && row {
			err = scan(&cols{st: st})
		}
		if err != nil || !row {
			_ = st.Reset() // its error is that of Step
			return c.db.fail("step", err)
		}
	}
}

func (c *conn) prepare(sql string, bind func(*params)) (*sqlite.Stmt, error) {
	st, err := c.Prepare(sql)
	if err != nil {
		return nil, c.db.fail("prepare", err)
	}
	if bind != nil {
		c.args = params{st: st} // bind is over before another statement is prepared
		bind(&c.args)
	}
	return st, nil
}

// params binds a statement's parameters in order.
type params struct {
	st *sqlite.Stmt
	n  int
}

func (p *params) int(vs ...int64) *params {
	for _, v := range vs {
		p.n++
		p.st.BindInt64(p.n, v)
	}
	return p
}

func (p *params) text(vs ...string) *params {
	for _, v := range vs {
		p.n++
		p.st.BindText(p.n, v)
	}
	return p
}

func (p *params) ref(vs ...world.Ref) *params {
	for _, v := range vs {
		p.n++
		if v.IsNone() {
			p.st.BindNull(p.n)
		} else {
			var b [hashref.Size]byte
			p.st.BindBytes(p.n, v.AppendDigest(b[:0]))
		}
	}
	return p
}

func (p *params) blob(v []byte) *params {
	p.n++
	p.st.BindBytes(p.n, v)
	return p
}

// cols reads a row's columns in order; err is the first that is not what it must be.
type cols struct {
	st  *sqlite.Stmt
	n   int
	err error
}

func (c *cols) int() int64 {
	c.n++
	return c.st.ColumnInt64(c.n - 1)
}

func (c *cols) text() string {
	c.n++
	return c.st.ColumnText(c.n - 1)
}

func (c *cols) ref() world.Ref {
	c.n++
	if c.st.ColumnIsNull(c.n - 1) {
		return hashref.None
	}
	var b [hashref.Size + 1]byte
	r, err := hashref.FromDigest(b[:c.st.ColumnBytes(c.n-1, b[:])])
	c.note(err)
	return r
}

func (c *cols) blob() []byte {
	c.n++
	b := make([]byte, c.st.ColumnLen(c.n-1))
	c.st.ColumnBytes(c.n-1, b)
	return b
}

func (c *cols) time() time.Time {
	t, err := sqlstore.ParseTime(c.text())
	c.note(err)
	return t
}

func (c *cols) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

// prove ends the reading of a row: its columns are what they must be, and give its
// checksum.
func (c *cols) prove(table string, row, stored, computed int64) error {
	if c.err != nil {
		return sqlstore.Damaged(table, row, c.err)
	}
	return sqlstore.Prove(table, row, stored, computed)
}
