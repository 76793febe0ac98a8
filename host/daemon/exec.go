package daemon

import (
	"context"
	"path/filepath"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

var errNoSandbox = world.Errorf(world.KindBadRequest, "daemon.New", "commands cannot be confined: this program does not know its own path")

// execHandler runs the commands that the configuration declares. Without one it is there and
// says so.
func (d *Daemon) execHandler(ctx context.Context) (*exec.Handler, error) {
	if len(d.cfg.Profiles) > 0 && len(d.cfg.SandboxCommand) == 0 {
		return nil, errNoSandbox
	}
	store, err := realPath(filepath.Dir(d.core.Base))
	if err != nil {
		return nil, err
	}
	h, err := exec.New(ctx, exec.Config{
		Root: d.cfg.WorkspaceRoot, Policy: d.cfg.Policy, Profiles: d.cfg.Profiles, Hide: []string{store}, Slots: d.core.Slots,
		Sandbox: d.sandbox, Ledger: ledger{&broker.Jobs{Store: d.core.Store}}, Now: d.core.Config.Now, Logf: d.core.Config.Logf,
	})
	if err != nil {
		return nil, err
	}
	return h, d.core.Store.PutObjects(ctx, h.Objects())
}

// ledger keeps account of jobs in the journal.
type ledger struct{ jobs *broker.Jobs }

// Begin implements exec.Ledger.
func (l ledger) Begin(ctx context.Context, j exec.Job) error { return l.jobs.Begin(ctx, accountOf(j)) }

// End implements exec.Ledger.
func (l ledger) End(ctx context.Context, j exec.Job, result []byte, failed string) error {
	return l.jobs.End(ctx, accountOf(j), result, failed)
}

// accountOf is a job as the journal knows it: the payload is all that it is started from.
func accountOf(j exec.Job) broker.Job {
	args := j.Args
	if args == nil {
		args = []string{}
	}
	return broker.Job{ID: j.ID, Invocation: j.Invocation, Episode: j.Episode, Effect: j.Need.Effect, Scope: j.Need.Scope,
		Payload: hashref.MustMarshal(map[string]any{
			"call": j.Invocation, "effect": j.EffectID, "profile": j.Profile, "args": args, "tool": j.Tool, "policy_digest": j.Policy,
			"started": j.Started.UTC().Format(time.RFC3339Nano),
		})}
}
