package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// followEvery is how often a log that is followed is looked at.
const followEvery = 500 * time.Millisecond

func (a *app) logTailCommand() *cobra.Command {
	var db string
	var follow, raw bool
	var n int64
	c := &cobra.Command{
		Use:   "tail [--db FILE] [-n N] [--follow] [--raw]",
		Short: "Show the newest calls, a line each, and go on with --follow",
		Long: `Shows the newest entries, one line each: index, the beginning of the entry's hash, surface,
episode, tool, each effect with how it ended. --raw prints the whole chain of each as one
line of JSON. --follow goes on as calls come in, over restarts of the daemon, until it is
stopped.`,
		Example: `  ailang-worldd log tail -n 20 --follow`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 0 {
				return usage(cmd, "-n must not be negative")
			}
			path, err := a.readPath(cmd, db)
			if err != nil {
				return err
			}
			t := &tail{a: a, path: path, raw: raw, first: n}
			if !follow {
				return t.look(cmd.Context())
			}
			return t.follow(cmd.Context())
		},
	}
	readFlag(c, &db)
	c.Flags().Int64VarP(&n, "lines", "n", 10, "how many entries are shown first, `N`")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as calls come in")
	c.Flags().BoolVar(&raw, "raw", false, "print each entry's whole chain, a line of JSON each")
	c.Flags().BoolVar(&raw, "json", false, "the same as --raw")
	return c
}

// tail is how far a log was shown.
type tail struct {
	a     *app
	path  string
	raw   bool
	first int64 // how many before the end are shown at first
	began bool
	next  int64 // the index that is shown next
}

// look shows what is new. Each look is at a moment of its own: a store that is kept open
// for reading would keep its daemon from tidying up.
func (t *tail) look(ctx context.Context) error {
	s, err := daemon.OpenReadOnly(ctx, t.a.coreConfig(t.path, ""))
	if err != nil {
		return err
	}
	defer s.Close()
	head, err := s.Head(ctx)
	if err != nil && world.KindOf(err) != world.KindNoWorld {
		return err
	}
	if !t.began {
		t.began, t.next = true, max(0, head.Next-t.first)
	}
	for ; t.next < head.Next; t.next++ {
		if err := t.show(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (t *tail) show(ctx context.Context, s store.Store) error {
	c, err := provenance.Explain(ctx, s, t.next)
	if err != nil && world.KindOf(err) == world.KindIntegrity {
		if t.raw {
			return writeJSON(t.a.stdout, map[string]any{"index": t.next, "problem": describe(err).Message})
		}
		_, err = fmt.Fprintf(t.a.stdout, "%6d  ✗ cannot be read: %s\n", t.next, printable(describe(err).Message, false))
		return err
	}
	if err != nil {
		return err
	}
	if t.raw {
		return writeJSON(t.a.stdout, c)
	}
	_, err = fmt.Fprintln(t.a.stdout, summary(c))
	return err
}

// follow looks until it is stopped. A store that cannot be opened now is tried again: its
// daemon may be making it, or it is being restored.
func (t *tail) follow(ctx context.Context) error {
	told := false
	for {
		err := t.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case t.a.stdout.err != nil:
			return t.a.stdout.err
		case err != nil && !told:
			told = true
			t.a.tell("the log cannot be read now, and is tried again: %v", err)
		case err == nil:
			told = false
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return nil
		}
	}
}
