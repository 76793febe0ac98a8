package calendar

import (
	"slices"
	"time"

	"ailang.dev/world/host/handlers/calendar/lectionary"
	"ailang.dev/world/host/handlers/calendar/roman"
)

// day is a liturgical day as an answer has it.
type day struct {
	Date         string              `json:"date"`
	Weekday      string              `json:"weekday"`
	Season       roman.Season        `json:"season"`
	Week         int                 `json:"week"`
	Year         int                 `json:"liturgical_year"`
	SundayCycle  string              `json:"sunday_cycle"`
	WeekdayCycle string              `json:"weekday_cycle"`
	PsalterWeek  int                 `json:"psalter_week"`
	Celebrations []roman.Celebration `json:"celebrations"`
	Omitted      []roman.Omitted     `json:"omitted"`
	Readings     []lectionary.Mass   `json:"readings,omitzero"`
	Saints       []saint             `json:"saints,omitzero"`
}

// saint is a celebration of the proper of saints, kept or not.
type saint struct {
	roman.Celebration
	// Kept is "yes" for what the day is, "may be" for what may be chosen, "no" for what gives way.
	Kept string `json:"kept"`
	Why  string `json:"why,omitzero"`
	To   string `json:"transferred_to,omitzero"`
}

func (a *almanac) day(p payload, t time.Time) day {
	d := a.year(p.Calendar, t.Year()).Day(t)
	out := day{Date: t.Format(time.DateOnly), Weekday: t.Weekday().String(), Season: d.Season, Week: d.Week, Year: d.Year, SundayCycle: d.Sunday,
		WeekdayCycle: d.Weekday, PsalterWeek: d.Psalter, Celebrations: d.Celebrations, Omitted: d.Omitted}
	if out.Omitted == nil {
		out.Omitted = []roman.Omitted{}
	}
	if slices.Contains(p.Want, "readings") {
		out.Readings = a.readings.Of(d)
	}
	if slices.Contains(p.Want, "saints") {
		out.Saints = saints(d)
	}
	return out
}

// saints are what the proper of saints has on a day.
func saints(d *roman.Day) []saint {
	all := []saint{}
	for _, c := range d.Celebrations {
		if c.ID == d.Proper.ID {
			continue
		}
		kept := "yes"
		if c.Optional {
			kept = "may be"
		}
		all = append(all, saint{Celebration: c, Kept: kept})
	}
	for _, o := range d.Omitted {
		if o.ID == d.Proper.ID {
			continue
		}
		all = append(all, saint{o.Celebration, "no", o.Why, o.To})
	}
	return all
}
