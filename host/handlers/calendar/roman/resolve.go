package roman

import (
	"cmp"
	"slices"
	"time"
)

// Why a celebration is omitted.
const (
	whyHigher   = "a celebration of higher rank is kept on this day"
	whySunday   = "it falls on a Sunday"
	whyNoSaints = "memorials are not kept on Ash Wednesday, in Holy Week and in the octave of Easter"
	whyMemorial = "an obligatory memorial is kept on this day"
	whyFeast    = "another feast is kept on this day"
	whyMoved    = "it is transferred to "
)

// resolve decides what a day is, by the table of liturgical days.
func (m *making) resolve(i int) {
	d := &m.days[i]
	saints := m.saint[i]
	slices.SortStableFunc(saints, func(a, b placed) int { return cmp.Compare(a.Precedence, b.Precedence) })
	if len(saints) > 0 && saints[0].Precedence <= 8 && saints[0].Precedence < d.Proper.Precedence {
		d.Celebrations = []Celebration{saints[0].Celebration}
		if d.Proper.Rank == Sunday {
			d.Omitted = append(d.Omitted, Omitted{Celebration: d.Proper, Why: whyHigher})
		}
		for _, s := range saints[1:] {
			d.omit(s, map[bool]string{true: whyFeast, false: whyHigher}[s.Precedence <= 8])
		}
		return
	}
	d.Celebrations = []Celebration{d.Proper}
	switch {
	case d.Proper.Precedence > 9:
		d.ordinaryDay(saints)
	case d.Proper.Precedence == 9:
		d.privileged(saints)
	default:
		why := whyHigher
		switch {
		case d.Proper.Rank == HolyDay || d.Season == Easter && d.Week == 1:
			why = whyNoSaints
		case d.Date.Weekday() == time.Sunday:
			why = whySunday
		}
		for _, s := range saints {
			if why == whyNoSaints && s.Precedence <= 8 {
				d.omit(s, whyHigher)
			} else {
				d.omit(s, why)
			}
		}
	}
}

func (d *Day) omit(p placed, why string) {
	d.Omitted = append(d.Omitted, Omitted{Celebration: p.Celebration, Why: why})
}

// privileged is a weekday of Lent, from 17 to 24 December, or in the octave of Christmas:
// memorials are commemorations there.
func (d *Day) privileged(saints []placed) {
	for _, s := range saints {
		c := s.Celebration
		c.Rank, c.RankName, c.Precedence, c.Optional, c.Colour = Commemoration, rankNames[Commemoration], 12, true, d.Proper.Colour
		d.Celebrations = append(d.Celebrations, c)
	}
}

// ordinaryDay is a weekday on which memorials are kept. Of two obligatory ones both become
// optional for the year, unless one is preferred.
func (d *Day) ordinaryDay(saints []placed) {
	var must []placed
	for _, s := range saints {
		if s.Rank == Memorial {
			must = append(must, s)
		}
	}
	if i := slices.IndexFunc(must, func(p placed) bool { return p.preferred }); i >= 0 {
		must = []placed{must[i]}
	}
	if len(must) == 1 {
		d.Celebrations = []Celebration{must[0].Celebration}
		for _, s := range saints {
			if s.ID != must[0].ID {
				d.omit(s, whyMemorial)
			}
		}
		return
	}
	for _, s := range saints {
		c := s.Celebration
		c.Rank, c.RankName, c.Precedence, c.Optional = Optional, rankNames[Optional], 12, true
		d.Celebrations = append(d.Celebrations, c)
	}
	if d.Season == Ordinary && d.Date.Weekday() == time.Saturday {
		d.Celebrations = append(d.Celebrations, Celebration{ID: "our-lady-on-saturday", Name: "Saturday Memorial of the Blessed Virgin Mary",
			Rank: Optional, RankName: rankNames[Optional], Precedence: 12, Colour: White, Optional: true})
	}
}

// tellMoved names transferred celebrations on the days that they left.
func (m *making) tellMoved() {
	for i := range m.days {
		for _, c := range m.days[i].Celebrations {
			if c.Moved == "" {
				continue
			}
			to := m.days[i].Date.Format(time.DateOnly)
			from, _ := time.Parse(time.DateOnly, c.Moved)
			c.Moved = ""
			left := m.at(from)
			left.Omitted = append(left.Omitted, Omitted{c, whyMoved + to, to})
		}
	}
}
