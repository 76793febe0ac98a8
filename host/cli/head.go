package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/world"
)

func (a *app) headCommand() *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:     "head",
		Short:   "Show which world is selected",
		Long:    `Shows the reference of the newest world. Before genesis there is none, and it exits 1.`,
		Example: `  ailang-worldd world get "$(ailang-worldd head)"`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(f)
			if err != nil {
				return err
			}
			ref, err := c.Head(cmd.Context())
			if err != nil {
				return err
			}
			if f.json {
				return writeJSON(a.stdout, map[string]world.Ref{"head": ref})
			}
			fmt.Fprintln(a.stdout, ref)
			return nil
		},
	}
	f.add(c)
	return c
}
