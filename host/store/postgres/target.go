package postgres

import (
	"context"
	"crypto/rand"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ailang.dev/world/host/world"
)

// Bounds of waits.
const (
	ConnectTimeout   = 5 * time.Second  // one attempt to connect
	ReconnectFor     = 8 * time.Second  // attempts of the writer to connect, before a batch is refused
	LockTimeout      = 10 * time.Second // wait for the head row while another daemon writes
	StatementTimeout = 30 * time.Second // one statement
	TripTimeout      = 45 * time.Second // one way there and back, when the network swallows it
	IdleTimeout      = 5 * time.Second  // of a transaction whose daemon says nothing: the server ends it

	backoffFirst = 20 * time.Millisecond
	backoffMax   = time.Second
)

// MaxReaders bounds the connections that read at the same time; more reads wait, within
// their context.
const MaxReaders = 8

// Target is where a world is: a database, and a schema in it.
type Target struct {
	config  *pgx.ConnConfig
	display string // the URL without a password
	schema  string // "" until the server told which one its search path names
	create  bool   // the URL named the schema, and it may be made
	several bool   // servers are named
}

// IsURL tells whether a --db names a database rather than a file.
func IsURL(db string) bool {
	return strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://")
}

// secrets are the parameters of a URL that are not shown.
var secrets = []string{"password", "sslpassword", "passfile"}

// Display is a --db that may be shown: a URL without its password; of a path, itself.
func Display(db string) string {
	if !IsURL(db) {
		return db
	}
	u, err := url.Parse(db)
	if err != nil || cutByPassword(u) {
		return "postgres://(unreadable)"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	for _, s := range secrets {
		q.Del(s)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// cutByPassword tells whether some of a password may stand where the host, the database or a
// parameter should: it has a character in it that ends a part of a URL. The driver's errors would
// show it there.
func cutByPassword(u *url.URL) bool {
	return u.Fragment != "" || strings.Contains(u.EscapedPath(), "@") || strings.Contains(u.RawQuery, "@")
}

// ParseTarget reads a URL: those of libpq, and the parameter schema, which names the world's
// schema and makes it if it is not there. Without it the world is in the first schema of the
// server's search path. The error never holds the URL.
func ParseTarget(db string) (*Target, error) {
	const op = "postgres.Open"
	bad := func(msg string) (*Target, error) {
		return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Msg: msg,
			Hint: "it is postgres://user@host:port/database, with ?schema=NAME for one of several worlds"}
	}
	u, err := url.Parse(db)
	if err != nil || !IsURL(db) || cutByPassword(u) {
		return bad("the database's URL cannot be read: in a password, write # / ? @ : % as %23 %2F %3F %40 %3A %25")
	}
	t := &Target{display: Display(db)}
	q := u.Query()
	if q.Has("schema") {
		t.schema, t.create = q.Get("schema"), true
		if t.schema == "" || len(t.schema) > 63 || strings.HasPrefix(t.schema, "pg_") || !plain(t.schema) {
			return bad("schema must be a name of 1 to 63 bytes that does not begin with pg_")
		}
		q.Del("schema")
		u.RawQuery = q.Encode()
	}
	c, err := pgx.ParseConfig(u.String())
	if err != nil {
		return bad("the database's URL is not one that the driver takes: " + strings.ReplaceAll(errText(err), u.String(), t.display))
	}
	if c.ConnectTimeout == 0 || c.ConnectTimeout > ConnectTimeout {
		c.ConnectTimeout = ConnectTimeout
	}
	t.config = c
	for _, f := range c.Fallbacks {
		t.several = t.several || f.Host != c.Host || f.Port != c.Port
	}
	return t, nil
}

// errText is the cause of a parse error alone; what is around it repeats the URL.
func errText(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			break
		}
		err = inner.Unwrap()
	}
	return err.Error()
}

// name tells connections apart on the server: who opened them, and which it is.
func name() string { return "ailang-worldd " + rand.Text()[:16] }

// connConfig is a connection's settings. A writer's server must take writes, and what it
// acknowledges must be on its disk.
func (t *Target) connConfig(replica bool) *pgx.ConnConfig {
	c := t.config.Copy()
	p := c.RuntimeParams
	p["application_name"] = name()
	p["lock_timeout"] = milliseconds(LockTimeout)
	p["statement_timeout"] = milliseconds(StatementTimeout)
	p["idle_in_transaction_session_timeout"] = milliseconds(IdleTimeout)
	// Every statement has its index. A plan that was made and kept while a table was small, or
	// before it was ever analysed, would read all of it for ever.
	p["enable_seqscan"] = "off"
	if t.schema != "" {
		p["search_path"] = pgx.Identifier{t.schema}.Sanitize()
	}
	if !replica {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return c
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// connect makes one connection, within ctx.
func (t *Target) connect(ctx context.Context) (*pgx.Conn, error) {
	c, err := pgx.ConnectConfig(ctx, t.connConfig(false))
	if err != nil {
		return nil, err
	}
	if err := durable(ctx, c); err != nil {
		c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// connectToRead makes one connection of a store that is only read. Of several servers it is the one
// that takes writes, which is never behind, unless the URL wishes for another or there is none.
func (t *Target) connectToRead(ctx context.Context, change func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	if t.several && t.config.ValidateConnect == nil {
		c := t.connConfig(false)
		change(c)
		if conn, err := pgx.ConnectConfig(ctx, c); err == nil {
			return conn, nil
		}
	}
	c := t.connConfig(true)
	change(c)
	return pgx.ConnectConfig(ctx, c)
}

// durable has commits wait for the disk where the server's settings would not.
func durable(ctx context.Context, c *pgx.Conn) error {
	var how string
	if err := c.QueryRow(ctx, "SELECT current_setting('synchronous_commit')").Scan(&how); err != nil {
		return err
	}
	if how != "off" {
		return nil
	}
	_, err := c.Exec(ctx, "SET synchronous_commit = on")
	return err
}

// backoff is the waits between attempts to connect.
type backoff struct{ next time.Duration }

// wait is one wait; false if ctx ended.
func (b *backoff) wait(ctx context.Context) bool {
	if b.next == 0 {
		b.next = backoffFirst
	}
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	b.next = min(2*b.next, backoffMax)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
