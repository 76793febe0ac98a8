package daemon

import (
	"context"
	"fmt"

	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/world"
)

// openReplica opens the copy that the workbench reads, if one is named.
func (d *Daemon) openReplica(ctx context.Context) (err error) {
	if d.cfg.Replica == "" {
		return nil
	}
	primary, ok := d.core.Store.(*postgres.Store)
	if !ok || !postgres.IsURL(d.cfg.Replica) {
		return world.Errorf(world.KindBadRequest, "daemon.New", "a replica (--replica) is a postgres:// URL of a copy of the database that --db names")
	}
	d.replica, err = postgres.OpenReplica(ctx, primary, postgres.Options{URL: d.cfg.Replica, Logf: d.core.Config.Logf})
	return err
}

// replicaNote tells on each page of the workbench how old what it shows may be.
func (d *Daemon) replicaNote() func(context.Context) string {
	if d.replica == nil {
		return nil
	}
	return func(ctx context.Context) string {
		n, away, err := d.replica.Behind(ctx)
		switch {
		case away:
			return "the replica is away, the database itself was read"
		case err != nil:
			return "read from a replica; how far it is behind is not known now"
		}
		return fmt.Sprintf("read from a replica, %d entries behind", n)
	}
}
