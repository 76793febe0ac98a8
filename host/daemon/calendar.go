package daemon

import (
	"context"
	"io"
	"os"

	"ailang.dev/world/host/handlers/calendar"
	"ailang.dev/world/host/handlers/calendar/roman"
	"ailang.dev/world/host/world"
)

// calendarHandler computes liturgical days, also by the calendars that the configuration names.
func (d *Daemon) calendarHandler(ctx context.Context) (*calendar.Handler, error) {
	var own []*roman.Calendar
	for _, path := range d.cfg.Calendars {
		c, err := readCalendar(path)
		if err != nil {
			return nil, err
		}
		own = append(own, c)
	}
	h, err := calendar.New(calendar.Config{Now: d.core.Config.Now, Policy: d.cfg.Policy, Calendars: own})
	if err != nil {
		return nil, err
	}
	return h, d.core.Store.PutObjects(ctx, h.Objects())
}

// readCalendar reads an operator's file. An error is for the operator, and names the file.
func readCalendar(path string) (*roman.Calendar, error) {
	const op = "daemon.readCalendar"
	f, err := os.Open(path)
	if err != nil {
		return nil, world.Errorf(world.KindBadRequest, op, "the calendar cannot be opened: %v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, roman.MaxFile+1))
	if err != nil {
		return nil, world.Errorf(world.KindBadRequest, op, "the calendar %s cannot be read: %v", path, err)
	}
	all, err := roman.Builtin()
	if err != nil {
		return nil, err
	}
	c, err := roman.Parse(text, all[roman.General])
	if err != nil {
		return nil, world.Errorf(world.KindBadRequest, op, "the calendar %s is wrong: %v", path, err)
	}
	return c, nil
}
