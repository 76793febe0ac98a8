package daemon

import (
	"context"
	"strings"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// tellAllOpen tells every intent that has no end, page by page.
func (d *Daemon) tellAllOpen(ctx context.Context) error {
	told := make(map[world.InvocationID]bool)
	for after := int64(0); ; {
		open, next, err := d.core.Store.Unresolved(ctx, after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, inv := range open {
			if told[inv.ID] {
				continue
			}
			told[inv.ID] = true
			d.resolve(ctx, inv)
		}
		if after = next; after == 0 {
			return nil
		}
	}
}

// resolve ends a job, whose processes are known to be no more, and tells all else.
func (d *Daemon) resolve(ctx context.Context, inv store.Invocation) {
	jobs := &broker.Jobs{Store: d.core.Store}
	switch ended, err := jobs.Lost(ctx, inv, d.core.Store.Object); {
	case err != nil:
		d.core.Config.Logf("%s ended with the last daemon, which cannot be recorded now: %v", inv.ID, err)
	case ended != "":
		d.core.Config.Logf("%s", ended)
	default:
		d.tellOpen(inv)
	}
}

// tellOpen prints one line for each thing that was intended and whose end is not known. It
// is never retried: what an effect did is for a person to look at.
func (d *Daemon) tellOpen(inv store.Invocation) {
	if strings.HasPrefix(string(inv.ID), world.RESTPrefix) {
		d.core.Config.Logf("indeterminate commit %s: intended, end unknown; resend the same commit to reconcile", inv.ID)
		return
	}
	for _, e := range inv.Effects {
		if e.Record.IsNone() {
			d.core.Config.Logf("indeterminate effect %s of %s: intended, outcome unknown, not retried; request %s", e.EffectID, inv.ID, e.Request)
		}
	}
}

// scan looks at the newest entries within a bound of time and number. A whole store prints
// nothing.
func (d *Daemon) scan(ctx context.Context) error {
	sctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	done, err := d.core.Store.Scan(sctx, scanEntries, func(h store.Hole) {
		d.core.Config.Logf("integrity_hole %s: %s", h.What, h.Reason)
	})
	if err != nil && world.KindOf(err) != world.KindTimeout {
		return err
	}
	if !done {
		d.core.Config.Logf("integrity_scan_incomplete within %v: the newest entries were looked at as far as that went", scanTimeout)
	}
	return nil
}
