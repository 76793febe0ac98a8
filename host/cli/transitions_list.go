package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/world"
)

func (a *app) transitionsListCommand() *cobra.Command {
	var db string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list --db FILE",
		Short: "List all published transitions",
		Long: `Lists the registry, whoever may see what is in it: id, the grant that shows it to a
session, the effects it may plan, and its title. What one session sees is told by
"ailang-worldd tools list".`,
		Example: `  ailang-worldd transitions list --db world.db`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			ops, err := a.openOps(cmd.Context(), path, false)
			if err != nil {
				return err
			}
			defer ops.Close()
			snap, err := ops.Transitions(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				all := snap.Transitions
				if all == nil {
					all = []*world.Descriptor{}
				}
				return writeJSON(a.stdout, struct {
					Head        world.Ref           `json:"head"`
					Revision    int64               `json:"revision"`
					Transitions []*world.Descriptor `json:"transitions"`
				}{snap.Head, snap.Revision, all})
			}
			if len(snap.Transitions) == 0 {
				fmt.Fprintln(a.stderr, "nothing is published; `ailang-worldd transitions publish` does it")
				return nil
			}
			rows := [][]string{{"ID", "SEEN WITH", "MAY PLAN", "TITLE"}}
			for _, d := range snap.Transitions {
				rows = append(rows, []string{d.ID, needText(d.Access), needsText(d.DeclaredEffects), printable(d.Title, false)})
			}
			table(a.stdout, rows)
			fmt.Fprintf(a.stderr, "revision %d, head %s\n", snap.Revision, snap.Head)
			return nil
		},
	}
	dbFlag(c, &db)
	jsonFlag(c, &asJSON)
	return c
}
