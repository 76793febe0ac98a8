package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// SQLSTATE codes that mean something of their own here.
const (
	codeReadOnly      = "25006" // a standby, or a primary that was demoted
	codeDiskFull      = "53100"
	codeLockTimeout   = "55P03"
	codeCanceled      = "57014" // a statement's time is over
	codeNoTable       = "42P01"
	codeNoColumn      = "42703"
	codeNoSchema      = "3F000"
	codeUnique        = "23505"
	codeDuplicate     = "42P07"
	codeDuplicateName = "42P06"
	codeDuplicateObj  = "42710"
	codeBadPage       = "XX001"
	codeBadIndex      = "XX002"
	codeUndetermined  = "40003"
)

func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// away tells whether an error says that this server, or the way to it, cannot be used now, so
// that another connection is needed.
func away(err error) bool {
	code := codeOf(err)
	switch {
	case code == codeReadOnly, strings.HasPrefix(code, "08"):
		return true
	case strings.HasPrefix(code, "57P"): // shut down, crashed, starting, idle too long
		return true
	case code == "25P03": // idle in its transaction for too long
		return true
	case strings.HasPrefix(code, "53") && code != codeDiskFull: // too many connections, no memory
		return true
	case code != "":
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "unexpected EOF")
}

// makesWay tells whether the engine ended a transaction so that another could go on.
func makesWay(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "40") && code != codeUndetermined
}

// fail gives an error of the engine its kind. No error holds a password: the driver leaves
// it out, and the subject is the URL without it.
func (t *Target) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	var typed *world.Error
	if errors.As(err, &typed) {
		return err
	}
	e := &world.Error{Op: "postgres." + what, Kind: world.KindInternal, Subject: t.display, Err: err}
	switch code := codeOf(err); {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.Kind = world.KindTimeout
	case code == codeDiskFull:
		e.Kind, e.Hint = world.KindStoreFull, "free some space on the database's disk; the store goes on by itself"
	case code == codeBadPage, code == codeBadIndex:
		e.Kind = world.KindIntegrity
		e.Hint = "a page of a table or of an index is damaged; run `ailang-worldd store reindex`, and if that does not help restore a copy"
	case makesWay(err):
		e.Kind, e.Err = world.KindTimeout, errors.Join(sqlstore.ErrAgain, err)
	case code == codeLockTimeout:
		e.Kind, e.Hint = world.KindTimeout, fmt.Sprintf("another daemon has been writing for %v", LockTimeout)
	case code == codeCanceled:
		e.Kind, e.Hint = world.KindTimeout, "the database did not answer in time"
	case away(err):
		e.Kind = world.KindTimeout
		if what != "connect" {
			e.Err = errors.Join(sqlstore.ErrAgain, err)
		}
		e.Hint = "the database cannot be reached, or takes no writes now; the store goes on by itself"
	}
	return e
}
