package daemon

import (
	"context"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/store/sqlite"
)

// OpenReader opens a store to be read, beside the daemon that may have it, with the engines
// that can run its entries again. It nominates nothing, tidies
// nothing up, and writes nothing to the store.
func OpenReader(ctx context.Context, cfg CoreConfig) (*Core, error) {
	s, err := sqlite.OpenReadOnly(ctx, sqlite.Options{Path: cfg.DB, Logf: cfg.Logf})
	if err != nil {
		return nil, err
	}
	c := &Core{Config: cfg, Store: s, archive: s.Path() + ArchiveSuffix, Slots: capsule.NewSlots(capsule.MaxSubprocesses)}
	if err = c.openEmbedded(); err == nil {
		err = c.openAilang(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
