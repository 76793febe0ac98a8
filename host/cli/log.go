package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/world"
)

func (a *app) logCommand() *cobra.Command {
	return group("log", "Look at the log", "The log holds one entry for each call that was answered with a result.", a.logGetCommand(), a.logRangeCommand(), a.logTailCommand())
}

func (a *app) logGetCommand() *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:     "get INDEX",
		Short:   "Show one entry",
		Long:    `Shows one entry of the log. The genesis is entry 0.`,
		Example: `  ailang-worldd log get 0`,
		Args:    exactly(1, "one INDEX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || i < 0 {
				return usage(cmd, "INDEX must be a non-negative integer")
			}
			c, err := a.client(f)
			if err != nil {
				return err
			}
			e, text, err := c.Entry(cmd.Context(), i)
			if err != nil {
				return err
			}
			h := e.Header
			return a.showRows(f.json, text, [][]string{
				{"entryIndex", strconv.FormatInt(h.EntryIndex, 10)}, {"writtenBy", printable(h.WrittenBy, false)},
				{"entryHash", e.EntryHash.String()}, {"prevEntryHash", h.PrevEntryHash.String()},
				{"transitionRef", e.TransitionRef.String()}, {"transitionFn", h.TransitionFn.String()},
				{"interpreter", h.Interpreter.String()}, {"semanticsEpoch", strconv.FormatInt(h.SemanticsEpoch, 10)},
			})
		},
	}
	f.add(c)
	return c
}

func (a *app) logRangeCommand() *cobra.Command {
	var f remoteFlags
	var from int64
	var limit int
	c := &cobra.Command{
		Use:     "range [--from INDEX] [--limit N]",
		Short:   "List entries",
		Long:    `Lists entries from an index on: index, who wrote it, the entry's hash, its record.`,
		Example: `  ailang-worldd log range --from 10 --limit 20`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from < 0 {
				return usage(cmd, "--from must be a non-negative integer")
			}
			if err := checkLimit(cmd, limit); err != nil {
				return err
			}
			c, err := a.client(f)
			if err != nil {
				return err
			}
			items, text, err := c.Entries(cmd.Context(), from, limit)
			if err != nil {
				return err
			}
			if f.json {
				return a.showJSON(text)
			}
			a.showEntries(items)
			if len(items) == limit {
				fmt.Fprintf(a.stderr, "there may be more: --from %d\n", items[len(items)-1].Header.EntryIndex+1)
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().Int64Var(&from, "from", 0, "`INDEX` of the first entry")
	limitFlag(c, &limit)
	return c
}

func (a *app) showEntries(items []world.Entry) {
	if len(items) == 0 {
		fmt.Fprintln(a.stderr, "no entries there")
		return
	}
	rows := [][]string{{"INDEX", "WRITTEN BY", "ENTRY", "RECORD"}}
	for _, e := range items {
		rows = append(rows, []string{strconv.FormatInt(e.Header.EntryIndex, 10), printable(e.Header.WrittenBy, false),
			e.EntryHash.String(), e.TransitionRef.String()})
	}
	table(a.stdout, rows)
}
