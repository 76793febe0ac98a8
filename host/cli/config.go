package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/config"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/policy"
)

func configFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "config", "", "YAML `FILE` with commands that agents may run, the policy for worktrees, the plans of users, and models")
}

// configure adds to a daemon's configuration what a file says; path is "" for none.
func (a *app) configure(cfg *daemon.Config, path string) error {
	cfg.SandboxCommand = a.sandboxArgv()
	if path == "" {
		return nil
	}
	f, err := os.Open(a.path(path))
	if err != nil {
		return failf("cannot read the configuration file %s: %v", path, bareIO(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, config.MaxSize+1))
	if err != nil {
		return failf("cannot read the configuration file %s: %v", path, bareIO(err))
	}
	c, err := config.Read(path, text)
	if err != nil {
		return err
	}
	if len(c.Profiles) > 0 && cfg.WorkspaceRoot == "" {
		return failf("%s declares commands, but there is no folder of worktrees to run them in", path).hinted("name it with --workspace-root")
	}
	cfg.Profiles, cfg.Plans, cfg.Issuers, cfg.Models, cfg.Calendars = c.Profiles, c.Plans, c.Issuers, c.Models, c.Calendars
	cfg.Policy, err = policy.New(c.Policy)
	return err
}
