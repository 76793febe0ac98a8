package roman

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func calendars(t testing.TB) map[string]*Calendar {
	t.Helper()
	all, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// epact is Easter by golden number, epact and dominical letter, as Clavius has it: another way
// than that of EasterSunday.
func epact(year int) time.Time {
	golden := year%19 + 1
	century := year/100 + 1
	solar := 3*century/4 - 12
	lunar := (8*century+5)/25 - 5
	sunday := 5*year/4 - solar - 10
	e := (11*golden + 20 + lunar - solar) % 30
	if e == 25 && golden > 11 || e == 24 {
		e++
	}
	moon := 44 - e
	if moon < 21 {
		moon += 30
	}
	return Date(year, time.March, moon+7-(sunday+moon)%7)
}

func TestEaster(t *testing.T) {
	for _, date := range []string{"1970-03-29", "1978-03-26", "1981-04-19", "1989-03-26", "2000-04-23", "2005-03-27", "2008-03-23", "2011-04-24", "2013-03-31", "2016-03-27", "2018-04-01",
		"2019-04-21", "2024-03-31", "2025-04-20", "2026-04-05", "2027-03-28", "2028-04-16", "2035-03-25", "2038-04-25", "2049-04-18", "2076-04-19", "2100-03-28"} {
		want, err := time.Parse(time.DateOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		if got := EasterSunday(want.Year()); !got.Equal(want) {
			t.Errorf("Easter %d is %s, want %s", want.Year(), got.Format(time.DateOnly), date)
		}
	}
	for y := 1583; y <= 4099; y++ {
		if a, b := EasterSunday(y), epact(y); !a.Equal(b) || a.Weekday() != time.Sunday {
			t.Errorf("%d: %s and %s", y, a, b)
		}
	}
}

// TestKnownDays: what was, or is known to be, on single days.
func TestKnownDays(t *testing.T) {
	all := calendars(t)
	for _, c := range []struct{ calendar, date, want string }{
		// Transfers. Annunciation from Holy Week and the octave, and from Sundays of Lent.
		{"", "2005-04-04", "annunciation 3 white from 2005-03-25"}, {"", "2008-03-31", "annunciation 3 white from 2008-03-25"},
		{"", "2013-04-08", "annunciation 3 white from 2013-03-25"}, {"", "2016-04-04", "annunciation 3 white from 2016-03-25"},
		{"", "2018-04-09", "annunciation 3 white from 2018-03-25"}, {"", "2024-04-08", "annunciation 3 white from 2024-03-25"},
		{"", "2035-04-02", "annunciation 3 white from 2035-03-25"}, {"", "2012-03-26", "annunciation 3 white from 2012-03-25"},
		{"", "2025-03-25", "annunciation 3 white"},
		// Joseph from Holy Week goes before it, from a Sunday to Monday.
		{"", "2008-03-15", "joseph 3 white from 2008-03-19"}, {"", "2035-03-17", "joseph 3 white from 2035-03-19"},
		{"", "2017-03-20", "joseph 3 white from 2017-03-19"}, {"", "2023-03-20", "joseph 3 white from 2023-03-19"},
		// Until 1990 to the Saturday before.
		{"", "1984-03-24", "annunciation 3 white from 1984-03-25"}, {"", "1985-12-07", "immaculate-conception 3 white from 1985-12-08"},
		{"", "1990-03-24", "annunciation 3 white from 1990-03-25"}, {"", "1991-12-09", "immaculate-conception 3 white from 1991-12-08"},
		{"", "2013-12-09", "immaculate-conception 3 white from 2013-12-08"}, {"", "2019-12-09", "immaculate-conception 3 white from 2019-12-08"},
		{"", "2024-12-09", "immaculate-conception 3 white from 2024-12-08"},
		{"", "2022-06-23", "nativity-of-john-the-baptist 3 white from 2022-06-24"}, {"", "2022-06-24", "sacred-heart 3 white"},
		// Christmas.
		{"", "2022-12-30", "holy-family 5 white"}, {"", "2016-12-30", "holy-family 5 white"}, {"", "2023-12-31", "holy-family 5 white"}, {"", "2024-12-29", "holy-family 5 white"},
		{"", "2024-12-27", "john-apostle 7 white"}, {"", "2021-12-26", "holy-family 5 white"}, {"", "2024-12-24", "advent-12-24 9 violet"}, {"", "2023-12-24", "advent-4-sunday 2 violet"},
		{"", "2024-12-15", "advent-3-sunday 2 rose"}, {"", "2027-01-01", "mary-mother-of-god 3 white"},
		{"", "2024-01-06", "epiphany 2 white"}, {"", "2024-01-07", "baptism-of-the-lord 5 white"}, {"", "2023-01-08", "baptism-of-the-lord 5 white"},
		{"", "2026-01-04", "christmas-2-sunday 6 white"}, {"", "2024-01-08", "ordinary-1-monday 13 green"},
		{"united-states", "2023-01-08", "epiphany 2 white"}, {"united-states", "2023-01-09", "baptism-of-the-lord 5 white"}, {"united-states", "2024-01-07", "epiphany 2 white"},
		{"united-states", "2024-01-08", "baptism-of-the-lord 5 white"}, {"united-states", "2025-01-12", "baptism-of-the-lord 5 white"}, {"united-states", "2023-01-10", "ordinary-1-tuesday 13 green"},
		// Days that move with Easter.
		{"", "2024-02-14", "ash-wednesday 2 violet"}, {"", "2024-03-10", "lent-4-sunday 2 rose"}, {"", "2024-05-09", "ascension 2 white"}, {"united-states", "2024-05-12", "ascension 2 white"},
		{"", "2024-05-19", "pentecost 2 red"}, {"", "2024-05-26", "trinity 3 white"}, {"", "2024-05-30", "corpus-christi 3 white"}, {"malta", "2024-06-02", "corpus-christi 3 white"},
		{"", "2024-11-24", "christ-the-king 3 white"}, {"", "2024-05-21", "ordinary-7-tuesday 13 green"},
		{"", "2018-05-21", "mother-of-the-church 10 white"}, {"", "2017-06-05", "boniface 10 red"}, {"", "2020-06-01", "mother-of-the-church 10 white"},
		{"", "2020-06-20", "immaculate-heart 10 white"}, {"", "2015-06-13", "ordinary-10-saturday 13 green"}, {"", "1995-06-24", "nativity-of-john-the-baptist 3 white"},
		// Sundays that give way, and saints that do.
		{"", "2025-11-02", "all-souls 3 violet"}, {"", "2025-11-09", "dedication-of-the-lateran 5 white"}, {"", "2023-08-06", "transfiguration 5 white"},
		{"", "2025-09-14", "exaltation-of-the-cross 5 red"}, {"", "2025-02-02", "presentation-of-the-lord 5 white"}, {"", "2024-06-30", "ordinary-13-sunday 6 green"}, {"", "2025-06-29", "peter-and-paul 3 red"},
		{"", "2027-02-22", "chair-of-peter 7 white"}, {"", "2027-02-23", "lent-2-tuesday 9 violet"}, {"", "2027-03-24", "holy-week-wednesday 2 violet"},
		// What changed since 1970.
		{"", "2015-07-22", "mary-magdalene 10 white"}, {"", "2016-07-22", "mary-magdalene 7 white"}, {"", "2020-07-29", "martha 10 white"}, {"", "2021-07-29", "martha-mary-and-lazarus 10 white"},
		{"", "1979-04-11", "holy-week-wednesday 2 violet"}, {"", "1981-08-14", "ordinary-19-friday 13 green"}, {"", "1984-08-14", "maximilian-kolbe 10 red"},
		// Particular calendars.
		{"malta", "2025-02-10", "shipwreck-of-paul 4 white"}, {"malta", "2016-02-11", "shipwreck-of-paul 4 white from 2016-02-10"}, {"malta", "2027-01-22", "publius 11 white"},
		{"ireland", "2027-03-17", "patrick 4 white"}, {"ireland", "2008-03-14", "patrick 4 white from 2008-03-17"}, {"ireland", "2024-03-18", "patrick 4 white from 2024-03-17"},
		{"ireland", "1975-04-29", "catherine-of-siena 10 white"}, {"ireland", "2027-04-29", "catherine-of-siena 8 white"}, {"united-states", "2027-07-14", "kateri-tekakwitha 11 white"},
		{"united-states", "2027-12-13", "lucy 10 red"}, {"united-states", "2023-12-12", "our-lady-of-guadalupe 8 white"},
	} {
		if c.calendar == "" {
			c.calendar = General
		}
		date, err := time.Parse(time.DateOnly, c.date)
		if err != nil {
			t.Fatal(err)
		}
		p := all[c.calendar].Year(date.Year()).Day(date).Principal()
		got := fmt.Sprintf("%s %d %s", p.ID, p.Precedence, p.Colour)
		if p.Moved != "" {
			got += " from " + p.Moved
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.calendar, c.date, got, c.want)
		}
	}
}

func TestADayInFull(t *testing.T) {
	general := calendars(t)[General]
	d := general.Year(2024).Day(Date(2024, time.February, 3))
	want := []string{"ordinary-4-saturday 13 false", "blaise 12 true", "ansgar 12 true", "our-lady-on-saturday 12 true"}
	var got []string
	for _, c := range d.Celebrations {
		got = append(got, fmt.Sprintf("%s %d %v", c.ID, c.Precedence, c.Optional))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Two obligatory memorials on one day are both optional that year.
	d = general.Year(2015).Day(Date(2015, time.June, 13))
	if d.Celebrations[1].Rank != Optional || d.Celebrations[2].Rank != Optional || !d.Celebrations[1].Optional {
		t.Errorf("%+v", d.Celebrations)
	}
	for _, c := range []struct{ date, id, why string }{
		{"2024-03-17", "patrick", whySunday}, {"2025-04-21", "anselm", whyNoSaints}, {"2024-12-09", "juan-diego", whyHigher}, {"2024-12-29", "thomas-becket", whySunday},
		{"2022-12-30", "", ""}, {"2020-06-01", "justin", whyMemorial}, {"2026-02-18", "", ""}, {"2021-02-17", "seven-founders", whyNoSaints},
	} {
		date, _ := time.Parse(time.DateOnly, c.date)
		o := general.Year(date.Year()).Day(date).Omitted
		if c.id == "" && len(o) > 0 || c.id != "" && (len(o) != 1 || o[0].ID != c.id || o[0].Why != c.why) {
			t.Errorf("%s: %+v", c.date, o)
		}
	}
	c := general.Year(2027).Day(Date(2027, time.February, 23)).Celebrations[1]
	if c.ID != "polycarp" || c.Rank != Commemoration || c.Colour != Violet || !c.Optional {
		t.Errorf("%+v", c)
	}
}

func TestCyclesAndWeeks(t *testing.T) {
	general := calendars(t)[General]
	for _, c := range []struct {
		date string
		want string
	}{
		{"2024-11-30", "ordinary 34 B II 2 2024"}, {"2024-12-01", "advent 1 C I 1 2025"}, {"2025-11-30", "advent 1 A II 1 2026"}, {"2026-11-29", "advent 1 B I 1 2027"},
		{"1970-01-01", "christmas 1 B II 1 1970"}, {"2199-12-31", "christmas 1 A II 1 2200"}, {"2024-02-15", "lent 0 B II 4 2024"}, {"2024-03-25", "lent 6 B II 2 2024"},
		{"2024-03-29", "triduum 6 B II 2 2024"}, {"2024-03-31", "easter 1 B II 1 2024"}, {"2024-05-19", "easter 8 B II 4 2024"}, {"2027-01-03", "christmas 2 B I 2 2027"}, {"2027-01-05", "christmas 2 B I 2 2027"},
	} {
		date, _ := time.Parse(time.DateOnly, c.date)
		d := general.Year(date.Year()).Day(date)
		if got := fmt.Sprintf("%s %d %s %s %d %d", d.Season, d.Week, d.Sunday, d.Weekday, d.Psalter, d.Year); got != c.want {
			t.Errorf("%s: %s, want %s", c.date, got, c.want)
		}
	}
}

// TestEveryDay: what must hold on each day of all years, in every calendar.
func TestEveryDay(t *testing.T) {
	for id, c := range calendars(t) {
		seen := 0
		for y := FirstYear; y <= LastYear; y++ {
			year := c.Year(y)
			date := Date(y, time.January, 1)
			for i := range year.Days() {
				d := &year.Days()[i]
				if !d.Date.Equal(date) || year.Day(date) != d {
					t.Fatalf("%s: %s is at the place of %s", id, d.Date, date)
				}
				if wrong := checkDay(d); wrong != "" {
					t.Errorf("%s %s: %s: %+v", id, date.Format(time.DateOnly), wrong, d)
				}
				date = plus(date, 1)
				seen++
			}
			if date.Year() != y+1 {
				t.Errorf("%s: %d ends at %s", id, y, date)
			}
			checkYear(t, id, year)
		}
		if seen != 84006 { // 230 years with 56 leap days
			t.Errorf("%s: %d days", id, seen)
		}
	}
}

func checkDay(d *Day) string {
	first, ids := d.Principal(), map[string]bool{}
	if first.Optional {
		return "what the day is, is optional"
	}
	for i, c := range d.Celebrations {
		switch {
		case ids[c.ID]:
			return "a celebration stands twice"
		case c.Name == "" || c.RankName == "" || c.Colour == "" || c.Precedence < 1 || c.Precedence > 13:
			return "a celebration is not whole"
		case i > 0 && (!c.Optional || c.Precedence != 12):
			return "more than one celebration is kept"
		}
		ids[c.ID] = true
	}
	for _, o := range d.Omitted {
		if o.Precedence < first.Precedence {
			return "what goes before is omitted"
		}
	}
	low := first.Rank == Memorial || first.Rank == Optional
	switch {
	case low && (d.Season == Lent || d.Season == Triduum):
		return "a memorial in Lent"
	case low && d.Date.Weekday() == time.Sunday:
		return "a memorial on a Sunday"
	case d.Psalter < 1 || d.Psalter > 4 || d.Week < 0 || d.Week > 34:
		return "a week that is none"
	case d.Date.Weekday() == time.Sunday && first.Precedence > 6:
		return "a Sunday that is less"
	}
	return ""
}

var order = []Season{Christmas, Ordinary, Lent, Triduum, Easter, Ordinary, Advent, Christmas}

func checkYear(t *testing.T, id string, y *Year) {
	t.Helper()
	days := y.Days()
	year := days[0].Date.Year()
	var seasons []Season
	count := map[string]int{}
	last := 0
	for i := range days {
		d := &days[i]
		if i == 0 || d.Season != days[i-1].Season {
			seasons = append(seasons, d.Season)
		}
		for _, c := range d.Celebrations {
			if !c.Optional {
				count[c.ID]++
			}
		}
		if d.Season == Ordinary && d.Week != last {
			if d.Week != last+1 && (d.Week != last+2 || d.Date.Month() < time.May) {
				t.Errorf("%s %s: week %d in Ordinary Time comes after %d", id, d.Date.Format(time.DateOnly), d.Week, last)
			}
			last = d.Week
		}
		if i > 0 && d.Sunday != days[i-1].Sunday && d.Proper.ID != "advent-1-sunday" {
			t.Errorf("%s %s: the cycle changes", id, d.Date.Format(time.DateOnly))
		}
	}
	if last != 34 {
		t.Errorf("%s %d: Ordinary Time ends with week %d", id, year, last)
	}
	if !slices.Equal(seasons, order) {
		t.Errorf("%s %d: %v", id, year, seasons)
	}
	for _, once := range []string{"christmas", "epiphany", "mary-mother-of-god", "baptism-of-the-lord", "holy-family", "joseph", "annunciation", "nativity-of-john-the-baptist", "peter-and-paul",
		"assumption", "all-saints", "all-souls", "immaculate-conception", "ascension", "pentecost", "trinity", "corpus-christi", "sacred-heart", "christ-the-king", "easter-sunday", "ash-wednesday"} {
		if count[once] != 1 {
			t.Errorf("%s %d: %s is kept %d times", id, year, once, count[once])
		}
	}
}

func TestFilesThatAreWrong(t *testing.T) {
	general := calendars(t)[General]
	const head = "id: own\nname: Own\n"
	for text, want := range map[string]string{
		"":                   "is empty",
		"id: Own\nname: x\n": "needs a name of one line, and an id",
		"id: own\n":          "needs a name",
		"id: own\nname: \"Evil\\nCalendar: x\"\n":                                          "needs a name of one line",
		head + "celebrations:\n- {id: a, name: \"A\\u202eB\", rank: feast, date: 02-03}\n": "needs a name of one line",
		head + "colours: red\n":                "unknown field",
		head + "layer: general\n":              "layer is",
		head + "options: {epiphany: monday}\n": `options.epiphany is "monday"`,
		head + "omit: [nobody]\n":              `no "nobody"`,
		head + "celebrations:\n- {id: a, name: A, rank: feast, date: 02-30}\n":                          `date "02-30"`,
		head + "celebrations:\n- {id: a, name: A, rank: feast, date: 02-29}\n":                          `in any year`,
		head + "celebrations:\n- {id: a, name: A, rank: feast, date: easter+0}\n":                       "1 to 200",
		head + "celebrations:\n- {id: a, name: A, rank: great, date: 02-03}\n":                          `rank "great"`,
		head + "celebrations:\n- {id: a, name: A, rank: feast, date: 02-03, colour: blue}\n":            `colour "blue"`,
		head + "celebrations:\n- {id: a, name: A, rank: feast, date: 02-03, prefer: never}\n":           "before or after",
		head + "celebrations:\n- {id: a, name: A, rank: feast, date: 02-03, from: 2020, until: 2019}\n": "after until",
		head + "celebrations:\n- {id: a, rank: feast, date: 02-03}\n":                                   "celebration 1 (a): needs a name",
		strings.Repeat("#", MaxFile+1): "is larger",
		head + "celebrations:\n" + strings.Repeat("- {id: a, name: A, rank: feast, date: 02-03}\n", maxCelebrations+1): "more than 1000",
	} {
		if _, err := Parse([]byte(text), general); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100q: %v, want %q", text, err, want)
		}
	}
}

// TestAFullYear: a file that leaves no day open still gives a calendar.
func TestAFullYear(t *testing.T) {
	var b strings.Builder
	b.WriteString("id: own\nname: Own\ncelebrations:\n")
	for i := range 365 {
		fmt.Fprintf(&b, "- {id: s%d, name: S, rank: solemnity, date: %s}\n", i, Date(2023, time.January, 1+i).Format("01-02"))
	}
	c, err := Parse([]byte(b.String()), calendars(t)[General])
	if err != nil {
		t.Fatal(err)
	}
	for y := FirstYear; y < FirstYear+40; y++ {
		for _, d := range c.Year(y).Days() {
			if len(d.Celebrations) == 0 {
				t.Fatalf("%s is no day", d.Date)
			}
		}
	}
}

// FuzzCalendarFile: a text is no calendar, or one in which each day has a celebration that is kept.
func FuzzCalendarFile(f *testing.F) {
	all := calendars(f)
	f.Add([]byte("id: a\nname: A\noptions: {epiphany: sunday}\nomit: [joseph]\ncelebrations:\n- {id: b, date: 03-17, rank: solemnity, name: B, in_holy_week: before}\n"))
	f.Add([]byte("id: a\nname: A\ncelebrations:\n- {id: b, date: easter+3, rank: solemnity, name: B, titles: [martyr], prefer: before, from: 1990, until: 2100}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text, all[General])
		if err != nil {
			return
		}
		for _, y := range []int{1990, 2199} {
			for _, d := range c.Year(y).Days() {
				if len(d.Celebrations) == 0 || d.Principal().Optional {
					t.Fatalf("%s: %+v", d.Date, d)
				}
			}
		}
	})
}

func BenchmarkYear(b *testing.B) {
	c := calendars(b)[General]
	for b.Loop() {
		c.Year(2024)
	}
}

func BenchmarkDay(b *testing.B) {
	y := calendars(b)[General].Year(2024)
	date := Date(2024, time.May, 9)
	for b.Loop() {
		if len(y.Day(date).Celebrations) == 0 {
			b.Fatal("no day")
		}
	}
}
