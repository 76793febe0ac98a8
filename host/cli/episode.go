package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func (a *app) episodeCommand() *cobra.Command {
	return group("episode", "Look at what an episode did", "An episode is one line of work: its sessions share a worktree and their budgets.", a.episodeShowCommand())
}

func (a *app) episodeShowCommand() *cobra.Command {
	var db string
	var asJSON bool
	c := &cobra.Command{
		Use:     "show [--db FILE] NAME",
		Short:   "Budgets, spend, calls and denials of an episode",
		Long:    `Adds up an episode from the log: what its sessions were granted and spent, its calls by tool, and how many were refused, denied or failed.`,
		Example: `  ailang-worldd episode show ep1`,
		Args:    exactly(1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withEpisode(cmd, db, args[0], func(_ store.Store, e *provenance.Episode) error {
				if asJSON {
					return writeJSON(a.stdout, e)
				}
				a.showEpisode(e)
				return nil
			})
		},
	}
	readFlag(c, &db)
	jsonFlag(c, &asJSON)
	return c
}

// withEpisode reads an episode's story.
func (a *app) withEpisode(cmd *cobra.Command, db, name string, show func(s store.Store, e *provenance.Episode) error) error {
	if err := world.CheckEpisode(name); err != nil {
		return usage(cmd, "%v", err)
	}
	return a.withReader(cmd, db, func(ctx context.Context, s store.Store) error {
		e, err := provenance.OfEpisode(ctx, s, name, time.Now())
		if err != nil {
			return err
		}
		return show(s, e)
	})
}

func (a *app) showEpisode(e *provenance.Episode) {
	fmt.Fprintf(a.stdout, "episode %s: %s", e.Name, plainCount(int(e.Calls), "call"))
	if e.Calls > 0 {
		fmt.Fprintf(a.stdout, ", entries %d to %d", e.First, e.Last)
	}
	fmt.Fprintf(a.stdout, "; %d refused; effects denied %d, failed %d\n", e.Refused, e.Denied, e.Failed)
	if len(e.Budgets) > 0 {
		rows := [][]string{{"EFFECT", "SCOPE", "SPENT", "GRANTED", ""}}
		for _, b := range e.Budgets {
			rows = append(rows, []string{printable(b.Effect, false), printable(b.Scope, false), strconv.FormatInt(b.Spent, 10), strconv.FormatInt(b.Granted, 10), bar(b.Spent, b.Granted)})
		}
		table(a.stdout, rows)
	}
	if len(e.ByTool) > 0 {
		rows := [][]string{{"TOOL", "CALLS"}}
		for _, name := range slices.Sorted(maps.Keys(e.ByTool)) {
			rows = append(rows, []string{printable(name, false), strconv.FormatInt(e.ByTool[name], 10)})
		}
		table(a.stdout, rows)
	}
	rows := [][]string{{"SESSION", "STATE", "EXPIRES"}}
	for _, s := range e.Sessions {
		rows = append(rows, []string{s.ID.Hex(), sessionState(s, time.Now()), when(s.Expires)})
	}
	table(a.stdout, rows)
}

// bar shows a part of a whole in ten places.
func bar(part, whole int64) string {
	n := 10
	if whole > 0 && part < whole {
		n = int(part * 10 / whole)
	}
	return strings.Repeat("█", n) + strings.Repeat("░", 10-n)
}

func (a *app) provenanceCommand() *cobra.Command {
	var db, episode string
	var asJSON bool
	c := &cobra.Command{
		Use:   "provenance [--db FILE] --episode NAME",
		Short: "Print the line that says where an episode's changes come from",
		Long: `Prints the trailer that workspace-commit puts into commit messages, for a commit or a
description that is written by hand: the store, the episode, and its entries.`,
		Example: `  git commit -m "Fix it" -m "$(ailang-worldd provenance --episode ep1)"`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if episode == "" {
				return usage(cmd, "--episode NAME is needed: whose changes?")
			}
			return a.withEpisode(cmd, db, episode, func(s store.Store, e *provenance.Episode) error {
				if e.Calls == 0 {
					return failf("episode %s has no entries yet", e.Name)
				}
				if asJSON {
					return writeJSON(a.stdout, map[string]string{"trailer": provenance.Trailer(s.ID(), e)})
				}
				_, err := fmt.Fprintln(a.stdout, provenance.Trailer(s.ID(), e))
				return err
			})
		},
	}
	readFlag(c, &db)
	c.Flags().StringVar(&episode, "episode", "", "whose changes, `NAME`")
	jsonFlag(c, &asJSON)
	return c
}
