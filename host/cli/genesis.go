package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/cli/shell"
	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/world"
)

func (a *app) genesisCommand() *cobra.Command {
	var db, goal string
	var asJSON bool
	c := &cobra.Command{
		Use:   "genesis --db FILE [--goal TEXT]",
		Short: "Commit the first entry of a store, creating it if need be",
		Long: `Commits entry 0, which every call follows. The store's file is created if it is not
there. A store has one genesis: a second one is refused.`,
		Example: `  ailang-worldd genesis --db world.db --goal "keep the docs in step with the code"`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			ops, err := a.openOps(cmd.Context(), path, true)
			if err != nil {
				return err
			}
			defer ops.Close()
			done, err := ops.Genesis(cmd.Context(), goal)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, struct {
					World      world.Ref `json:"world"`
					EntryIndex int64     `json:"entryIndex"`
					EntryHash  world.Ref `json:"entryHash"`
				}{done.World.Ref, done.Entry.Header.EntryIndex, done.Entry.EntryHash})
			}
			fmt.Fprintf(a.stdout, "genesis committed: entry %d, world %s\n", done.Entry.Header.EntryIndex, done.World.Ref)
			fmt.Fprintf(a.stderr, "next: ailang-worldd transitions publish --db %s --manifest FILE\n", shell.Word(postgres.Display(db)))
			return nil
		},
	}
	dbFlag(c, &db)
	c.Flags().StringVar(&goal, "goal", "", "what this world is for; kept in the genesis object")
	jsonFlag(c, &asJSON)
	return c
}
