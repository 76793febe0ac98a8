package main

import (
	"slices"
	"strings"
	"time"

	"ailang.dev/world/host/handlers/calendar/roman"
)

// Why days differ. What the norms say stands in UNLYC, the Universal Norms on the Liturgical Year
// and the Calendar.
const (
	whySaturday  = "Our Lady on Saturday: romcal does not list it"
	whyChristmas = "weeks of Christmas time: romcal counts the week of 25 December as one more; the psalter goes with it"
	whyTriduum   = "weeks of the Triduum: romcal begins a season of its own there; here it is in Holy Week"
	whyHolyWeek  = "Monday to Thursday of Holy Week: class 2 in UNLYC 59, weekdays of class 9 in romcal"
	whyThursday  = "Holy Thursday: one day here, white; in romcal a violet weekday and the Mass of the Lord's Supper"
	whySabbath   = "Holy Saturday has no Mass in the day: romcal gives no colour"
	whyBaptism   = "the Baptism of the Lord is a feast of the Lord, class 5 (UNLYC 59); in romcal a solemnity of class 2"
	whyAssumed   = "the Assumption is class 3 like all solemnities of the general calendar; in romcal class 2"
	whyHistory   = "the calendar of that year: romcal has today's for all years"
	why1990      = "until 1990 a solemnity on a Sunday of Advent or Lent was kept on the Saturday before; romcal has the rule of today, or leaves it out"
	whyAnnounced = "the Annunciation on a Sunday of Lent goes to Monday (UNLYC 5); romcal leaves it out"
	whyJoseph    = "Saint Joseph in Holy Week goes to the Saturday before Palm Sunday; romcal moves it within Holy Week, or leaves it out"
	whyBaptist   = "the Nativity of Saint John the Baptist gives way to the Sacred Heart or Corpus Christi and is transferred (UNLYC 60, and the notice for 2022); romcal leaves it out"
	whyPeter     = "Saints Peter and Paul give way to the Sacred Heart and go to 30 June (UNLYC 60); romcal leaves them out"
	whyHeart     = "a solemnity or feast goes before the memorial of the Immaculate Heart (UNLYC 59); romcal has the memorial"
	whyTwo       = "the Immaculate Heart and another obligatory memorial on one day are both optional (notice of 8 December 1998); romcal keeps the former"
	whyMother    = "Mary, Mother of the Church goes before a saint's memorial (notice of 24 March 2018); romcal has the saint"
	whyPatron    = "a proper solemnity in Holy Week or on a Sunday of Lent is transferred (UNLYC 5, 60); romcal leaves it out, or keeps it on the privileged day"
	whyPaul      = "the Shipwreck of Saint Paul on Ash Wednesday or a Sunday of Lent is transferred (UNLYC 5, 60); romcal leaves it out"
	whySorrows   = "Our Lady of Sorrows: romcal's calendar of Malta has it on 15 April each year, and not on 15 September"
	whyMartyrs   = "martyrs are celebrated in red; romcal has the Irish Martyrs in white"
	whyUSA       = "the Immaculate Conception is proper to the United States as its patronal feast in romcal, class 4"
)

// untilMonday is the decree by which a solemnity on such a Sunday goes to the Monday after.
var untilMonday = roman.Date(1990, time.April, 22)

// explain says why a difference is there; "" if nothing is known.
func explain(k kind, t time.Time, d *roman.Day, c *roman.Calendar) string {
	switch k.what {
	case "celebration":
		return explainDay(k, t, d, c)
	case "option":
		switch {
		case k.ours == "our-lady-on-saturday":
			return whySaturday
		case k.theirs == "thursday_of_the_lords_supper":
			return whyThursday
		}
	case "week", "psalter week":
		switch d.Season {
		case roman.Christmas:
			return whyChristmas
		case roman.Triduum:
			return whyTriduum
		}
		return ""
	}
	return explainCelebration(k, t, d, c)
}

// changed tells whether one of the celebrations stands otherwise in the calendar of the last year.
func changed(c *roman.Calendar, year int, ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool {
		return id != "" && !slices.Equal(c.Standing(id, year), c.Standing(id, roman.LastYear))
	})
}

func explainCelebration(k kind, t time.Time, d *roman.Day, c *roman.Calendar) string {
	id := d.Principal().ID
	if k.what == "option" {
		id = k.ours + k.theirs
	}
	if changed(c, t.Year(), id) {
		return whyHistory
	}
	switch {
	case strings.HasPrefix(id, "holy-week-") && k.what == "precedence":
		return whyHolyWeek
	case id == "holy-thursday" && k.what == "precedence":
		return whyHolyWeek
	case id == "holy-thursday" && k.what == "colour":
		return whyThursday
	case id == "holy-saturday" && k.what == "colour":
		return whySabbath
	case id == "baptism-of-the-lord" && k.what != "colour":
		return whyBaptism
	case id == "assumption" && k.what == "precedence":
		return whyAssumed
	case id == "irish-martyrs" && k.what == "colour":
		return whyMartyrs
	case id == "immaculate-conception" && k.what == "precedence" && c.ID == "united-states":
		return whyUSA
	}
	return ""
}

// explainDay is about a day that is another thing in romcal.
func explainDay(k kind, t time.Time, d *roman.Day, c *roman.Calendar) string {
	first := d.Principal()
	easter := roman.EasterSunday(t.Year())
	is := func(id string) bool { return k.ours == id || k.theirs == id }
	switch {
	case is("our-lady-of-sorrows") && c.ID == "malta":
		return whySorrows
	case t.Before(untilMonday.AddDate(0, 10, 0)) && (is("annunciation") || is("immaculate-conception") || is("joseph") || is("patrick")) && sundayBy(t):
		return why1990
	case k.ours == "annunciation" && first.Moved != "":
		return whyAnnounced
	case is("joseph") && t.Before(easter) && t.After(easter.AddDate(0, 0, -9)):
		return whyJoseph
	case k.ours == "nativity-of-john-the-baptist" && first.Moved != "":
		return whyBaptist
	case k.ours == "peter-and-paul" && first.Moved != "":
		return whyPeter
	case k.theirs == "immaculate-heart" && first.Precedence <= 8:
		return whyHeart
	case is("patrick") && (first.Moved != "" || t.Before(easter) && t.After(easter.AddDate(0, 0, -8))):
		return whyPatron
	case k.ours == "shipwreck-of-paul" && first.Moved != "":
		return whyPaul
	case changed(c, t.Year(), k.ours, k.theirs):
		return whyHistory
	case k.theirs == "immaculate-heart" && slices.ContainsFunc(d.Celebrations, func(o roman.Celebration) bool { return o.ID == "immaculate-heart" && o.Optional }):
		return whyTwo
	case k.ours == "mother-of-the-church":
		return whyMother
	}
	return ""
}

// sundayBy tells whether a day is next to a Sunday.
func sundayBy(t time.Time) bool { return t.Weekday() == time.Saturday || t.Weekday() == time.Monday }
