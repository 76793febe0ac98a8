package daemon

import (
	"context"

	"ailang.dev/world/host/handlers/model"
)

// modelHandler asks the models that the configuration names.
func (d *Daemon) modelHandler(ctx context.Context) (*model.Handler, error) {
	h, err := model.New(model.Config{Models: d.cfg.Models, Policy: d.cfg.Policy, Logf: d.core.Config.Logf})
	if err != nil {
		return nil, err
	}
	return h, d.core.Store.PutObjects(ctx, h.Objects())
}
