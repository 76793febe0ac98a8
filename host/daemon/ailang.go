package daemon

import (
	"context"
	"path/filepath"
	"slices"

	"ailang.dev/world/host/handlers/ailang"
	"ailang.dev/world/host/handlers/calendar"
	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/handlers/git"
	"ailang.dev/world/host/handlers/model"
	"ailang.dev/world/host/handlers/workspace"
	"ailang.dev/world/host/world"
)

// toolsFolder is where, in the archive of a store, toolchains stand: what is beside the
// folder are interpreters, which transitions pin.
const toolsFolder = "tools"

// checkTools refuses what could only be ignored.
func (c *Config) checkTools() error {
	switch {
	case c.ToolAilangBin == "" && c.ExamplesDir != "":
		return world.Errorf(world.KindBadRequest, "daemon.New", "a folder of examples (--examples-dir) is of use only with the AILANG toolchain (--tool-ailang-bin)")
	case c.ToolAilangBin != "" && c.WorkspaceRoot == "":
		return world.Errorf(world.KindBadRequest, "daemon.New", "the AILANG toolchain (--tool-ailang-bin) works in worktrees, and no folder of them is named (--workspace-root)")
	case c.ToolAilangBin != "" && len(c.SandboxCommand) == 0:
		return errNoSandbox
	}
	return nil
}

// ailangHandler serves the AILANG toolchain, if one is named; nil if not.
func (d *Daemon) ailangHandler(ctx context.Context) (*ailang.Handler, error) {
	if d.cfg.ToolAilangBin == "" {
		return nil, nil
	}
	store, err := realPath(filepath.Dir(d.core.Base))
	if err != nil {
		return nil, err
	}
	h, err := ailang.New(ctx, ailang.Config{
		Root: d.cfg.WorkspaceRoot, Binary: d.cfg.ToolAilangBin, Archive: filepath.Join(d.core.archive, toolsFolder),
		Examples: d.cfg.ExamplesDir, Policy: d.cfg.Policy, Sandbox: d.sandbox, Hide: []string{store}, Slots: d.core.Slots, Logf: d.core.Config.Logf,
	})
	if err != nil {
		return nil, err
	}
	return h, d.core.Store.PutObjects(ctx, h.Objects())
}

// Effects are what a daemon of this configuration can perform, in order.
func (c *Config) Effects() []string {
	all := []string{"Human.Approve", "Human.PollApproval", model.Effect, corpus.EffectSearch, corpus.EffectFetch, calendar.Effect}
	if c.WorkspaceRoot != "" {
		all = append(all, workspace.EffectRead, workspace.EffectWrite)
		if c.Git != "" {
			all = append(all, git.EffectRead, git.EffectCommit)
		}
		if len(c.Profiles) > 0 {
			all = append(all, exec.Effect)
		}
		if c.ToolAilangBin != "" {
			all = append(all, ailang.EffectCheck, ailang.EffectRun, ailang.EffectDiscover, ailang.EffectCLI)
		}
	}
	for _, h := range c.Handlers {
		all = append(all, h.Effects()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
