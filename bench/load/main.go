// Command load puts a daemon under mixed traffic, as many callers make it at once over
// every surface, and says what it bore: capacity in a closed loop, latency at a fixed rate,
// what is refused when there is too much and how soon it is over, and whether memory and
// descriptors stay as they are. It owns the traffic, the reckoning and the pictures; it
// asserts no speed, and counts every call that was acknowledged against the log. How to
// read what it prints: bench/README.md. Measures the paths of spec/07-calls.md,
// spec/08-mcp.md, spec/09-a2a.md, spec/10-rest.md, spec/18-workbench.md and
// spec/19-tasks.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ailang.dev/world/host/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	exe, err := os.Executable()
	if err == nil {
		err = run(ctx, exe, os.Args[1:], os.Stdout, os.Stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// The verbs that this program starts itself with: the daemon's command line.
const (
	verbWorld  = "world"
	verbWorker = "worker"
)

// run is the whole program.
func run(ctx context.Context, exe string, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && (args[0] == verbWorld || args[0] == verbWorker) {
		if args[0] == verbWorld {
			args = args[1:]
		}
		return commandLine(ctx, exe, args, stdout, stderr)
	}
	opt, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	l := &loader{opt: opt, exe: exe, log: stderr}
	sum, err := l.run(ctx)
	if sum == nil {
		return err
	}
	// What was measured is told too where the proof of the store was broken off.
	return errors.Join(err, sum.publish(stdout, opt), sum.verdict())
}

func commandLine(ctx context.Context, exe string, args []string, stdout, stderr io.Writer) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	env := cli.Env{Dir: dir, Environ: os.Environ(), Exe: exe}
	if code := cli.Run(ctx, args, os.Stdin, stdout, stderr, env); code != cli.ExitOK {
		return fmt.Errorf("exit %d", code)
	}
	return nil
}

// options is what a run is asked for.
type options struct {
	db, worldd, scratch, plan string
	runtime                   string
	parts                     []string
	mix                       []kind
	sessions, users, callers  int
	most                      int
	warm, slice, hold         time.Duration
	overload, recovery        time.Duration
	rate, share               float64
	factors                   []float64
	window                    time.Duration
	title, out                string
	json, verify, keep        bool
}

// The usual.
const (
	usualSessions = 16
	usualUsers    = 8
	usualCallers  = 64
	usualMost     = 512
	usualShare    = 0.8
)

// Bounds of what can be asked for.
const (
	maxSessions = 4096
	maxCallers  = 4096
	maxInFlight = 1 << 14
	maxRate     = 1e6
	maxPart     = 24 * time.Hour
)

// The parts of a run, in their order.
const (
	partCapacity = "capacity"
	partSteady   = "steady" // only if asked for
	partHold     = "hold"
	partOverload = "overload"
	partWarm     = "warm-up" // always
)

const usage = `load puts a daemon under mixed traffic and says what it bore.

  load                                       a daemon of its own, in a temporary folder
  load -worldd bin/ailang-worldd             the same, of this binary
  load -db world.db                          the running daemon of that store
  load -parts capacity,steady,hold -hold 30m a soak: four fifths of what it bears without a refusal, for half an hour
  load -rate 500 -parts hold                 a rate of your own

Calls at a fixed rate are due at times of a Poisson process, and latency counts from when a call was
due, sent or not; that of a refusal counts from when it was sent. With -db the tools.echo, workspace-write and workspace-read transitions must be
published (transitions publish --pack examples, --pack workspace); sessions and worktrees named
load-… are made, and taken away at the end. What was called stays in the log.

`

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("load", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, usage)
		fs.PrintDefaults()
	}
	parts := fs.String("parts", strings.Join([]string{partCapacity, partHold, partOverload}, ","), "parts to run")
	mix := fs.String("mix", "", "traffic as `kind=weight,…`; empty is all kinds at their usual weights: "+usualMix())
	factors := fs.String("factors", "2,3", "how many times capacity the overloads are")
	fs.StringVar(&o.db, "db", "", "the store's `file` of a running daemon; empty starts one")
	fs.StringVar(&o.runtime, "runtime-dir", os.Getenv("XDG_RUNTIME_DIR"), "`folder` of admin sockets whose store has a long path")
	fs.StringVar(&o.worldd, "worldd", "", "the daemon's `binary` for a daemon of its own; empty runs the same code out of this program")
	fs.StringVar(&o.scratch, "scratch", os.TempDir(), "`folder` for the store of a daemon of its own; its disk is what is written to")
	fs.StringVar(&o.plan, "plan", "", "with -db, the `plan` of users for the task endpoint; empty leaves that endpoint out")
	fs.IntVar(&o.sessions, "sessions", usualSessions, "sessions, each of an episode of its own")
	fs.IntVar(&o.users, "users", usualUsers, "users of the task endpoint")
	fs.IntVar(&o.callers, "callers", usualCallers, "callers of the closed loop")
	fs.IntVar(&o.most, "in-flight", usualMost, "calls at once, at most, of the open loop; one that is due waits here and its time runs")
	fs.DurationVar(&o.warm, "warm", 5*time.Second, "closed loop before anything counts")
	fs.DurationVar(&o.slice, "slice", 15*time.Second, "how long capacity is measured, and each rate of steady")
	fs.DurationVar(&o.hold, "hold", time.Minute, "how long the fixed rate is held")
	fs.DurationVar(&o.overload, "overload", 10*time.Second, "how long each overload lasts")
	fs.DurationVar(&o.recovery, "recovery", 10*time.Second, "how long the held rate goes on after an overload")
	fs.Float64Var(&o.rate, "rate", 0, "calls a second to hold; 0 is -share of the capacity")
	fs.Float64Var(&o.share, "share", usualShare, "part of the capacity that is held")
	fs.DurationVar(&o.window, "window", 5*time.Second, "length of a point in the pictures")
	fs.StringVar(&o.out, "out", "", "`prefix` of files to write: PREFIX.md, PREFIX.json, PREFIX-….svg")
	fs.StringVar(&o.title, "title", "A daemon under load", "what the files are headed with")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.verify, "verify", true, "prove the whole store at the end: verify --deep")
	fs.BoolVar(&o.keep, "keep", false, "leave the store of a daemon of its own")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	o.parts = strings.Split(*parts, ",")
	var err error
	if o.mix, err = parseMix(*mix); err != nil {
		return o, err
	}
	if o.factors, err = parseFactors(*factors); err != nil {
		return o, err
	}
	return o, o.check()
}

func parseFactors(text string) (all []float64, err error) {
	for one := range strings.SplitSeq(text, ",") {
		var f float64
		if _, err := fmt.Sscanf(one, "%g", &f); err != nil || f < 1 || f > 100 {
			return nil, fmt.Errorf("a factor is a number from 1 to 100, not %q", one)
		}
		all = append(all, f)
	}
	return all, nil
}

func (o *options) check() error {
	for _, p := range o.parts {
		if !slices.Contains([]string{partCapacity, partSteady, partHold, partOverload}, p) {
			return fmt.Errorf("no part %q: there are capacity, steady, hold, overload", p)
		}
	}
	if o.db != "" {
		o.mix = slices.DeleteFunc(o.mix, func(k kind) bool { return k.user && o.plan == "" })
	}
	for _, d := range []time.Duration{o.warm, o.slice, o.hold, o.overload, o.recovery, o.window} {
		if d <= 0 || d > maxPart {
			return fmt.Errorf("a length of time must be positive, and at most %v", maxPart)
		}
	}
	switch {
	case o.window > min(o.slice, o.hold):
		return errors.New("a -window is at most as long as -slice and -hold")
	case len(o.mix) == 0:
		return errors.New("the mix holds nothing that can be called here")
	case o.sessions < 1 || o.sessions > maxSessions || o.users < 1 || o.users > maxSessions:
		return fmt.Errorf("sessions and users are from 1 to %d", maxSessions)
	case o.callers < 1 || o.callers > maxCallers || o.most < 1 || o.most > maxInFlight:
		return fmt.Errorf("callers are from 1 to %d, calls in flight to %d", maxCallers, maxInFlight)
	case o.rate < 0 || o.rate > maxRate || o.share <= 0 || o.share > 1:
		return fmt.Errorf("a rate is from 0 to %g, a share above 0 and at most 1", maxRate)
	case !o.has(partCapacity) && (o.rate == 0 || o.has(partSteady)):
		return errors.New("without the part capacity there must be a -rate, and no part steady")
	}
	if o.out != "" {
		return os.MkdirAll(filepath.Dir(o.out), 0o755)
	}
	return nil
}

func (o *options) has(part string) bool { return slices.Contains(o.parts, part) }
