package sqlite

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

var (
	tableDef = regexp.MustCompile(`(?ms)^CREATE TABLE (\w+) .*?^\)(?: WITHOUT ROWID)?;$`)
	indexDef = regexp.MustCompile(`(?m)^CREATE (?:UNIQUE )?INDEX (\w+) .*;$`)
)

// indexPrefix begins the names of the tables that hold nothing but what is derived.
const indexPrefix = "index_"

const (
	rebuildSlice = 1 << 16         // index rows written in one transaction while nothing else is done
	tellProgress = 3 * time.Second // between two words of progress
	restoreCopy  = "restore a copy"
)

// checkTables tells whether the tables that hold the truth are there, and makes anew the
// indexes of single tables that are not.
func (d *database) checkTables() error {
	have := make(map[string]bool)
	err := d.writer.each("SELECT name FROM sqlite_schema", nil, func(k *cols) error {
		have[k.text()] = true
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range tableDef.FindAllStringSubmatch(schema, -1) {
		switch name := m[1]; {
		case have[name]:
		case strings.HasPrefix(name, indexPrefix):
			d.index.logf("store %s: the table %s is missing; all that is derived is built anew", d.path, name)
			return d.emptyIndexes("")
		default:
			return &world.Error{Op: openOp, Kind: world.KindIntegrity, Subject: d.path, Msg: "its table " + name + " is missing", Hint: restoreCopy}
		}
	}
	for _, m := range indexDef.FindAllStringSubmatch(schema, -1) {
		if have[m[1]] {
			continue
		}
		d.index.logf("store %s: the index %s is missing and is built anew", d.path, m[1])
		if err := sqlitex.ExecuteTransient(d.writer.Conn, m[0], nil); err != nil {
			return d.fail("rebuild", err)
		}
	}
	return nil
}

// emptyIndexes puts empty tables in the place of those that are derived.
func (d *database) emptyIndexes(script string) error {
	for _, m := range tableDef.FindAllStringSubmatch(schema, -1) {
		if strings.HasPrefix(m[1], indexPrefix) {
			script += "DROP TABLE IF EXISTS " + m[1] + ";\n" + m[0] + "\n"
		}
	}
	return d.fail("rebuild", sqlitex.ExecuteScript(d.writer.Conn, script, nil)) // in one transaction
}

// openIndexes reads which runs there are, and indexes what is past them. It ends before
// anything is served.
func (d *database) openIndexes(ctx context.Context) error {
	head, err := d.checkTruth()
	if err != nil {
		return err
	}
	cat, err := d.writer.readCatalogue(false)
	if world.KindOf(err) == world.KindIntegrity && err != nil {
		d.index.logf("store %s: an index is damaged; all that is derived is built anew: %v", d.path, err)
		cat, err = &catalogue{}, d.emptyIndexes("")
	}
	if err != nil {
		return err
	}
	if err := d.index.adopt(cat, head); err != nil {
		return err
	}
	return d.catchUp(ctx, head, false)
}

// adopt takes over what the catalogue says.
func (x *index) adopt(cat *catalogue, head sqlstore.HeadRow) error {
	s := &state{runs: &runSet{runs: cat.whole}}
	if n := len(cat.whole); n > 0 {
		last := cat.whole[n-1]
		if last.last > head.Seq || last.next > head.Next {
			return sqlstore.Damaged("index_runs", last.id, fmt.Errorf("it ends with row %d and entry %d, the head with row %d and entry %d; "+
				"the file is older than its indexes", last.last, last.next-1, head.Seq, head.Next-1))
		}
		s.seq, s.next = last.last, last.next
	}
	x.lastRun, x.dead = cat.last, cat.dead
	x.cur.Store(s)
	return nil
}

// checkTruth reads the head, and refuses a file that has rows past it: the head row, or
// the write-ahead log with it, is not that of these tables.
func (d *database) checkTruth() (sqlstore.HeadRow, error) {
	head, err := d.writer.Head()
	if err != nil {
		return head, err
	}
	for _, t := range []string{"objects", "journal", "registry", "sessions"} {
		last := sqlstore.Seq(0)
		_, err := d.writer.one("SELECT max(seq) FROM "+t, nil, func(k *cols) error { last = k.int(); return nil })
		if err == nil && last > head.Seq {
			err = sqlstore.Damaged(t, last, fmt.Errorf("the head row ends with row %d", head.Seq))
		}
		if err != nil {
			return head, err
		}
	}
	last := int64(0)
	_, err = d.writer.one("SELECT coalesce(max(entry_index), -1) FROM entries", nil, func(k *cols) error { last = k.int(); return nil })
	if err == nil && last >= head.Next {
		err = sqlstore.Damaged("entries", last, fmt.Errorf("the head row ends with entry %d", head.Next-1))
	}
	return head, err
}

// catchUp indexes the truth past the watermark, and keeps in memory what is not enough for
// a run; all leaves nothing in memory, and runs merged as far as they can be.
func (d *database) catchUp(ctx context.Context, head sqlstore.HeadRow, all bool) error {
	x, c := d.index, d.writer
	s := x.cur.Load()
	t := truth{seq: s.seq, next: s.next, damaged: func(err error) { x.logf("store %s: %v", d.path, err) }}
	told := time.Now()
	for t.seq < head.Seq {
		for t.seq < head.Seq && x.draft.count() < x.limits.Rows {
			if err := ctx.Err(); err != nil {
				return world.Wrap(world.KindTimeout, openOp, context.Cause(ctx))
			}
			if err := c.readPage(&t, min(t.seq+truthPage, head.Seq), x.draft); err != nil {
				return err
			}
			if time.Since(told) > tellProgress {
				told = time.Now()
				x.logf("store %s: indexed %d of %d rows", d.path, t.seq, head.Seq)
			}
		}
		x.out = &outcome{}
		x.out.next = x.prepare(t.seq, t.next)
		x.landed()
		if err := d.drive(ctx, all || t.seq < head.Seq); err != nil {
			return err
		}
	}
	if s := x.cur.Load(); all && len(s.mem) > 0 {
		x.beginFlush(s)
	}
	return d.drive(ctx, all)
}

// drive does the work that is due, in transactions of its own: runs that memory waits for,
// and with merge all that there is.
func (d *database) drive(ctx context.Context, merge bool) error {
	for x := d.index; ; {
		x.plan()
		if x.flush == nil && (!merge || len(x.merges) == 0 && len(x.dead) == 0) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return world.Wrap(world.KindTimeout, openOp, context.Cause(ctx))
		}
		if err := d.driveOnce(); err != nil {
			return err
		}
	}
}

func (d *database) driveOnce() error {
	x := d.index
	if _, err := d.Begin(nil); err != nil {
		return err
	}
	defer func() {
		if d.writer != nil && !d.writer.AutocommitEnabled() {
			_ = d.writer.do("ROLLBACK", nil)
		}
	}()
	if _, err := x.work(d.writer, rebuildSlice, false); err != nil {
		if x.stuck != nil {
			return err
		}
		if x.fault(err); x.stuck == nil {
			return err
		}
		return nil // runs are not merged any more, and that is all
	}
	s := x.cur.Load()
	x.out.next = x.prepare(s.seq, s.next)
	if err := d.writer.do("COMMIT", nil); err != nil {
		x.lost()
		return err
	}
	x.landed()
	return nil
}

// Rebuilt tells what Reindex did.
type Rebuilt struct {
	Entries int64            `json:"entries"` // of the log
	Rows    int64            `json:"rows"`    // places in the order of writing that were read
	Indexes map[string]int64 `json:"indexes"` // rows written, by index
}

// Reindex makes all that is derived in a store anew, under its writer lock. A store that
// is open elsewhere is KindLocked, one that is not there KindNotFound. Stopped by ctx, or
// by a crash, it leaves a store that indexes the rest when it is opened.
func Reindex(ctx context.Context, o Options) (done Rebuilt, err error) {
	d, exists, err := locked(ctx, &o)
	if err != nil {
		return done, err
	}
	defer func() { err = d.giveUp(err) }()
	if !exists {
		return done, &world.Error{Op: "sqlite.Reindex", Kind: world.KindNotFound, Subject: d.path, Msg: "there is no store"}
	}
	if err := d.holdInode(); err != nil {
		return done, err
	}
	if err := d.connectChecked(); err != nil {
		return done, err
	}
	if err := d.emptyIndexes(""); err != nil {
		return done, err
	}
	if err := d.checkTables(); err != nil {
		return done, err
	}
	if err := d.writer.do("REINDEX", nil); err != nil {
		return done, err
	}
	head, err := d.checkTruth()
	if err != nil {
		return done, err
	}
	if err := d.catchUp(ctx, head, true); err != nil {
		return done, err
	}
	done = Rebuilt{Entries: head.Next, Rows: head.Seq, Indexes: make(map[string]int64)}
	for _, r := range d.index.cur.Load().runs.runs {
		for p := range parts {
			done.Indexes[p.String()] += r.parts[p].rows
		}
	}
	return done, nil
}
