package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/cli/shell"
	"ailang.dev/world/host/cli/worktree"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/world"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	db, bind, root, public, ailang, config string
	replica                                string
	private, json                          bool
	tools                                  toolFlags
	watch                                  watchFlags
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve --db FILE",
		Short: "Serve a store to agents on this machine",
		Long: `Serves the store over MCP (/mcp/), A2A (/a2a/) and REST (/v1), and answers operators on
the socket beside it, so that sessions can be minted and transitions published while it
runs. A store that is not there is created, without a genesis.

Once bound it prints one line to stdout, "ailang-worldd listening on URL". All else goes to
stderr. An interrupt or SIGTERM lets calls under way end, then exits 0.

Without --workspace-root no workspace effect can be performed. Without --ailang-bin no .ail
source can be published; those that were run on if their binary is in the archive beside the
store.

With --tool-ailang-bin agents can check and run AILANG programs of their worktrees with that
toolchain, and search its builtins and the sources in --examples-dir. It has no part in how
transitions run. It is copied into the archive, and runs confined, as commands do.

Without --config no command can be run. The file declares which ones can, and what is
read-only in worktrees beside what is built in; docs/configuration.md lists its keys. A command
runs confined: at the start it is tried what this host can enforce, and a configuration whose
commands cannot be confined is refused with what is missing and how to get it.

With --replica the workbench reads a streaming copy of the database, and says on each page how
many entries it is behind; while the copy is away it reads the database itself. All else,
/v1 included, always reads the database.

Operators look at /workbench in a browser, and Prometheus reads /metrics. Traces are sent where
OTEL_EXPORTER_OTLP_ENDPOINT says, over http/protobuf; without the standard OTEL variables none are made.`,
		Example: `  ailang-worldd serve --db world.db --workspace-root ~/worktrees
  ailang-worldd serve --db world.db --bind 127.0.0.1:0
  ailang-worldd serve --db world.db --ailang-bin /usr/local/bin/ailang
  ailang-worldd serve --db world.db --workspace-root ~/worktrees --config world.yaml
  ailang-worldd serve --db world.db --workspace-root ~/worktrees --tool-ailang-bin /usr/local/bin/ailang`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, f) },
	}
	dbFlag(c, &f.db)
	bindFlag(c, &f.bind)
	c.Flags().StringVar(&f.root, "workspace-root", "", "`FOLDER` that holds a worktree for each episode")
	ailangFlag(c, &f.ailang)
	configFlag(c, &f.config)
	f.tools.add(c)
	f.watch.add(c)
	c.Flags().BoolVar(&f.private, "private-reads", false, "let only sessions read /v1, health included, /workbench and /metrics")
	c.Flags().StringVar(&f.replica, "replica", "", "postgres:// `URL` of a copy of the database, for the workbench to read")
	c.Flags().StringVar(&f.public, "public-url", "", "`URL` of a reverse proxy: opens the agents' doors, and those alone, under its name")
	jsonFlag(c, &f.json)
	return c
}

func bindFlag(c *cobra.Command, bind *string) {
	c.Flags().StringVar(bind, "bind", DefaultBind, "loopback `HOST:PORT` to listen on; port 0 picks one")
}

func (a *app) serve(cmd *cobra.Command, f serveFlags) error {
	db, err := a.dbPath(cmd, f.db)
	if err != nil {
		return err
	}
	return fatal(a.serveStore(cmd.Context(), db, f))
}

func (a *app) serveStore(ctx context.Context, db string, f serveFlags) error {
	if err := checkStore(db, true); err != nil {
		return err
	}
	end, err := f.watch.begin(ctx, a)
	if err != nil {
		return err
	}
	defer end()
	cfg := daemon.Config{
		Bind: f.bind, WorkspaceRoot: a.path(f.root), Git: worktree.FindGit(a.env.Environ), PrivateReads: f.private, PublicURL: f.public, Replica: f.replica,
	}
	f.tools.set(a, &cfg)
	if err := a.configure(&cfg, f.config); err != nil {
		return err
	}
	fresh := a.absent(ctx, db)
	core, err := a.openCore(ctx, db, f.ailang)
	if err != nil {
		return err
	}
	defer a.closeCore(core)
	if fresh {
		fmt.Fprintf(a.stderr, "created the store %s; it needs a genesis before the first call: ailang-worldd genesis --db %s\n", postgres.Display(db), shell.Word(postgres.Display(db)))
	}
	return a.run(ctx, core, cfg, func(url string) { a.listening(url, f.json) })
}

// absent tells whether there is no store yet.
func (a *app) absent(ctx context.Context, db string) bool {
	if postgres.IsURL(db) {
		_, err := postgres.ReadID(ctx, postgres.Options{URL: db})
		return err != nil && world.KindOf(err) == world.KindNotFound
	}
	_, err := os.Stat(db)
	return errors.Is(err, fs.ErrNotExist)
}

// openCore opens a store that this process is going to serve.
func (a *app) openCore(ctx context.Context, db, ailangBin string) (*daemon.Core, error) {
	defer a.progress("opening the store " + postgres.Display(db))()
	core, err := daemon.OpenCore(ctx, a.coreConfig(db, ailangBin))
	if world.KindOf(err) == world.KindLocked {
		return nil, a.servedAlready(ctx, db, err)
	}
	return core, err
}

// servedAlready says more of a locked store: where its daemon listens, if it is one.
func (a *app) servedAlready(ctx context.Context, db string, locked error) error {
	ops, err := a.dial(ctx, db)
	if err != nil {
		return locked
	}
	defer ops.Close()
	st, err := ops.Status(ctx)
	if err != nil {
		return locked
	}
	e := failf("the store %s is served already, at %s by process %d", db, st.URL, st.PID).
		hinted("use that daemon, or end it first: kill %d", st.PID)
	e.kind, e.cause = world.KindLocked.String(), locked
	return e
}

// run makes a daemon of a core and lets it serve until ctx ends.
func (a *app) run(ctx context.Context, core *daemon.Core, cfg daemon.Config, ready func(url string)) error {
	dir, err := a.runtimeDir()
	if err != nil {
		return err
	}
	cfg.RuntimeDir = dir
	a.serving.Store(true)
	// Whoever read our output may go away; that must not end calls under way.
	signal.Ignore(syscall.SIGPIPE)
	a.env.tuneMemory()
	d, err := daemon.New(ctx, core, cfg)
	if err != nil {
		return err
	}
	return d.Run(ctx, ready)
}

func (a *app) closeCore(core *daemon.Core) {
	if err := core.Close(); err != nil {
		fmt.Fprintf(a.stderr, "closing the store: %v\n", err)
	}
}

// listening prints the one line of serve.
func (a *app) listening(url string, asJSON bool) {
	if asJSON {
		writeJSON(a.stdout, struct {
			URL string `json:"url"`
			PID int    `json:"pid"`
		}{url, os.Getpid()})
		return
	}
	fmt.Fprintf(a.stdout, "ailang-worldd listening on %s\n", url)
}
