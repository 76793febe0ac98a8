package packtest

import (
	"time"

	"ailang.dev/world/host/handlers/calendar"
)

// ServeCalendar lets the tools of the bench ask for liturgical days, at a time that stands still.
func (b *Bench) ServeCalendar(now time.Time) {
	b.T.Helper()
	h, err := calendar.New(calendar.Config{Now: func() time.Time { return now }})
	Must(b.T, err)
	b.handlers[calendar.Effect] = h
}
