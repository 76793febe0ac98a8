package roman

import (
	"fmt"
	"strings"
	"time"
)

// movable are the days that one civil year turns on.
type movable struct {
	year                                                            int
	epiphany, baptism, ash, easter, ascension, corpus, advent, king time.Time
	family                                                          time.Time
}

func movableOf(year int, o options) movable {
	m := movable{year: year, easter: EasterSunday(year), advent: AdventSunday(year)}
	m.epiphany = Date(year, time.January, 6)
	m.baptism = sundayFrom(Date(year, time.January, 7))
	if o.Epiphany == onSunday {
		m.epiphany = sundayFrom(Date(year, time.January, 2))
		m.baptism = sundayFrom(plus(m.epiphany, 1))
		if m.epiphany.Day() > 6 {
			m.baptism = plus(m.epiphany, 1)
		}
	}
	m.ash, m.ascension, m.corpus = plus(m.easter, -46), plus(m.easter, 39), plus(m.easter, 60)
	if o.Ascension == onSunday {
		m.ascension = plus(m.easter, 42)
	}
	if o.CorpusChristi == onSunday {
		m.corpus = plus(m.easter, 63)
	}
	m.king = plus(m.advent, -7)
	if m.family = sundayFrom(Date(year, time.December, 26)); m.family.Year() > year {
		m.family = Date(year, time.December, 30) // Christmas is a Sunday
	}
	return m
}

var ordinals = []string{"", "First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth", "Ninth", "Tenth", "Eleventh", "Twelfth", "Thirteenth",
	"Fourteenth", "Fifteenth", "Sixteenth", "Seventeenth", "Eighteenth", "Nineteenth", "Twentieth"}

// Ordinal is a number from 1 to 39 as the word that names of days have; of any other it is "".
func Ordinal(n int) string {
	switch {
	case n < 1 || n > 39:
		return ""
	case n < len(ordinals):
		return ordinals[n]
	case n == 30:
		return "Thirtieth"
	case n > 30:
		return "Thirty-" + strings.ToLower(ordinals[n-30])
	}
	return "Twenty-" + strings.ToLower(ordinals[n-20])
}

// set fills in what a day of the proper of time is.
func (d *Day) set(season Season, week int, id, name string, rank Rank, precedence int, c Colour) {
	d.Season, d.Week = season, week
	d.Proper = Celebration{ID: id, Name: name, Rank: rank, RankName: rankNames[rank], Precedence: precedence, Colour: c}
}

// in is a Sunday or weekday of a week: its id is season-week-weekday.
func (d *Day) in(season Season, week int, called string, weekday int, sunday int, c Colour) {
	day := d.Date.Weekday()
	id := fmt.Sprintf("%s-%d-%s", season, week, strings.ToLower(day.String()))
	if day == time.Sunday {
		d.set(season, week, id, Ordinal(week)+" Sunday "+called, Sunday, sunday, c)
		return
	}
	where := "of the " + Ordinal(week) + " Week " + called
	d.set(season, week, id, day.String()+" "+where, Weekday, weekday, c)
}

// properOfTime makes a day with what the proper of time alone says of it.
func properOfTime(t time.Time, m movable) Day {
	d := Day{Date: t, Year: m.year}
	if !t.Before(m.advent) {
		d.Year++
	}
	d.Sunday, d.Weekday = string("CAB"[d.Year%3]), []string{"II", "I"}[d.Year%2]
	switch {
	case t.Month() == time.December && t.Day() >= 25:
		d.christmasOctave(m)
	case !t.Before(m.advent):
		d.advent(m)
	case !t.After(m.baptism):
		d.january(m)
	case t.Before(m.ash):
		d.ordinary(between(m.baptism, t) + int(m.baptism.Weekday()))
	case t.Before(m.easter):
		d.lent(m)
	case !t.After(plus(m.easter, 49)):
		d.easterTime(m)
	default:
		d.afterPentecost(m)
	}
	d.Psalter = psalter(d.Season, d.Week)
	return d
}

func psalter(s Season, week int) int {
	switch {
	case week == 0: // the days after Ash Wednesday
		return 4
	case s == Triduum:
		return 2
	}
	return (week-1)%4 + 1
}

func (d *Day) advent(m movable) {
	week := between(m.advent, d.Date)/7 + 1
	c := Violet
	if week == 3 && d.Date.Weekday() == time.Sunday {
		c = Rose
	}
	d.in(Advent, week, "of Advent", 13, 2, c)
	if d.Date.Month() == time.December && d.Date.Day() >= 17 && d.Date.Weekday() != time.Sunday {
		d.set(Advent, week, fmt.Sprintf("advent-12-%d", d.Date.Day()), fmt.Sprintf("%d December, Weekday of Advent", d.Date.Day()), Weekday, 9, c)
	}
}

// christmasWeek counts the Sundays after Christmas Day that have come; the days before the
// first are of week 1 too.
func christmasWeek(t time.Time) int {
	year := t.Year()
	if t.Month() == time.January {
		year--
	}
	return max(1, between(sundayFrom(Date(year, time.December, 26)), t)/7+1)
}

func (d *Day) christmasOctave(m movable) {
	week, n := 1, d.Date.Day()-24
	switch {
	case n == 1:
		d.set(Christmas, week, "christmas", "The Nativity of the Lord (Christmas)", Solemnity, 2, White)
	case d.Date.Equal(m.family):
		d.set(Christmas, week, "holy-family", "The Holy Family of Jesus, Mary and Joseph", LordsFeast, 5, White)
	default:
		d.set(Christmas, week, fmt.Sprintf("christmas-octave-%d", n), Ordinal(n)+" Day within the Octave of Christmas", Weekday, 9, White)
	}
}

func (d *Day) january(m movable) {
	t, week := d.Date, christmasWeek(d.Date)
	switch {
	case t.Day() == 1:
		d.set(Christmas, week, "mary-mother-of-god", "Mary, the Holy Mother of God", Solemnity, 3, White)
	case t.Equal(m.epiphany):
		d.set(Christmas, week, "epiphany", "The Epiphany of the Lord", Solemnity, 2, White)
	case t.Equal(m.baptism):
		d.set(Christmas, week, "baptism-of-the-lord", "The Baptism of the Lord", LordsFeast, 5, White)
	case t.Weekday() == time.Sunday:
		d.set(Christmas, week, "christmas-2-sunday", "Second Sunday after Christmas", Sunday, 6, White)
	case t.Before(m.epiphany):
		d.set(Christmas, week, fmt.Sprintf("christmas-01-%02d", t.Day()), fmt.Sprintf("%d January, Weekday of Christmas Time", t.Day()), Weekday, 13, White)
	default:
		day := t.Weekday().String()
		d.set(Christmas, week, "after-epiphany-"+strings.ToLower(day), day+" after Epiphany", Weekday, 13, White)
	}
}

func (d *Day) ordinary(n int) {
	d.in(Ordinary, n/7+1, "in Ordinary Time", 13, 6, Green)
}

func (d *Day) lent(m movable) {
	t, n := d.Date, between(m.ash, d.Date)
	day := t.Weekday().String()
	id := strings.ToLower(day)
	week := (n + 3) / 7
	switch left := between(t, m.easter); {
	case n == 0:
		d.set(Lent, 0, "ash-wednesday", "Ash Wednesday", HolyDay, 2, Violet)
	case week == 0:
		d.set(Lent, 0, "lent-0-"+id, day+" after Ash Wednesday", Weekday, 9, Violet)
	case left == 7:
		d.set(Lent, week, "palm-sunday", "Palm Sunday of the Passion of the Lord", Sunday, 2, Red)
	case left == 3:
		d.set(Lent, week, "holy-thursday", "Thursday of Holy Week (Holy Thursday)", HolyDay, 2, White)
	case left == 2:
		d.set(Triduum, week, "good-friday", "Friday of the Passion of the Lord (Good Friday)", HolyDay, 1, Red)
	case left == 1:
		d.set(Triduum, week, "holy-saturday", "Holy Saturday", HolyDay, 1, Violet)
	case left < 7:
		d.set(Lent, week, "holy-week-"+id, day+" of Holy Week", HolyDay, 2, Violet)
	case week == 4 && t.Weekday() == time.Sunday:
		d.in(Lent, week, "of Lent", 9, 2, Rose)
	default:
		d.in(Lent, week, "of Lent", 9, 2, Violet)
	}
}

func (d *Day) easterTime(m movable) {
	t, n := d.Date, between(m.easter, d.Date)
	day, week := t.Weekday().String(), n/7+1
	switch {
	case n == 0:
		d.set(Easter, week, "easter-sunday", "Easter Sunday of the Resurrection of the Lord", Solemnity, 1, White)
	case n < 7:
		d.set(Easter, week, "easter-1-"+strings.ToLower(day), day+" within the Octave of Easter", Solemnity, 2, White)
	case t.Equal(m.ascension):
		d.set(Easter, week, "ascension", "The Ascension of the Lord", Solemnity, 2, White)
	case n == 49:
		d.set(Easter, week, "pentecost", "Pentecost Sunday", Solemnity, 2, Red)
	case n == 7:
		d.set(Easter, week, "easter-2-sunday", "Second Sunday of Easter (or of Divine Mercy)", Sunday, 2, White)
	default:
		d.in(Easter, week, "of Easter", 13, 2, White)
	}
}

func (d *Day) afterPentecost(m movable) {
	t := d.Date
	week := 34 - (between(t, m.advent)-1)/7
	switch {
	case between(m.easter, t) == 56:
		d.set(Ordinary, week, "trinity", "The Most Holy Trinity", Solemnity, 3, White)
	case t.Equal(m.corpus):
		d.set(Ordinary, week, "corpus-christi", "The Most Holy Body and Blood of Christ", Solemnity, 3, White)
	case between(m.easter, t) == 68:
		d.set(Ordinary, week, "sacred-heart", "The Most Sacred Heart of Jesus", Solemnity, 3, White)
	case t.Equal(m.king):
		d.set(Ordinary, week, "christ-the-king", "Our Lord Jesus Christ, King of the Universe", Solemnity, 3, White)
	default:
		d.in(Ordinary, week, "in Ordinary Time", 13, 6, Green)
	}
}
