package daemon

import (
	"context"
	"strings"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// WatchEvery is how often it is looked for what other daemons left open that are no more.
const WatchEvery = 5 * time.Second

// tellAllOpen tells every intent that has no end and whose daemon is no more, page by page.
func (d *Daemon) tellAllOpen(ctx context.Context) error {
	if shared, ok := d.core.Store.(store.Shared); ok {
		return d.tellAdopted(ctx, shared)
	}
	told := make(map[world.InvocationID]bool)
	for after := int64(0); ; {
		page, next, err := d.core.Store.Unresolved(ctx, after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, inv := range page {
			if !told[inv.ID] {
				told[inv.ID] = true
				d.resolve(ctx, inv)
			}
		}
		if after = next; after == 0 {
			return nil
		}
	}
}

// tellAdopted tells what other daemons left open, each by the one that took it over, once. A job
// whose end could not be recorded is ended by a later look.
func (d *Daemon) tellAdopted(ctx context.Context, shared store.Shared) error {
	again := d.unended
	d.unended = nil
	for _, inv := range again {
		if !d.resolve(ctx, inv) {
			d.unended = append(d.unended, inv)
		}
	}
	for more := true; more; {
		var open []store.Invocation
		var err error
		if open, more, err = shared.Adopt(ctx, store.MaxPage); err != nil {
			return err
		}
		for _, inv := range open {
			if !d.resolve(ctx, inv) {
				d.unended = append(d.unended, inv)
			}
		}
	}
	return nil
}

// watchOthers tells what daemons left open that end while this one runs. A store that is this
// daemon's own has no others.
func (d *Daemon) watchOthers(ctx context.Context) {
	if _, ok := d.core.Store.(store.Shared); !ok {
		return
	}
	tick := time.NewTicker(WatchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := d.tellAllOpen(ctx); err != nil && ctx.Err() == nil {
			d.core.Config.Logf("what other daemons left open cannot be read now: %v", err)
		}
	}
}

// resolve ends a job, whose processes are known to be no more, and tells all else. It is false if
// a job's end cannot be recorded now.
func (d *Daemon) resolve(ctx context.Context, inv store.Invocation) bool {
	jobs := &broker.Jobs{Store: d.core.Store}
	switch ended, err := jobs.Lost(ctx, inv, d.core.Store.Object); {
	case err != nil:
		d.core.Config.Logf("%s ended with the last daemon, which cannot be recorded now: %v", inv.ID, err)
		return false
	case ended != "":
		d.core.Config.Logf("%s", ended)
	default:
		d.tellOpen(inv)
	}
	return true
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
