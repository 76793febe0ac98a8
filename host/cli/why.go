package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// maxShown is how many bytes of a value are shown of a chain on a terminal.
const maxShown = 2 << 10

func (a *app) whyCommand() *cobra.Command {
	var db, episode, root string
	var asJSON, full, blame bool
	var limit int
	c := &cobra.Command{
		Use:   "why INDEX | head | sha256:… | INVOCATION | file:PATH --episode NAME",
		Short: "Tell the whole story of a call, each link proved again",
		Long: `Tells what an entry stands on: the entry before it, its world and record, whose call it
was, the transition and its source, the input, the plan, each effect with the decision, what
was left of the budget, request and result, and the output. Every link is hashed again: ✓
holds, ✗ does not, and then the exit code is 3.

A reference leads to the entries that stand on it, wherever it occurs: an object, a world, an
entry. file:PATH lists the calls of an episode that wrote a file of its worktree, newest
first; with --blame each of the file's lines is shown with the entry that wrote it.

It reads the store beside the daemon that may have it.`,
		Example: `  ailang-worldd why head
  ailang-worldd why --db world.db sha256:9f86…
  ailang-worldd why file:src/main.go --episode ep1 --blame`,
		Args: exactly(1, "one of INDEX, head, sha256:…, an invocation id, file:PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if path, ok := strings.CutPrefix(args[0], "file:"); ok {
				if !cmd.Flags().Changed("limit") {
					limit = 20
				}
				return a.whyFile(cmd, db, fileQuery{path: path, episode: episode, root: root, limit: limit, blame: blame, json: asJSON})
			}
			if blame {
				return usage(cmd, "--blame is for file:PATH")
			}
			return a.withReader(cmd, db, func(ctx context.Context, s store.Store) error {
				found, err := provenance.Resolve(ctx, s, args[0], limit)
				if err != nil {
					return err
				}
				if len(found.Entries) > 1 {
					return a.showFound(ctx, s, found, asJSON)
				}
				chain, err := provenance.Explain(ctx, s, found.Entries[0])
				if err != nil {
					return err
				}
				if asJSON {
					err = writeJSON(a.stdout, chain)
				} else {
					showChain(a.stdout, chain, full)
				}
				if err == nil && chain.Broken > 0 {
					return exitError(ExitIntegrity)
				}
				return err
			})
		},
	}
	readFlag(c, &db)
	c.Flags().StringVar(&episode, "episode", "", "whose worktree a file is in, `NAME`")
	c.Flags().StringVar(&root, "workspace-root", "", "the `FOLDER` of the worktrees; without it, the one beside up's store")
	c.Flags().BoolVar(&full, "full", false, "show long values whole")
	c.Flags().BoolVar(&blame, "blame", false, "show who wrote each line of the file")
	c.Flags().IntVar(&limit, "limit", 0, "how many entries are listed (default 20 of a file, 100 of a reference)")
	jsonFlag(c, &asJSON)
	return c
}

// showFound lists the entries that a reference leads to.
func (a *app) showFound(ctx context.Context, s store.Store, f provenance.Found, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, f)
	}
	lines, err := summaries(ctx, s, f.Entries)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s; these entries stand on it:\n", printable(f.Is, false))
	for _, l := range lines {
		fmt.Fprintln(a.stdout, l)
	}
	if f.More {
		fmt.Fprintln(a.stderr, "there are more; --limit lists more of them")
	}
	fmt.Fprintln(a.stderr, "next: ailang-worldd why INDEX")
	return nil
}

func summaries(ctx context.Context, s store.Store, entries []int64) ([]string, error) {
	var lines []string
	for _, i := range entries {
		c, err := provenance.Explain(ctx, s, i)
		if err != nil {
			return nil, err
		}
		lines = append(lines, summary(c))
	}
	return lines, nil
}

// summary is a call on one line: index, short hash, surface, episode, tool, effects.
func summary(c *provenance.Chain) string {
	parts := []string{fmt.Sprintf("%6d", c.Index), short(c.Entry.EntryHash)}
	if c.Call == "" {
		parts = append(parts, printable(c.Writer, false))
	} else {
		parts = append(parts, printable(c.Surface, false), printable(c.Episode, false), printable(c.Tool, false))
	}
	for _, r := range c.Rounds {
		for _, e := range r.Effects {
			parts = append(parts, printable(e.Effect, false)+":"+e.Status+cond(e.Denial != "", "("+printable(firstWord(e.Denial), false)+")", ""))
		}
	}
	if _, why := c.Refused(); why != "" {
		parts = append(parts, "refused")
	}
	if c.Broken > 0 {
		parts = append(parts, "✗ "+plainCount(c.Broken, "broken link"))
	}
	return strings.Join(parts, "  ")
}

func cond(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

func firstWord(s string) string { w, _, _ := strings.Cut(s, " "); return strings.TrimSuffix(w, ":") }

func plainCount(n int, what string) string { return strconv.Itoa(n) + " " + what + plural(n) }

// short is enough of a reference to tell it from others, and to search for.
func short(r world.Ref) string { return r.Hex()[:min(12, len(r.Hex()))] }

// showChain tells a chain from the entry down.
func showChain(w io.Writer, c *provenance.Chain, full bool) {
	fmt.Fprintf(w, "entry %d, written by %s\n", c.Index, printable(c.Writer, false))
	rows := [][]string{}
	if c.Call != "" {
		rows = append(rows, []string{"  call", printable(string(c.Call), false)}, []string{"  who", who(c)},
			[]string{"  tool", fmt.Sprintf("%s, source %s", printable(c.Tool, false), c.Source)},
			[]string{"  engine", fmt.Sprintf("%s %s, epoch %d", cond(c.Engine.Name != "", printable(c.Engine.Name, false), "archived binary"), c.Engine.Ref, c.Engine.Epoch)})
	}
	rows = append(rows, []string{"  world", c.World.Ref.String()})
	if c.Call != "" {
		refused, why := c.Refused()
		rows = append(rows, []string{"  outcome", cond(refused, "refused"+cond(why != "", ": ", "")+printable(why, false), "done")})
	}
	table(w, rows)
	if c.Call != "" {
		showValue(w, "input", c.Input, full)
	}
	for i, r := range c.Rounds {
		name := "plan"
		if len(c.Rounds) > 1 {
			name = fmt.Sprintf("plan, round %d", i+1)
		}
		showValue(w, name, r.Text, full)
		for _, e := range r.Effects {
			showEffect(w, &e, full)
		}
	}
	if c.Call != "" {
		showValue(w, "output", c.Output, full)
	}
	fmt.Fprintln(w, "links")
	links := [][]string{}
	for _, l := range c.Links {
		links = append(links, []string{"  " + cond(l.OK, "✓", "✗"), l.What, cond(l.Ref.IsNone(), "", l.Ref.String()), printable(l.Problem, false)})
	}
	table(w, links)
	if c.Broken == 0 {
		fmt.Fprintf(w, "all %d links hold\n", len(c.Links))
	} else {
		fmt.Fprintf(w, "%d of %d links are broken\n", c.Broken, len(c.Links))
	}
}

// who is whose call it was, and by what right.
func who(c *provenance.Chain) string {
	text := fmt.Sprintf("episode %s, over %s", printable(c.Episode, false), printable(c.Surface, false))
	if s := c.Session; s != nil {
		text += fmt.Sprintf(", session %s until %s, granted %s", short(s.ID), when(s.Expires), grantList(s.Grants))
		if s.Revoked {
			text += ", revoked since"
		}
	}
	return text
}

func showEffect(w io.Writer, e *provenance.Effect, full bool) {
	told := e.Status
	if e.Denial != "" {
		told = printable(e.Denial, false)
	}
	fmt.Fprintf(w, "effect %s: %s in %s: %s; cost %d, budget %s -> %s\n", printable(e.ID, false), printable(e.Effect, false),
		printable(e.Scope, false), told, e.Cost, budgetText(e.BudgetBefore), budgetText(e.BudgetAfter))
	showValue(w, "  asked", e.Payload, full)
	if e.Answer != nil {
		showValue(w, "  answered", e.Answer, full)
	}
}

func showValue(w io.Writer, name string, text []byte, full bool) {
	if text == nil {
		fmt.Fprintf(w, "%s: not readable\n", name)
		return
	}
	s, more := indented(text), ""
	if !full && len(s) > maxShown {
		s, more = s[:maxShown], fmt.Sprintf("… %d bytes more; --full shows them\n", len(s)-maxShown)
	}
	fmt.Fprintf(w, "%s\n  %s\n%s", name, strings.ReplaceAll(printable(strings.ToValidUTF8(s, "\uFFFD"), true), "\n", "\n  "), more)
}
