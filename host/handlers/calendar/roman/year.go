package roman

import (
	"cmp"
	"slices"
	"time"
)

// Year is a civil year's days. It does not change once it is made.
type Year struct {
	days []Day
}

// Day is the day of a date of the year.
func (y *Year) Day(t time.Time) *Day { return &y.days[t.YearDay()-1] }

// Days are all days, in order.
func (y *Year) Days() []Day { return y.days }

// placed is a celebration that has found its day.
type placed struct {
	Celebration
	preferred bool
}

// making is a year while it is made.
type making struct {
	movable
	days  []Day
	saint [][]placed
}

// Year computes a civil year from FirstYear to LastYear.
func (c *Calendar) Year(year int) *Year {
	m := &making{movable: movableOf(year, c.options)}
	n := Date(year, time.December, 31).YearDay()
	m.days, m.saint = make([]Day, n), make([][]placed, n)
	for i := range m.days {
		m.days[i] = properOfTime(Date(year, time.January, 1+i), m.movable)
	}
	var solemnities []row
	for _, r := range c.rows {
		t, ok := r.in(m.movable)
		switch {
		case !ok:
		case r.Rank == Solemnity:
			solemnities = append(solemnities, r)
		default:
			m.put(r, t, "")
		}
	}
	// Those of the general calendar are placed first, then those that are proper.
	slices.SortStableFunc(solemnities, func(a, b row) int { return cmp.Compare(a.class, b.class) })
	for _, r := range solemnities {
		t, _ := r.in(m.movable)
		if day := m.place(r, t); day.Equal(t) {
			m.put(r, t, "")
		} else {
			m.put(r, day, t.Format(time.DateOnly))
		}
	}
	for i := range m.days {
		m.resolve(i)
	}
	m.tellMoved()
	return &Year{days: m.days}
}

func (m *making) put(r row, t time.Time, moved string) {
	name := r.RankName
	if name == "" {
		name = rankNames[r.Rank]
	}
	i := t.YearDay() - 1
	m.saint[i] = append(m.saint[i], placed{Celebration{ID: r.ID, Name: r.Name, Rank: r.Rank, RankName: name, Precedence: r.class,
		Colour: r.Colour, Titles: r.Titles, From: r.proper, Moved: moved}, r.Preferred})
}

// untilMonday is the decree since which a solemnity on a Sunday of Advent, Lent or Easter is kept on the
// Monday after; before it was on the Saturday before.
var untilMonday = Date(1990, time.April, 22)

// place finds a solemnity's day: its own, or the one that it is transferred to. In a year without
// an open day, as an operator's file might have it, it stays, and gives way.
func (m *making) place(r row, t time.Time) time.Time {
	if m.holds(t, r.class) {
		return t
	}
	palms, octave := plus(m.easter, -7), plus(m.easter, 7)
	day, ok := t, false
	switch {
	case !t.Before(palms) && !t.After(octave):
		if r.InHolyWeek == "before" {
			day, ok = m.free(plus(palms, -1), -1)
		} else {
			day, ok = m.free(plus(octave, 1), 1)
		}
	case t.Weekday() == time.Sunday && m.at(t).Proper.Rank == Sunday:
		if t.Before(untilMonday) {
			day, ok = m.free(plus(t, -1), -1)
		} else {
			day, ok = m.free(plus(t, 1), 1)
		}
	default:
		day, ok = m.nearest(t, r.Prefer == "before")
	}
	if !ok {
		return t
	}
	return day
}

func (m *making) at(t time.Time) *Day { return &m.days[t.YearDay()-1] }

// holds tells whether a celebration of a class can be kept on its own day.
func (m *making) holds(t time.Time, class int) bool {
	if m.at(t).Proper.Precedence <= class {
		return false
	}
	for _, p := range m.saint[t.YearDay()-1] {
		if p.Rank == Solemnity && p.Precedence <= class {
			return false
		}
	}
	return true
}

// open tells whether a day of the year is none of the first eight classes of the table.
func (m *making) open(t time.Time) bool {
	if t.Year() != m.year || m.at(t).Proper.Precedence <= 8 {
		return false
	}
	return !slices.ContainsFunc(m.saint[t.YearDay()-1], func(p placed) bool { return p.Precedence <= 8 })
}

// free is the first open day of the year from a date on, in steps of one day.
func (m *making) free(t time.Time, step int) (time.Time, bool) {
	for t.Year() == m.year && !m.open(t) {
		t = plus(t, step)
	}
	return t, t.Year() == m.year
}

// nearest is the open day that is nearest to a date; of two the later, or the earlier.
func (m *making) nearest(t time.Time, earlier bool) (time.Time, bool) {
	step := 1
	if earlier {
		step = -1
	}
	for n := 1; n <= len(m.days); n++ {
		for _, d := range []int{step * n, -step * n} {
			if at := plus(t, d); m.open(at) {
				return at, true
			}
		}
	}
	return t, false
}
