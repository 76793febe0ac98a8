package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/store/sqlite"
)

func (a *app) storeCommand() *cobra.Command {
	return group("store", "Look after a store, and move it", `A store is one SQLite file, or a schema of a PostgreSQL database. What was written is kept
in the order of writing; the indexes that find it by hash, by name or by what refers to it can
always be made anew from that.`,
		a.storeReindexCommand(), a.storeCopyCommand())
}

func (a *app) storeReindexCommand() *cobra.Command {
	var db string
	var asJSON bool
	c := &cobra.Command{
		Use:   "reindex --db FILE",
		Short: "Make all indexes of a store anew, with its daemon stopped",
		Long: `Throws away every index that is derived from the store's rows, and makes it anew by
reading them. No row is changed. The daemon of a file must be stopped; if this is
interrupted, the next command that opens the store goes on with it. Those of a database wait,
as far as their patience goes; if it is interrupted, all is as it was.`,
		Example: `  ailang-worldd store reindex --db world.db`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			if err := checkStore(path, false); err != nil {
				return err
			}
			defer a.progress("making the indexes of " + postgres.Display(path) + " anew")()
			if postgres.IsURL(path) {
				return a.reindexDatabase(cmd.Context(), path, asJSON)
			}
			done, err := sqlite.Reindex(cmd.Context(), sqlite.Options{Path: path, Logf: a.tell})
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, done)
			}
			fmt.Fprintf(a.stdout, "indexes made anew: %d entries, %d rows read\n", done.Entries, done.Rows)
			var rows [][]string
			for _, name := range slices.Sorted(maps.Keys(done.Indexes)) {
				rows = append(rows, []string{"  " + name, fmt.Sprint(done.Indexes[name])})
			}
			table(a.stdout, rows)
			return nil
		},
	}
	dbFlag(c, &db)
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) reindexDatabase(ctx context.Context, url string, asJSON bool) error {
	if _, err := postgres.ReadID(ctx, postgres.Options{URL: url, Logf: a.tell}); err != nil {
		return err
	}
	entries, refs, err := postgres.Reindex(ctx, postgres.Options{URL: url, Logf: a.tell})
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.stdout, map[string]any{"entries": entries, "references": refs})
	}
	fmt.Fprintf(a.stdout, "indexes made anew: %d entries, %d references\n", entries, refs)
	return nil
}
