package daemon

import (
	"context"

	"ailang.dev/world/host/handlers/calendar"
)

// calendarHandler computes liturgical days.
func (d *Daemon) calendarHandler(ctx context.Context) (*calendar.Handler, error) {
	h, err := calendar.New(calendar.Config{Now: d.core.Config.Now, Policy: d.cfg.Policy})
	if err != nil {
		return nil, err
	}
	return h, d.core.Store.PutObjects(ctx, h.Objects())
}
