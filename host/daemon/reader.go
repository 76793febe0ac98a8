package daemon

import (
	"context"

	"ailang.dev/world/host/capsule"
)

// OpenReader opens a store to be read, beside the daemon that may have it, with the engines
// that can run its entries again. It nominates nothing, tidies
// nothing up, and writes nothing to the store.
func OpenReader(ctx context.Context, cfg CoreConfig) (*Core, error) {
	s, path, err := openReadOnly(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c := &Core{Config: cfg, Slots: capsule.NewSlots(capsule.MaxSubprocesses)}
	if err := c.take(s, path); err != nil {
		return nil, err
	}
	if err = c.openEmbedded(); err == nil {
		err = c.openAilang(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
