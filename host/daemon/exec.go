package daemon

import (
	"context"
	"path/filepath"

	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

// execHandler runs the commands that the configuration declares. Without one it is there and
// says so.
func (d *Daemon) execHandler(ctx context.Context) (*exec.Handler, error) {
	if len(d.cfg.Profiles) > 0 && len(d.cfg.SandboxCommand) == 0 {
		return nil, world.Errorf(world.KindBadRequest, "daemon.New", "commands cannot be confined: this program does not know its own path")
	}
	store, err := realPath(filepath.Dir(d.core.Config.DB))
	if err != nil {
		return nil, err
	}
	logf := d.core.Config.Logf
	h, err := exec.New(ctx, exec.Config{
		Root: d.cfg.WorkspaceRoot, Policy: d.cfg.Policy, Profiles: d.cfg.Profiles, Hide: []string{store}, Slots: d.core.Slots,
		Sandbox: sandbox.New(sandbox.Config{Command: d.cfg.SandboxCommand, Logf: logf}),
		Ledger:  d.cfg.Ledger, Now: d.core.Config.Now, Logf: logf,
	})
	if err != nil {
		return nil, err
	}
	return h, d.core.Store.PutObjects(ctx, h.Objects())
}
