// Command bench measures this daemon beside the disk it writes to, beside MCP servers that
// store nothing, and beside itself at other sizes, all in one run, in rounds that take
// turns. It owns how a figure is taken and printed; it never asserts a speed, and a figure
// whose answers were not all right ends the run. How to read what it prints: README.md.
// Measures the paths of spec/07-calls.md, spec/08-mcp.md, spec/09-a2a.md and
// spec/10-rest.md.
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
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the whole program. Verbs that it starts itself with come first: they are the
// servers it measures.
func run(ctx context.Context, exe string, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		if verb := verbs[args[0]]; verb != nil {
			return verb(ctx, exe, args[1:], stdout, stderr)
		}
	}
	opt, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	b := &bench{opt: opt, exe: exe, log: stderr}
	if err := b.open(); err != nil {
		return err
	}
	defer b.close()
	if opt.profile != "" {
		return b.profiles(ctx)
	}
	rep, err := b.measure(ctx)
	if err != nil {
		return err
	}
	return rep.publish(stdout, opt.json, opt.write)
}

// options is what a run is asked for.
type options struct {
	short    bool
	rounds   int
	slice    time.Duration // how long one thing is measured before the next takes its turn
	sizes    [2]int64      // entries of the two stores that are compared
	page     int64         // entries of a page that is read
	callers  []int
	starts   int
	cache    string // where stores are kept between runs, and scratch files
	worldd   string // the daemon's binary; "" runs the daemon out of this one
	against  string // another build's binary
	sections []string
	profile  string
	json     string
	write    string
}

// The usual, and the smoke run.
const (
	usualRounds = 5
	usualSlice  = 2 * time.Second
	usualLarge  = 1_000_000
	usualSmall  = 1_000
	shortSlice  = 40 * time.Millisecond
	usualPage   = 500
	shortLarge  = 300
	shortSmall  = 100
	shortPage   = 50
)

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&o.short, "short", false, "a smoke run of seconds: its figures mean nothing")
	fs.IntVar(&o.rounds, "rounds", usualRounds, "rounds of each comparison")
	fs.DurationVar(&o.slice, "slice", usualSlice, "how long one thing is measured in a round")
	large := fs.Int64("entries", usualLarge, "entries of the large store")
	fs.StringVar(&o.cache, "cache", filepath.Join("bin", "bench"), "`folder` for the large store, kept between runs, and for scratch files; its disk is what is measured")
	fs.StringVar(&o.worldd, "worldd", "", "the daemon's `binary`; empty runs the same code out of this one")
	fs.StringVar(&o.against, "against", "", "another build's `binary`, to be measured beside the daemon by sections one and many")
	fs.StringVar(&only, "only", "", "sections to run, comma-separated, of "+strings.Join(sectionNames(), ","))
	fs.StringVar(&o.profile, "profile", "", "measure nothing, write CPU and allocation profiles of the call path into `folder`")
	fs.StringVar(&o.json, "json", "", "write all rounds into `file`")
	fs.StringVar(&o.write, "write", "", "put the tables between the markers of this Markdown `file`")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	o.sizes, o.page, o.callers, o.starts = [2]int64{usualSmall, *large}, usualPage, []int{1, 8, 64}, 2*o.rounds+1
	if o.short {
		o.rounds, o.slice, o.starts = 1, shortSlice, 1
		o.sizes, o.page, o.callers = [2]int64{shortSmall, shortLarge}, shortPage, []int{1, 4}
	}
	if o.rounds < 1 || o.slice <= 0 || o.sizes[1] <= o.sizes[0] {
		return o, fmt.Errorf("rounds and slice must be positive, entries more than %d", o.sizes[0])
	}
	return o, o.choose(only)
}

func (o *options) choose(only string) error {
	if only == "" {
		o.sections = sectionNames()
		return nil
	}
	for name := range strings.SplitSeq(only, ",") {
		if !slices.Contains(sectionNames(), name) {
			return fmt.Errorf("no section %q: there are %s", name, strings.Join(sectionNames(), ","))
		}
		o.sections = append(o.sections, name)
	}
	return nil
}

// section is one comparison.
type section struct {
	name string
	run  func(*bench, context.Context) ([]table, error)
}

// sections in the order they are printed.
func sections() []section {
	return []section{
		{"one", (*bench).oneCaller},
		{"many", (*bench).manyCallers},
		{"tasks", (*bench).taskCalls},
		{"postgres", (*bench).database},
		{"start", (*bench).starting},
		{"size", (*bench).bySize},
		{"history", (*bench).history},
		{"engine", (*bench).engines},
	}
}

func sectionNames() []string {
	var names []string
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

// bench is one run.
type bench struct {
	opt     options
	exe     string // this program
	log     io.Writer
	scratch string // inside the cache, removed at the end
	nums    numbers
	kept    *[2]*site // the small and the large store, once they are ready
}

func (b *bench) open() error {
	if err := os.MkdirAll(b.opt.cache, 0o700); err != nil {
		return err
	}
	cache, err := filepath.Abs(b.opt.cache)
	if err != nil {
		return err
	}
	b.opt.cache = cache
	if b.scratch, err = os.MkdirTemp(cache, "run-"); err != nil {
		return err
	}
	b.nums = newNumbers()
	return nil
}

func (b *bench) close() {
	if err := os.RemoveAll(b.scratch); err != nil {
		b.logf("scratch files stay: %v", err)
	}
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(b.log, format+"\n", args...)
}

func (b *bench) measure(ctx context.Context) (*report, error) {
	rep := &report{Machine: machine(b.opt.cache), Short: b.opt.short, Rounds: b.opt.rounds, Slice: b.opt.slice.String()}
	for _, s := range sections() {
		if !slices.Contains(b.opt.sections, s.name) {
			continue
		}
		begun := time.Now()
		tables, err := s.run(b, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		b.logf("section %s took %v", s.name, time.Since(begun).Round(time.Second/10))
		rep.Tables = append(rep.Tables, tables...)
	}
	return rep, nil
}
