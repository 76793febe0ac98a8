package cli

import (
	"github.com/spf13/cobra"

	"ailang.dev/world/host/capsule/starlark"
)

// workerName is the verb that this program starts itself with.
const workerName = "starlark-worker"

func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerName,
		Short:  "Run transitions for a daemon, over stdin and stdout",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			return starlark.WorkerMain(a.stdin, a.stdout)
		},
	}
}
