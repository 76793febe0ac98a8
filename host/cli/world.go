package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/world"
)

func (a *app) worldCommand() *cobra.Command {
	return group("world", "Look at worlds", "A world is what the log had led to after an entry.", a.worldGetCommand())
}

func (a *app) worldGetCommand() *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:     "get [REF]",
		Short:   "Show a world; the selected one without REF",
		Long:    `Shows a world: its revision, its state root, and the entry it stands on.`,
		Example: `  ailang-worldd world get`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return argsError(cmd, "one REF at most")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(f)
			if err != nil {
				return err
			}
			var ref world.Ref
			if len(args) == 1 {
				ref, err = refArg(cmd, args[0])
			} else {
				ref, err = c.Head(cmd.Context())
			}
			if err != nil {
				return err
			}
			w, text, err := c.World(cmd.Context(), ref)
			if err != nil {
				return err
			}
			return a.showRows(f.json, text, [][]string{
				{"ref", w.Ref.String()}, {"revision", strconv.FormatInt(w.Revision, 10)},
				{"stateRoot", w.StateRoot.String()}, {"logHead", w.LogHead.String()},
			})
		},
	}
	f.add(c)
	return c
}
