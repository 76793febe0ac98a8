package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

func (a *app) storeCopyCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Move a world to another store: from a file to a database, or back",
		Long: `Copies every row of the store FROM into the store TO, which must not be there, or have
nothing written in it, and keeps the store's id. Each is a FILE, or
postgres://USER@HOST/DATABASE with ?schema=NAME for one of several worlds. The archive of
binaries and the corpora that stand beside FROM are copied too.

FROM must have no daemon. Each row is proved as it is read, and one that does not prove itself
ends the copy. If it ends early, TO is as it was before. FROM is not changed: once ` + "`verify\n--deep`" + ` agrees on TO, serve that one and put the other away, since each would go on
with a log of its own.`,
		Example: `  ailang-worldd store copy world.db 'postgres://world@db.example.org/worlds?schema=team'
  ailang-worldd store copy 'postgres://world@db.example.org/worlds?schema=team' world.db`,
		Args: exactly(2, "the stores FROM and TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.dbPath(cmd, args[0])
			if err != nil {
				return err
			}
			to, err := a.dbPath(cmd, args[1])
			if err != nil {
				return err
			}
			if err := checkStore(from, false); err != nil {
				return err
			}
			return a.copyStore(cmd.Context(), from, to, asJSON)
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// dumper is what a store that can be moved gives.
type dumper interface {
	store.Store
	Dump(ctx context.Context, head func(sqlstore.HeadRow) error, v *sqlstore.Visitor) error
}

func (a *app) copyStore(ctx context.Context, from, to string, asJSON bool) error {
	src, err := a.openSource(ctx, from)
	if err != nil {
		return err
	}
	defer src.Close()
	var rows, entries atomic.Int64
	stop := a.tellCopied(&rows)
	dump := func(head func(sqlstore.HeadRow) error, v *sqlstore.Visitor) error {
		var was sqlstore.HeadRow
		if err := src.Dump(ctx, func(h sqlstore.HeadRow) error { was = h; return head(h) }, counted(v, &rows)); err != nil {
			return err
		}
		entries.Store(was.Next)
		return a.undisturbed(ctx, from, was.Batch)
	}
	if postgres.IsURL(to) {
		err = postgres.Load(ctx, postgres.Options{URL: to, Logf: a.tell}, src.ID(), dump)
	} else {
		err = sqlite.Load(ctx, sqlite.Options{Path: to, Logf: a.tell}, src.ID(), dump)
	}
	stop()
	if err != nil {
		return err
	}
	if err := a.copyBeside(ctx, from, to); err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.stdout, map[string]any{"store": src.ID(), "entries": entries.Load(), "rows": rows.Load()})
	}
	fmt.Fprintf(a.stdout, "copied %d entries, %d rows\n", entries.Load(), rows.Load())
	fmt.Fprintf(a.stderr, "next: ailang-worldd verify --deep%s\n", withDB(to))
	return nil
}

// openSource opens a store that nobody writes, and keeps a file's lock while it is copied.
func (a *app) openSource(ctx context.Context, from string) (dumper, error) {
	if !postgres.IsURL(from) {
		s, err := sqlite.Open(ctx, sqlite.Options{Path: from, Logf: a.tell})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	if err := a.undisturbed(ctx, from, anyBatch); err != nil {
		return nil, err
	}
	s, err := postgres.OpenReadOnly(ctx, postgres.Options{URL: from, Logf: a.tell})
	if err != nil {
		return nil, err
	}
	return s, nil
}

const anyBatch = -1

// undisturbed refuses a database that a daemon has open, or in which something was written after
// batch: what is copied is as it was before. A file's lock keeps daemons out.
func (a *app) undisturbed(ctx context.Context, from string, batch int64) error {
	if !postgres.IsURL(from) {
		return nil
	}
	n, now, err := postgres.Writers(ctx, postgres.Options{URL: from, Logf: a.tell})
	var e *cliError
	switch {
	case err != nil:
		return err
	case n > 0:
		e = failf("the world in %s has %d daemon%s", postgres.Display(from), n, plural(int(n))).
			hinted("end them first; one that was killed is forgotten after %v", postgres.WriterTTL)
	case batch != anyBatch && batch != now:
		e = failf("something was written to the world in %s while it was copied", postgres.Display(from)).
			hinted("copy it again while no daemon has it")
	default:
		return nil
	}
	e.kind = world.KindLocked.String()
	return e
}

// counted counts the rows that are shown to v.
func counted(v *sqlstore.Visitor, n *atomic.Int64) *sqlstore.Visitor {
	return &sqlstore.Visitor{
		Object:   func(r *sqlstore.ObjectRow, err error) error { n.Add(1); return v.Object(r, err) },
		Entry:    func(r *sqlstore.EntryRow, err error) error { n.Add(1); return v.Entry(r, err) },
		Journal:  func(r *sqlstore.JournalRow, err error) error { n.Add(1); return v.Journal(r, err) },
		Registry: func(r *sqlstore.RegistryRow, err error) error { n.Add(1); return v.Registry(r, err) },
		Session:  func(r *sqlstore.SessionRow, err error) error { n.Add(1); return v.Session(r, err) },
		Spend:    func(r *sqlstore.SpendRow, err error) error { n.Add(1); return v.Spend(r, err) },
		Kept:     func(r *sqlstore.KeptRow, err error) error { n.Add(1); return v.Kept(r, err) },
		Pending:  func(s sqlstore.Seq) error { n.Add(1); return v.Pending(s) },
		Derived:  v.Derived,
	}
}

// tellCopied tells on stderr how far a copy is, once a second.
func (a *app) tellCopied(rows *atomic.Int64) (stop func()) {
	done := make(chan struct{})
	tick := time.NewTicker(progressAfter)
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(a.stderr, "%d rows copied\n", rows.Load())
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// copyBeside copies what stands beside a store, where nothing is yet.
func (a *app) copyBeside(ctx context.Context, from, to string) error {
	src, err := a.beside(ctx, from)
	if err != nil {
		return err
	}
	dst, err := a.beside(ctx, to)
	if err != nil {
		return err
	}
	folders := map[string]string{src + daemon.ArchiveSuffix: dst + daemon.ArchiveSuffix, corpus.Dir(src): corpus.Dir(dst)}
	for s, d := range folders {
		if _, err := os.Stat(s); s == d || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := os.Stat(d); err == nil {
			fmt.Fprintf(a.stderr, "%s is there already, and is left as it is\n", d)
			continue
		}
		if err := copyFolder(s, d); err != nil {
			return failf("the world is copied, but not %s: %v", s, err)
		}
	}
	return nil
}

// copyFolder makes d, for this user alone, a copy of s: whole or not at all.
func copyFolder(s, d string) error {
	if err := os.MkdirAll(filepath.Dir(d), 0o700); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(d), filepath.Base(d)+".*") // 0700, as what is copied is
	if err != nil {
		return err
	}
	if err = os.CopyFS(part, os.DirFS(s)); err == nil {
		err = os.Rename(part, d)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return nil
}
