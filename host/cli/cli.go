// Package cli is the command line: every verb of ailang-worldd, its help, its flags, what
// it prints and how it exits. Run is the whole of it; arguments, streams, environment and
// working folder are handed in, so that a test calls it as main does. A verb asks a running
// daemon through host/client, or opens a store that no process holds through host/daemon.
// It never shows a session's credential again once it was minted. Answers spec/11-cli.md.
package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/world"

	"ailang.dev/world/host/tracing"
)

// Env is what the process was given.
type Env struct {
	Dir     string   // working folder, absolute
	Environ []string // KEY=VALUE; of a repeated key the last counts
	Exe     string   // path of this program, for the workers it starts; "" starts none
	// Abort ends the process at once. It is called when a verb that does not serve has not
	// ended patience after its context did: something blocks that no context reaches.
	Abort func()
}

// Get is an environment variable, or "".
func (e Env) Get(key string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(e.Environ[i], key+"="); ok {
			return v
		}
	}
	return ""
}

// Exit codes.
const (
	ExitOK        = 0
	ExitError     = 1 // the command line is wrong, or what it asked for was refused or failed
	ExitFatal     = 2 // serve or up cannot start, or had to stop
	ExitIntegrity = 3 // the store does not prove itself
)

// Default is where a daemon listens, and clients ask, unless told otherwise.
const (
	DefaultBind = "127.0.0.1:7644"
	DefaultAddr = "http://" + DefaultBind
)

// app is one run.
type app struct {
	env    Env
	stdin  io.Reader
	stdout *sink
	stderr *sink

	log   *slog.Logger    // of --log-format json; nil is text
	trace *tracing.Tracer // nil makes none

	serving atomic.Bool // a daemon lets calls under way end, however long they may take
}

// Run does what args, without the program's name, ask for, and gives the exit code. The
// end of ctx stops it: a daemon lets calls under way end first.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env Env) int {
	a := &app{env: env, stdin: stdin, stdout: &sink{w: stdout}, stderr: &sink{w: stderr}}
	root := a.root()
	if args == nil {
		args = []string{} // cobra would take os.Args
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	if env.Abort != nil {
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(patience, a.abortUnlessServing) })
		defer stop()
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil && a.stdout.err != nil {
		err = failf("cannot write to stdout: %v", a.stdout.err)
	}
	if err == nil {
		return ExitOK
	}
	var quiet exitError
	if errors.As(err, &quiet) {
		return int(quiet)
	}
	a.report(cmd, args, err)
	return exitCode(err)
}

// patience is what a verb gets to end by itself after its context has.
const patience = 2 * time.Second

func (a *app) abortUnlessServing() {
	if !a.serving.Load() {
		a.env.Abort()
	}
}

const rootHelp = `ailang-worldd lets agents act on real repositories through published transitions,
within budgets, and keeps an append-only log of who did what and why.

Begin in a git repository:

  ailang-worldd up

makes a store, a worktree and a session, serves, and says how to connect an agent.

Exit codes: 0 done, also where a tool's answer is a refusal (call --strict: 1); 1 wrong
command line, or refused, or failed; 2 the daemon cannot start or had to stop; 3 the store
does not prove itself. Environment: WORLD_ADDR and WORLD_SESSION stand
in for --addr and --session.`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "ailang-worldd",
		Short:         "Let agents act on the world through transitions, and keep the log of it",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          showHelp,
		Args:          cobra.ArbitraryArgs,
		Version:       world.Version, // --version, as everywhere; the verb says more
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%v", err) })
	root.AddGroup(
		&cobra.Group{ID: groupServe, Title: "Serving:"},
		&cobra.Group{ID: groupAdmin, Title: "For operators (with the daemon running or not):"},
		&cobra.Group{ID: groupWhy, Title: "What happened, and is it true (with the daemon running or not):"},
		&cobra.Group{ID: groupClient, Title: "Asking a running daemon:"},
	)
	add(root, groupServe, a.upCommand(), a.serveCommand(), a.setupCommand(), a.doctorCommand())
	add(root, groupAdmin, a.genesisCommand(), a.sessionCommand(), a.tokenCommand(), a.transitionsCommand(), a.approvalsCommand(), a.corpusCommand(), a.storeCommand())
	add(root, groupWhy, a.whyCommand(), a.verifyCommand(), a.replayCommand(), a.episodeCommand(), a.provenanceCommand(), a.exportCommand())
	add(root, groupClient, a.toolsCommand(), a.callCommand(), a.healthCommand(), a.headCommand(), a.worldCommand(),
		a.objectCommand(), a.logCommand(), a.registryCommand(), a.commitCommand())
	add(root, "", a.versionCommand(), a.workerCommand(), a.sandboxInitCommand())
	return root
}

const (
	groupServe  = "serve"
	groupAdmin  = "admin"
	groupWhy    = "why"
	groupClient = "client"
)

func add(parent *cobra.Command, group string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = group
		parent.AddCommand(c)
	}
}

// group makes a command that only holds others.
func group(use, short, long string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: showHelp}
	add(c, "", cmds...)
	return c
}

// showHelp is what a command that only holds others does: it tells of them, or that the
// one asked for is not among them.
func showHelp(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	name := args[0]
	if hexRun.MatchString(name) {
		name = "…" // it may be a credential
	}
	e := usage(cmd, "there is no command %q", name)
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		e.hint = "did you mean `" + cmd.CommandPath() + " " + near[0] + "`?"
	}
	return e
}

// path makes a path of the command line absolute.
func (a *app) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(a.env.Dir, p)
}

// sink writes from any goroutine and remembers the first error.
type sink struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.w.Write(b)
	if err != nil && s.err == nil {
		s.err = err
	}
	return n, err
}
