package cli

import (
	"github.com/spf13/cobra"

	"ailang.dev/world/host/sandbox"
)

// sandboxName is the verb that this program starts itself with to be the first process of a
// sandbox.
const sandboxName = "sandbox-init"

func (a *app) sandboxInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:    sandboxName,
		Short:  "Be the first process of a sandbox, for a daemon",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			a.serving.Store(true) // no signal from inside ends it
			return sandbox.Main()
		},
	}
}

// sandboxArgv starts this program as the first process of a sandbox; nil if its path is not
// known.
func (a *app) sandboxArgv() []string {
	if a.env.Exe == "" {
		return nil
	}
	return []string{a.env.Exe, sandboxName}
}
