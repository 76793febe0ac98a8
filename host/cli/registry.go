package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/world"
)

func (a *app) registryCommand() *cobra.Command {
	return group("registry", "Look at registry heads", "A registry is a name whose newest object is its head.", a.registryGetCommand())
}

func (a *app) registryGetCommand() *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a registry's head",
		Long: `Shows the reference of a registry's newest object. Names in use: ` + world.EpochRegistry + `,
` + world.TransitionRegistry + `, ` + world.ApprovalRegistry + `.`,
		Example: `  ailang-worldd registry get ` + world.TransitionRegistry,
		Args:    exactly(1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usage(cmd, "a NAME is not empty")
			}
			c, err := a.client(f)
			if err != nil {
				return err
			}
			h, text, err := c.Registry(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if f.json {
				return a.showJSON(text)
			}
			fmt.Fprintln(a.stdout, h.Head)
			return nil
		},
	}
	f.add(c)
	return c
}
