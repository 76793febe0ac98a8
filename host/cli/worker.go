package cli

import (
	"github.com/spf13/cobra"

	"ailang.dev/world/host/daemon"
)

// workerName is the verb that this program starts itself with.
const workerName = "worker"

func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerName + " ENGINE",
		Short:  "Run transitions for a daemon, over stdin and stdout",
		Hidden: true,
		Args:   exactly(1, "one ENGINE"),
		RunE: func(_ *cobra.Command, args []string) error {
			return daemon.WorkerMain(args[0], a.stdin, a.stdout)
		},
	}
}
