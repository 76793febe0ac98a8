package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/capsule/ailang"
	"ailang.dev/world/host/cli/shell"
	"ailang.dev/world/host/client"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/world"
)

// How long a store that another process holds is waited for when that process does not
// answer operators: a command that is about to end, or a daemon about to listen.
const (
	lockPatience = 10 * time.Second
	lockEvery    = 50 * time.Millisecond
)

// dbFlag adds --db.
func dbFlag(cmd *cobra.Command, db *string) {
	cmd.Flags().StringVar(db, "db", "", "the store's `FILE`, or postgres://USER@HOST/DATABASE")
}

// dbPath checks --db, and makes a path absolute.
func (a *app) dbPath(cmd *cobra.Command, db string) (string, error) {
	switch {
	case db == "":
		return "", usage(cmd, "--db FILE is needed: which store?")
	case postgres.IsURL(db):
		if _, err := postgres.ParseTarget(db); err != nil {
			return "", usage(cmd, "--db: %s", world.Message(err))
		}
		return db, nil
	case strings.Contains(db, "://"):
		return "", usage(cmd, "--db takes the path of a file, or a postgres:// URL")
	}
	return a.path(db), nil
}

// ailangFlag adds --ailang-bin.
func ailangFlag(c *cobra.Command, bin *string) {
	c.Flags().StringVar(bin, "ailang-bin", "", "the AILANG `BINARY` that checks and runs .ail sources")
}

// toolFlags are the flags of the AILANG toolchain.
type toolFlags struct{ bin, examples string }

func (f *toolFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.bin, "tool-ailang-bin", "", "the AILANG `BINARY` that agents check and run programs with, confined")
	c.Flags().StringVar(&f.examples, "examples-dir", "", "`FOLDER` of AILANG sources that agents may search")
}

// set adds the toolchain to a daemon's configuration.
func (f *toolFlags) set(a *app, cfg *daemon.Config) {
	cfg.ToolAilangBin, cfg.ExamplesDir = a.path(f.bin), a.path(f.examples)
}

// coreConfig is how this program opens a store; ailangBin is "" for none.
func (a *app) coreConfig(db, ailangBin string) daemon.CoreConfig {
	home, _ := a.dataHome("") // what needs one and has none says so
	cfg := daemon.CoreConfig{DB: db, DataDir: home, AilangBin: a.path(ailangBin), TempDir: a.env.Get("TMPDIR"), Logf: a.tell, Trace: a.trace, CallLog: a.log}
	if a.env.Exe != "" {
		cfg.WorkerCommand = []string{a.env.Exe, workerName}
	}
	return cfg
}

// checkStore tells what is wrong with a store's path before it is opened. create allows
// that nothing is there yet.
func checkStore(db string, create bool) error {
	if postgres.IsURL(db) {
		return nil // it is opened to find out
	}
	st, err := os.Stat(db)
	switch {
	case err == nil && st.IsDir():
		return failf("%s is a folder, not a store", db).hinted("name a file in it: --db %s", shell.Word(filepath.Join(db, "world.db")))
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return failf("cannot open the store %s: %v", db, bareIO(err))
	case !create:
		return &cliError{kind: world.KindNotFound.String(), msg: "no store at " + db,
			hint: "create one with `ailang-worldd genesis --db " + shell.Word(db) + "`"}
	}
	if dir := filepath.Dir(db); !isFolder(dir) {
		return failf("cannot make a store in %s: there is no such folder", dir).hinted("mkdir -p %s", shell.Word(dir))
	}
	return nil
}

func isFolder(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.IsDir()
}

// openOps is the one way to a store for verbs that write: opened directly while no process
// holds it, else through the admin socket of the daemon that does. The caller closes it.
func (a *app) openOps(ctx context.Context, db string, create bool) (admin.Ops, error) {
	return a.openOpsWith(ctx, db, create, "")
}

// openOpsWith is openOps for verbs that take sources. A store that is opened directly gets
// the AILANG binary; a daemon has its own, which must be the same one.
func (a *app) openOpsWith(ctx context.Context, db string, create bool, ailangBin string) (admin.Ops, error) {
	if err := checkStore(db, create); err != nil {
		return nil, err
	}
	defer a.progress("waiting for the store " + postgres.Display(db))()
	if postgres.IsURL(db) {
		return a.openShared(ctx, db, create, ailangBin)
	}
	until := time.Now().Add(lockPatience)
	for {
		core, err := daemon.OpenCore(ctx, a.coreConfig(db, ailangBin))
		if err == nil {
			return core.Ops(""), nil
		}
		if world.KindOf(err) != world.KindLocked {
			return nil, err
		}
		ops, dialErr := a.dial(ctx, db)
		if dialErr == nil {
			if err := a.sameAilang(ctx, ops, ailangBin); err != nil {
				ops.Close()
				return nil, err
			}
			return ops, nil
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return nil, lockedError(err, dialErr)
		}
		select {
		case <-time.After(lockEvery):
		case <-ctx.Done():
		}
	}
}

// openShared is openOpsWith for a world that several processes may have open: the daemon of this
// machine that serves it is asked if there is one, since it knows more than the database does;
// else the database itself.
func (a *app) openShared(ctx context.Context, db string, create bool, ailangBin string) (admin.Ops, error) {
	if ops, err := a.dial(ctx, db); err == nil {
		if err := a.sameAilang(ctx, ops, ailangBin); err != nil {
			ops.Close()
			return nil, err
		}
		return ops, nil
	}
	if !create {
		if _, err := postgres.ReadID(ctx, postgres.Options{URL: db, Logf: a.tell}); err != nil {
			return nil, err
		}
	}
	core, err := daemon.OpenCore(ctx, a.coreConfig(db, ailangBin))
	if err != nil {
		return nil, err
	}
	return core.Ops(""), nil
}

// beside is the path that what stands beside a store is named after.
func (a *app) beside(ctx context.Context, db string) (string, error) {
	if !postgres.IsURL(db) {
		return db, nil
	}
	id, err := postgres.ReadID(ctx, postgres.Options{URL: db, Logf: a.tell})
	if err != nil {
		return "", err
	}
	home, err := a.dataHome("")
	if err != nil {
		return "", err
	}
	return daemon.Beside(home, id)
}

// sameAilang refuses a daemon that has another AILANG binary than was asked for: its own
// would decide.
func (a *app) sameAilang(ctx context.Context, ops admin.Ops, ailangBin string) error {
	if ailangBin == "" {
		return nil
	}
	want, err := ailang.RefOf(a.path(ailangBin))
	if err != nil {
		return err
	}
	st, err := ops.Status(ctx)
	if err != nil || st.Interpreter == want {
		return err
	}
	has := "none"
	if !st.Interpreter.IsNone() {
		has = st.Interpreter.String()
	}
	return failf("the daemon that serves the store (process %d) has another AILANG binary: %s, and --ailang-bin is %s", st.PID, has, want).
		hinted("leave --ailang-bin to use the daemon's, or serve the store with this one")
}

// dial asks for the daemon of a store.
func (a *app) dial(ctx context.Context, db string) (admin.Ops, error) {
	dir, noDir := a.runtimeDir()
	socket, err := admin.SocketPath(postgres.Display(db), dir)
	switch {
	case err != nil:
		return nil, err
	case !filepath.IsAbs(socket): // it is needed, and there is none
		return nil, noDir
	}
	ops, err := client.DialAdmin(ctx, socket)
	if err != nil {
		return nil, err
	}
	return ops, nil
}

// lockedError says who holds a store, and that it does not answer.
func lockedError(locked, dial error) error {
	return &cliError{kind: world.KindLocked.String(), msg: fmt.Sprintf("%s, and it does not answer operators (%v)", describe(locked).Message, dial),
		hint: "if it is a daemon that is starting, try again; else end that process first", cause: locked}
}
