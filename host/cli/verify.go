package cli

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func (a *app) verifyCommand() *cobra.Command {
	var db, bundle, head string
	var from, to int64
	var deep, asJSON bool
	c := &cobra.Command{
		Use:   "verify [--db FILE] [--from N] [--to M] [--deep] | --bundle FILE",
		Short: "Prove that the record was not altered",
		Long: `Follows every link of every entry: its hash, the entry before it, its world, its record and
all that the record names, hashed again. --deep reads every row of the store too, also
what no entry stands on, and adds up places, spend and open intents. Exit code 3 if
anything does not hold; what still holds is told.

--bundle proves a file that export wrote, alone. It reads the store beside the daemon that
may have it.`,
		Example: `  ailang-worldd verify --deep
  ailang-worldd verify --bundle ep1.bundle`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from < 0 || to < -1 || to >= 0 && to < from {
				return usage(cmd, "--from and --to are indexes of entries, the first not after the last")
			}
			if bundle != "" {
				for _, other := range []string{"db", "from", "to", "deep", "head"} {
					if cmd.Flags().Changed(other) {
						return usage(cmd, "--bundle proves a file whole, and alone: leave --%s", other)
					}
				}
				return a.verifyBundle(cmd.Context(), bundle, asJSON)
			}
			return a.withReader(cmd, db, func(ctx context.Context, s store.Store) error {
				start := time.Now()
				if head != "" {
					if err := a.findHead(ctx, s, head); err != nil {
						return err
					}
				}
				tell := a.ticker("verified", "entries")
				report, err := provenance.Verify(ctx, s, provenance.Scope{From: from, To: to, Deep: deep, Progress: tell})
				if err != nil {
					return err
				}
				return a.reportOf(&report, time.Since(start), asJSON)
			})
		},
	}
	readFlag(c, &db)
	c.Flags().Int64Var(&from, "from", 0, "the first entry, `N`")
	c.Flags().Int64Var(&to, "to", -1, "the last entry, `M`; -1 is the newest")
	c.Flags().StringVar(&head, "head", "", "the `HASH` of an entry that was kept elsewhere: it must still be in the log")
	c.Flags().StringVar(&bundle, "bundle", "", "prove the `FILE` that export wrote, and no store")
	c.Flags().BoolVar(&deep, "deep", false, "read every row of the store too")
	jsonFlag(c, &asJSON)
	return c
}

// findHead looks for an entry by the hash that somebody kept. A log that has it not was cut,
// or is another one; exit code 3.
func (a *app) findHead(ctx context.Context, s store.Store, head string) error {
	found, err := provenance.Resolve(ctx, s, head, 1)
	if err != nil && world.KindOf(err) != world.KindNotFound {
		return err
	}
	if err != nil || found.Is != provenance.IsEntry {
		fmt.Fprintf(a.stdout, "✗ no entry has the hash %s: the log was cut, or is another one\n", printable(head, false))
		return exitError(ExitIntegrity)
	}
	fmt.Fprintf(a.stderr, "entry %d has the hash that was kept\n", found.Entries[0])
	return nil
}

func (a *app) verifyBundle(ctx context.Context, file string, asJSON bool) error {
	start := time.Now()
	f, err := os.Open(a.path(file))
	if err != nil {
		return failf("cannot read the bundle %s: %v", file, bareIO(err))
	}
	defer f.Close()
	b, err := provenance.ReadBundle(f)
	if err != nil {
		return err
	}
	report, err := b.Verify(ctx)
	if err != nil {
		return err
	}
	if !asJSON {
		fmt.Fprintf(a.stdout, "bundle of episode %s of store %s: %d calls\n", printable(b.Header.Episode, false), printable(b.Header.Store, false), b.Header.Calls)
	}
	return a.reportOf(&report, time.Since(start), asJSON)
}

// reportOf prints a report; what does not hold is exit code 3.
func (a *app) reportOf(r *provenance.Report, took time.Duration, asJSON bool) error {
	if asJSON {
		if err := writeJSON(a.stdout, r); err != nil {
			return err
		}
	} else {
		a.showReport(r, took)
	}
	if r.Broken > 0 {
		return exitError(ExitIntegrity)
	}
	return nil
}

func (a *app) showReport(r *provenance.Report, took time.Duration) {
	for _, b := range r.Breaks {
		where := "row"
		if b.Index >= 0 {
			where = "entry " + strconv.FormatInt(b.Index, 10) + ":"
		}
		fmt.Fprintf(a.stdout, "✗ %s %s %s: %s\n", where, printable(b.What, false), cond(b.Ref.IsNone(), "", b.Ref.String()), printable(b.Problem, false))
	}
	if more := r.Broken - int64(len(r.Breaks)); more > 0 {
		fmt.Fprintf(a.stdout, "✗ and %d more\n", more)
	}
	if r.Audit != nil {
		fmt.Fprintf(a.stdout, "%s every row: %d rows, %d effects, %d bytes of payloads\n", cond(r.Audit.Holes == 0, "✓", "✗"), r.Audit.Rows, r.Audit.Effects, r.Audit.Bytes)
	}
	if r.Broken == 0 {
		fmt.Fprintf(a.stdout, "✓ entries %d to %d: %d links hold\n", r.From, r.To, r.Links)
		if !r.Newest.IsNone() {
			fmt.Fprintf(a.stderr, "entry %d is %s; kept elsewhere, it shows later by --head that the log still has it\n", r.To, r.Newest)
		}
	} else {
		fmt.Fprintf(a.stdout, "✗ %d of %d links do not hold; the first %d entries from %d on do\n", r.Broken, r.Links, r.Holds, r.From)
	}
	if took > time.Second {
		fmt.Fprintf(a.stderr, "%.0f entries a second\n", float64(r.Entries)/took.Seconds())
	}
}

// ticker tells progress on stderr, every few seconds.
func (a *app) ticker(did, what string) func(done, total int64) {
	var last atomic.Int64
	last.Store(time.Now().UnixNano())
	return func(done, total int64) {
		now, was := time.Now().UnixNano(), last.Load()
		if now-was > int64(tickEvery) && last.CompareAndSwap(was, now) {
			fmt.Fprintf(a.stderr, "%s %d of %d %s …\n", did, done, total, what)
		}
	}
}

const tickEvery = 3 * time.Second

func (a *app) replayCommand() *cobra.Command {
	var db, episode string
	var asJSON bool
	c := &cobra.Command{
		Use:   "replay INDEX | FIRST-LAST | --episode NAME",
		Short: "Run calls again, and compare",
		Long: `Runs the pure phases of entries again on the engines that they pin, feeds them what the
effects gave then, and demands the same bytes: each plan, and the output. No handler is
called and nothing is written. Where something else comes out it is shown, and the exit
code is 3. An entry whose engine is not in this program is skipped, and told.`,
		Example: `  ailang-worldd replay 12
  ailang-worldd replay 0-500
  ailang-worldd replay --episode ep1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (episode != "") {
				return usage(cmd, "an INDEX, FIRST-LAST or --episode NAME is needed")
			}
			first, last := int64(0), int64(-1)
			if len(args) == 1 {
				var err error
				if first, last, err = indexRange(args[0]); err != nil {
					return usage(cmd, "%v", err)
				}
			}
			return a.withEngines(cmd, db, func(ctx context.Context, core *daemon.Core) error {
				return a.replay(ctx, core, first, last, episode, asJSON)
			})
		},
	}
	readFlag(c, &db)
	c.Flags().StringVar(&episode, "episode", "", "all calls of the episode `NAME`")
	jsonFlag(c, &asJSON)
	return c
}

// indexRange reads N or N-M.
func indexRange(text string) (first, last int64, err error) {
	a, b, ranged := strings.Cut(text, "-")
	if first, err = strconv.ParseInt(a, 10, 64); err == nil {
		last = first
		if ranged {
			last, err = strconv.ParseInt(b, 10, 64)
		}
	}
	if err != nil || first < 0 || last < first {
		return 0, 0, fmt.Errorf("%q must be an index or two, as 12 or 12-40", text)
	}
	return first, last, nil
}

// replayed is what a replay tells in all.
type replayed struct {
	Same     int                  `json:"same"`
	Phases   int                  `json:"phases"`
	Skipped  []coordinator.Replay `json:"skipped"`
	Diverged []coordinator.Replay `json:"diverged"`
	Damaged  []damagedCall        `json:"damaged"`
}

// damagedCall is one that cannot be read.
type damagedCall struct {
	Index  int64  `json:"index"`
	Reason string `json:"reason"`
}

func (a *app) replay(ctx context.Context, core *daemon.Core, first, last int64, episode string, asJSON bool) error {
	head, err := core.Store.Head(ctx)
	if err != nil {
		return err
	}
	if last < 0 || last >= head.Next && first < head.Next {
		last = head.Next - 1
	}
	p := &coordinator.Replayer{Store: core.Store, Engines: core.Engines}
	tell, start := a.ticker("replayed", "entries"), time.Now()
	done, out := int64(0), replayed{Skipped: []coordinator.Replay{}, Diverged: []coordinator.Replay{}, Damaged: []damagedCall{}}
	indexes, total, err := replayOf(ctx, core.Store, first, last, episode)
	if err != nil {
		return err
	}
	for i := range indexes {
		r, err := p.Replay(ctx, i)
		if k := world.KindOf(err); err != nil && (k == world.KindIntegrity || k == world.KindNotFound) && i < head.Next {
			out.Damaged = append(out.Damaged, damagedCall{i, describe(err).Message})
			continue
		}
		if err != nil {
			return err
		}
		done++
		tell(done, total)
		out.Phases += r.Phases
		switch {
		case r.Skipped != "":
			out.Skipped = append(out.Skipped, r)
		case r.Diverged != "":
			out.Diverged = append(out.Diverged, r)
		default:
			out.Same++
		}
	}
	if episode != "" && out.Same+len(out.Skipped)+len(out.Diverged)+len(out.Damaged) == 0 {
		return world.Errorf(world.KindNotFound, "cli.replay", "no call of episode %s is in the log", episode)
	}
	if asJSON {
		err = writeJSON(a.stdout, out)
	} else {
		a.showReplayed(&out, time.Since(start))
	}
	if err == nil && len(out.Diverged)+len(out.Damaged) > 0 {
		return exitError(ExitIntegrity)
	}
	return err
}

// replayOf is the entries of a stretch of the log, or of an episode, and how many they are.
func replayOf(ctx context.Context, s store.Store, first, last int64, episode string) (iter.Seq[int64], int64, error) {
	if episode == "" {
		return func(yield func(int64) bool) {
			for i := first; i <= last && yield(i); i++ {
			}
		}, last - first + 1, nil
	}
	var all []int64
	for place := int64(0); ; {
		page, err := s.EpisodeEntries(ctx, episode, place, false, store.MaxPage)
		if err != nil {
			return nil, 0, err
		}
		if all = append(all, page...); len(page) < store.MaxPage {
			return slices.Values(all), int64(len(all)), nil
		}
		place = page[len(page)-1] + 1
	}
}

func (a *app) showReplayed(out *replayed, took time.Duration) {
	for _, r := range out.Skipped {
		fmt.Fprintf(a.stdout, "! entry %d was not run: %s\n", r.Index, printable(r.Skipped, false))
	}
	for _, r := range out.Diverged {
		fmt.Fprintf(a.stdout, "✗ entry %d, %s: the %s is another one\n  then %s\n  now  %s\n", r.Index, printable(r.Tool, false), r.Diverged,
			printable(cut(r.Want), false), printable(cut(r.Got), false))
	}
	for _, r := range out.Damaged {
		fmt.Fprintf(a.stdout, "✗ entry %d cannot be run: %s\n", r.Index, printable(r.Reason, false))
	}
	fmt.Fprintf(a.stdout, "%s %d calls came out the same, %d did not, %d were not run%s\n", cond(len(out.Diverged)+len(out.Damaged) == 0, "✓", "✗"),
		out.Same, len(out.Diverged), len(out.Skipped), cond(len(out.Damaged) > 0, fmt.Sprintf(", %d cannot be read", len(out.Damaged)), ""))
	if took > time.Second {
		fmt.Fprintf(a.stderr, "%.0f calls a second\n", float64(out.Same+len(out.Diverged))/took.Seconds())
	}
}

// cut is the beginning of a long text.
func cut(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
