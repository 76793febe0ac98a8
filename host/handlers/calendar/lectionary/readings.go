package lectionary

import (
	"strconv"
	"strings"
	"time"

	"ailang.dev/world/host/handlers/calendar/roman"
)

// Alternative is a citation that may be read.
type Alternative struct {
	Citation  string `json:"citation"`
	Confirmed bool   `json:"confirmed"`
}

// Reading is one reading of a Mass.
type Reading struct {
	Kind Kind `json:"kind"`
	Alternative
	Alternatives []Alternative `json:"alternatives,omitzero"`
}

// Mass is the readings of one celebration, or of one of its Masses.
type Mass struct {
	// For is the celebration's id, or that of the weekday.
	For      string    `json:"for"`
	Name     string    `json:"name"`
	Mass     string    `json:"mass,omitzero"`
	Number   string    `json:"number,omitzero"` // of the Lectionary for Mass
	Optional bool      `json:"optional"`
	Note     string    `json:"note,omitzero"`
	Readings []Reading `json:"readings"`
}

// Notes of a Mass.
const (
	noteNone    = "the table has no readings for it: they are taken from the Lectionary itself"
	noteDead    = "the readings are chosen from those of the Masses for the Dead, 1011 to 1016"
	noteOwn     = "these are the memorial's own; what is not given is the weekday's"
	noteWeekday = "on a weekday one of the first and the second reading is read"
	noteAny     = "may be read on any day of this week"
	noteNoMass  = "there is no Mass until the Easter Vigil, in the night: its readings are those of Easter Sunday"
)

var titles = map[int]string{13: "Vigil Mass", 14: "Mass during the Night", 15: "Mass at Dawn", 16: "Mass during the Day", 37: "Procession with palms", 38: "Mass",
	260: "Chrism Mass", 39: "Evening Mass of the Lord's Supper", 40: "Celebration of the Lord's Passion", 41: "Easter Vigil", 42: "Mass during the Day", 62: "Vigil Mass",
	63: "Mass during the Day", 586: "Vigil Mass", 587: "Mass during the Day", 590: "Vigil Mass", 591: "Mass during the Day", 621: "Vigil Mass", 622: "Mass during the Day"}

// Of are the Masses of a day: of what is first celebrated, of the weekday where that is a
// memorial, and of the optional celebrations that have readings of their own.
func (t *Table) Of(d *roman.Day) []Mass {
	var all []Mass
	first := d.Principal()
	own := t.saints(first, d)
	switch {
	case first.ID == d.Proper.ID:
		all = t.proper(d)
	case first.Rank == roman.Memorial:
		all = append(own, t.proper(d)...)
	case len(own) > 0:
		all = own
	case first.ID == "all-souls":
		all = []Mass{empty(first, noteDead)}
	default:
		all = []Mass{empty(first, noteNone)}
	}
	for _, c := range d.Celebrations[1:] {
		for _, m := range t.saints(c, d) {
			m.Optional = true
			all = append(all, m)
		}
	}
	return all
}

func empty(c roman.Celebration, note string) Mass {
	return Mass{For: c.ID, Name: c.Name, Note: note, Readings: []Reading{}}
}

// saints are the Masses of a celebration of the saints; none if it has no readings of its own.
func (t *Table) saints(c roman.Celebration, d *roman.Day) []Mass {
	var all []Mass
	for _, i := range t.saint[c.ID] {
		r := t.rows[i]
		if !r.fits(d.Sunday, d.Weekday) {
			continue
		}
		m := mass(c, r.Number, []Row{r})
		if r.Must {
			m.Note = noteOwn
		}
		all = append(all, m.on(c, d))
	}
	return all
}

// on adds what is to be said of a feast of the Lord outside of Sundays.
func (m Mass) on(c roman.Celebration, d *roman.Day) Mass {
	second := false
	for _, r := range m.Readings {
		second = second || r.Kind == Second
	}
	if second && c.Rank == roman.LordsFeast && d.Date.Weekday() != time.Sunday {
		m.Note = noteWeekday
	}
	return m
}

func mass(c roman.Celebration, number int, rows []Row) Mass {
	m := Mass{For: c.ID, Name: c.Name, Mass: titles[number], Readings: []Reading{}}
	if number > 0 {
		m.Number = strconv.Itoa(number)
	}
	for _, kind := range Kinds {
		for _, r := range rows {
			if r.Part == 0 {
				m.add(kind, r)
			}
		}
	}
	for _, r := range rows { // the Vigil has its readings each with its psalm
		if r.Part > 0 {
			for _, kind := range []Kind{First, Second, Psalm, Gospel} {
				m.add(kind, r)
			}
		}
	}
	return m
}

func (m *Mass) add(kind Kind, r Row) {
	cited := r.Cells[kind]
	if len(cited) == 0 {
		return
	}
	reading := Reading{Kind: kind, Alternative: Alternative{full(cited[0].Text), cited[0].Confirmed}}
	if r.Part > 0 && kind == First {
		reading.Kind = Kind(vigil[r.Part])
	} else if r.Part > 0 && kind == Second {
		reading.Kind = "epistle"
	}
	for _, a := range cited[1:] {
		reading.Alternatives = append(reading.Alternatives, Alternative{full(a.Text), a.Confirmed})
	}
	m.Readings = append(m.Readings, reading)
}

var vigil = [...]string{"", "first reading", "second reading", "third reading", "fourth reading", "fifth reading", "sixth reading", "seventh reading", ""}

// proper are the Masses of the proper of time.
func (t *Table) proper(d *roman.Day) []Mass {
	if d.Proper.ID == "holy-saturday" {
		return []Mass{empty(d.Proper, noteNoMass)}
	}
	var all []Mass
	for _, n := range numbers(d) {
		if rows := t.find(n, d.Sunday, d.Weekday); len(rows) > 0 {
			m := mass(d.Proper, n, rows).on(d.Proper, d)
			if n == 236 || n == 243 || n == 250 {
				m.Optional, m.Note = true, noteAny
			}
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return []Mass{empty(d.Proper, noteNone)}
	}
	return all
}

// named are the numbers of days that have a name; those with three cycles have their first.
var named = map[string][]int{"christmas": {13, 14, 15, 16}, "holy-family": {17}, "mary-mother-of-god": {18}, "christmas-2-sunday": {19}, "epiphany": {20},
	"baptism-of-the-lord": {21}, "ash-wednesday": {219}, "lent-0-thursday": {220}, "lent-0-friday": {221}, "lent-0-saturday": {222},
	"palm-sunday": {37, 38}, "holy-week-monday": {257}, "holy-week-tuesday": {258}, "holy-week-wednesday": {259}, "holy-thursday": {260, 39}, "good-friday": {40},
	"easter-sunday": {41, 42}, "ascension": {58}, "pentecost": {62, 63}}

// cycles are the first numbers of what has one number a cycle.
var cycles = map[string]int{"trinity": 164, "corpus-christi": 167, "sacred-heart": 170, "christ-the-king": 160, "easter-7-sunday": 59}

// numbers are those of the Lectionary for a day of the proper of time.
func numbers(d *roman.Day) []int {
	id, weekday := d.Proper.ID, int(d.Date.Weekday())
	if all := named[id]; all != nil {
		return all
	}
	cycle := int(d.Sunday[0] - 'A')
	if n := cycles[id]; n > 0 {
		return []int{n + cycle}
	}
	if day, ok := strings.CutPrefix(id, "advent-12-"); ok {
		n, _ := strconv.Atoi(day)
		return []int{193 + n - 17}
	}
	switch day := d.Date.Day(); {
	case strings.HasPrefix(id, "christmas-octave-"):
		if day < 29 { // the feasts of these days have readings, the days themselves none
			return nil
		}
		return []int{202 + day - 29}
	case strings.HasPrefix(id, "christmas-01-"):
		return []int{205 + day - 2}
	case strings.HasPrefix(id, "after-epiphany-"):
		return []int{212 + weekday - 1}
	}
	if weekday == 0 {
		first := map[roman.Season]int{roman.Advent: 1, roman.Lent: 22, roman.Easter: 43 - 3, roman.Ordinary: 64 - 3}[d.Season]
		return []int{first + 3*(d.Week-1) + cycle}
	}
	return weekdayNumbers(d, weekday-1)
}

func weekdayNumbers(d *roman.Day, weekday int) []int {
	switch d.Season {
	case roman.Advent:
		return []int{175 + 6*(d.Week-1) + weekday}
	case roman.Easter:
		return []int{261 + 6*(d.Week-1) + weekday}
	case roman.Ordinary:
		return []int{305 + 6*(d.Week-1) + weekday}
	}
	n := [...]int{0, 224, 230, 237, 244, 251}[d.Week] + weekday
	if d.Week >= 3 {
		return []int{n, [...]int{236, 243, 250}[d.Week-3]}
	}
	return []int{n}
}
