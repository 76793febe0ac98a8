package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// The indexes that lists need. Without one a list would read a whole table, and is refused.
const (
	indexByName    = "objects_by_name"
	indexByEpisode = "journal_by_episode"
	indexByTarget  = "refs_by_target"
)

var errNoIndex = errors.New("the index is not there, or not whole")

const reindexHint = "open the store anew, or run `ailang-worldd store reindex`, to have it rebuilt"

// usable is a condition that the server looks at once for a statement, before it reads.
const usable = "(SELECT bool_or(indisvalid) FROM pg_index WHERE indexrelid = to_regclass('%s'))"

// indexed is list where an index must be there.
func indexed[R any](a asker, index string, scan func(*cols, *R) error, sql string, args ...any) ([]R, error) {
	gate := fmt.Sprintf(usable, index)
	all, err := list(a, scan, strings.Replace(sql, " WHERE ", " WHERE "+gate+" AND ", 1), args...)
	if err == nil && len(all) == 0 {
		var whole bool
		err = a.each("SELECT coalesce("+gate+", false)", nil, func(k *cols) error { whole = next[bool](k); return nil })
		if err == nil && !whole {
			err = errNoIndex
		}
	}
	var damage *world.Error
	if errors.Is(err, errNoIndex) || errors.As(err, &damage) && damage.Kind == world.KindIntegrity && damage.Op != "store" {
		return nil, &world.Error{Op: "postgres.index", Kind: world.KindIndexMissing, Subject: index, Err: err, Hint: reindexHint}
	}
	return all, err
}

// indexOf finds the statement that makes each index in the schema's text.
func indexOf() map[string]string {
	made := make(map[string]string)
	for _, m := range migrations {
		for _, line := range strings.Split(m, "\n") {
			words := strings.Fields(line)
			for i, w := range words {
				if w == "INDEX" && words[0] == "CREATE" {
					made[words[i+1]] = line
				}
			}
		}
	}
	return made
}

// mend makes the indexes anew that are missing or not whole, in one transaction under the
// head's lock; all of them if all says so.
func (d *database) mend(ctx context.Context, all bool) error {
	bad := make(map[string]bool)
	for index := range indexOf() {
		var whole bool
		if err := d.writer.QueryRow(ctx, "SELECT coalesce("+fmt.Sprintf(usable, index)+", false)").Scan(&whole); err != nil {
			return err
		}
		if all || !whole {
			bad[index] = true
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, d.writer, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, selectHead+" FOR UPDATE"); err != nil {
			return err
		}
		for index := range bad {
			d.logf("store %s: index %s is built anew", d.target.display, index)
			if _, err := tx.Exec(ctx, "DROP INDEX IF EXISTS "+index); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, strings.TrimSuffix(indexOf()[index], ";")); err != nil {
				return err
			}
		}
		return nil
	})
}

// refill makes the references anew from the rows that hold them.
func (d *database) refill(ctx context.Context) error {
	return pgx.BeginFunc(ctx, d.writer, func(tx pgx.Tx) error {
		for _, sql := range []string{"SET LOCAL statement_timeout = 0", selectHead + " FOR UPDATE", "DELETE FROM refs"} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		q := rows{txAsker{ctx, tx, d.target}}
		for after := int64(-1); ; {
			var page []sqlstore.ObjectRow
			page, err := list(q, scanPayload, "SELECT "+objectCols+", payload FROM objects WHERE seq > $1 ORDER BY seq LIMIT $2", after, refillPage)
			if err != nil {
				return err
			}
			var refs []sqlstore.RefRow
			for i := range page {
				refs = sqlstore.RefsOfObject(refs, &page[i])
				after = page[i].Seq
			}
			if err := addRefs(ctx, tx, refs); err != nil {
				return err
			}
			if len(page) < refillPage {
				break
			}
		}
		for from := int64(0); ; {
			page, err := q.Entries(from, refillPage)
			if err != nil {
				return err
			}
			var refs []sqlstore.RefRow
			for i := range page {
				refs = sqlstore.RefsOfEntry(refs, &page[i])
				from = page[i].Entry.Header.EntryIndex + 1
			}
			if err := addRefs(ctx, tx, refs); err != nil {
				return err
			}
			if len(page) < refillPage {
				break
			}
		}
		moves, err := list(q, scanRegistry, "SELECT "+registryCols+" FROM registry ORDER BY seq")
		if err != nil {
			return err
		}
		var refs []sqlstore.RefRow
		for i := range moves {
			refs = sqlstore.RefsOfRegistry(refs, &moves[i])
		}
		return addRefs(ctx, tx, refs)
	})
}

// refillPage is how many rows are read at a time; their payloads are in memory.
const refillPage = 16

func addRefs(ctx context.Context, tx pgx.Tx, refs []sqlstore.RefRow) error {
	if len(refs) == 0 {
		return nil
	}
	s := refsInsert(refs)
	_, err := tx.Exec(ctx, s.sql, s.args...)
	return err
}

// txAsker asks in a transaction of the driver's.
type txAsker struct {
	ctx    context.Context
	tx     pgx.Tx
	target *Target
}

func (a txAsker) each(sql string, args []any, scan func(*cols) error) error {
	r, err := a.tx.Query(a.ctx, sql, args...)
	if err == nil {
		err = show(r, scan)
	}
	return a.target.fail("read", err)
}
