// Package roman computes the liturgical days of the Roman rite for 1970 to 2199: season, week,
// cycles, and what is celebrated, by the Universal Norms on the Liturgical Year and the Calendar
// (UNLYC). It owns the proper of time, the rules of precedence and transfer, and the files of
// data/: the general calendar, and particular ones that are laid over it. It is pure: it knows
// no clock, no zone and no words, and it reads nothing but what is handed to it.
//
// The calendar is that of each year, not today's for all years, as far as this is sure: rows of
// the data have the years in which they stand, and UNLYC 5 (a solemnity on a Sunday of Advent,
// Lent or Easter) is applied as it was until 1990, on the Saturday before, and since, on the
// Monday after. All else follows the norms as they are today, also in years before: Saint
// Joseph in Holy Week goes to the Saturday before Palm Sunday. What a bishops' conference or a
// single notice decided for one year is not in here, but for 2022 and its like: the Nativity of
// Saint John the Baptist goes to the day before when the Sacred Heart falls on it.
// Answers spec/20-calendar.md.
package roman

import (
	"time"
)

// FirstYear and LastYear are the civil years that are computed.
const (
	FirstYear = 1970
	LastYear  = 2199
)

// Season is a part of the liturgical year.
type Season string

// The seasons. The Triduum has Good Friday and Holy Saturday as days: Holy Thursday is a day of
// Lent until its evening, and Easter Sunday is Easter's first.
const (
	Advent    Season = "advent"
	Christmas Season = "christmas"
	Lent      Season = "lent"
	Triduum   Season = "triduum"
	Easter    Season = "easter"
	Ordinary  Season = "ordinary"
)

// Rank is what a celebration is called.
type Rank string

// The ranks. A commemoration is a memorial on a day of Lent, or from 17 to 31 December, where
// nothing but its collect may be said.
const (
	Solemnity     Rank = "solemnity"
	Sunday        Rank = "sunday"
	LordsFeast    Rank = "feast-of-the-lord"
	Feast         Rank = "feast"
	Memorial      Rank = "memorial"
	Optional      Rank = "optional"
	Commemoration Rank = "commemoration"
	Weekday       Rank = "weekday"
	HolyDay       Rank = "holy-day" // days of Holy Week, the Triduum, the octave of Easter, Ash Wednesday
)

var rankNames = map[Rank]string{Solemnity: "Solemnity", Sunday: "Sunday", LordsFeast: "Feast of the Lord", Feast: "Feast", Memorial: "Memorial",
	Optional: "Optional memorial", Commemoration: "Commemoration", Weekday: "Weekday", HolyDay: "Privileged day"}

// Colour is that of the vestments.
type Colour string

// The colours.
const (
	White  Colour = "white"
	Red    Colour = "red"
	Green  Colour = "green"
	Violet Colour = "violet"
	Rose   Colour = "rose"
)

// Celebration is one thing that a day is. Precedence is its class in the table of liturgical
// days, 1 to 13; the smaller goes before.
type Celebration struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Rank       Rank     `json:"rank"`
	RankName   string   `json:"rank_name"`
	Precedence int      `json:"precedence"`
	Colour     Colour   `json:"colour"`
	Titles     []string `json:"titles,omitzero"`
	// Optional ones may be celebrated in the place of the day's first, or not.
	Optional bool `json:"optional"`
	// From is the calendar that a proper celebration is of; the general one's have none.
	From string `json:"calendar,omitzero"`
	// Moved is the date, YYYY-MM-DD, that a transferred celebration has by itself.
	Moved string `json:"transferred_from,omitzero"`
}

// Omitted is a celebration that gives way this year, or, with To, is kept on that date,
// YYYY-MM-DD.
type Omitted struct {
	Celebration
	Why string `json:"why"`
	To  string `json:"transferred_to,omitzero"`
}

// Day is one liturgical day. Celebrations begins with what the day is if nobody chooses
// otherwise; those that may be chosen follow, in the order of precedence. Proper is the day of
// the proper of time, also where something else is celebrated.
type Day struct {
	Date    time.Time // midnight, UTC
	Season  Season
	Week    int // of the season; 0 from Ash Wednesday to the first Sunday of Lent
	Sunday  string
	Weekday string
	Psalter int
	// Year is the liturgical year by the civil one that most of it is in.
	Year         int
	Proper       Celebration
	Celebrations []Celebration
	Omitted      []Omitted
}

// Principal is what the day is if nobody chooses otherwise.
func (d *Day) Principal() Celebration { return d.Celebrations[0] }

// Date is midnight of a day, UTC.
func Date(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// EasterSunday is the date of Easter in the Gregorian calendar, by the anonymous computus as
// Meeus gives it.
func EasterSunday(year int) time.Time {
	a, b, c := year%19, year/100, year%100
	d, e := b/4, b%4
	g := (8*b + 13) / 25
	h := (19*a + b - d - g + 15) % 30
	i, k := c/4, c%4
	l := (32 + 2*e + 2*i - h - k) % 7
	m := (a + 11*h + 22*l) / 451
	n := h + l - 7*m + 114
	return Date(year, time.Month(n/31), n%31+1)
}

// AdventSunday is the first Sunday of Advent in a civil year.
func AdventSunday(year int) time.Time {
	return sundayFrom(Date(year, time.November, 27))
}

// sundayFrom is the first Sunday that is not before a date.
func sundayFrom(t time.Time) time.Time { return plus(t, (7-int(t.Weekday()))%7) }

func plus(t time.Time, days int) time.Time { return t.AddDate(0, 0, days) }

// between is the number of days from a to b.
func between(a, b time.Time) int { return int(b.Sub(a).Hours()) / 24 }
