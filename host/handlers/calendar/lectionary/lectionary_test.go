package lectionary

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/handlers/calendar/roman"
)

func load(t testing.TB) (*Table, map[string]*roman.Calendar) {
	t.Helper()
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	all, err := roman.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return table, all
}

func TestReadingsOfADay(t *testing.T) {
	table, all := load(t)
	for _, c := range []struct {
		calendar, date string
		want           []string
	}{
		{"", "2026-11-29", []string{"2 first reading Isaiah 63:16b-17, 19b; 64:2-7", "2 gospel Mark 13:33-37"}},
		{"", "2026-12-01", []string{"176 first reading Isaiah 11:1-10", "176 gospel Luke 10:21-24"}},
		{"", "2026-12-18", []string{"194 first reading Jeremiah 23:5-8"}},
		{"", "2026-12-25", []string{"13 gospel Matthew 1:1-25", "14 gospel Luke 2:1-14", "15 gospel Luke 2:15-20", "16 gospel John 1:1-18"}},
		{"", "2026-12-30", []string{"203 first reading 1 John 2:12-17"}},
		{"", "2027-01-04", []string{"207 first reading 1 John 3:7-10"}},
		{"", "2027-01-07", []string{"215 first reading 1 John 4:19—5:4"}},
		{"", "2027-01-12", []string{"306 first reading Hebrews 2:5-12", "306 gospel Mark 1:21-28"}},
		{"", "2026-01-13", []string{"306 first reading 1 Samuel 1:9-20", "306 gospel Mark 1:21-28"}},
		{"", "2027-02-10", []string{"219 gospel Matthew 6:1-6, 16-18"}},
		{"", "2027-02-13", []string{"222 first reading Isaiah 58:9b-14"}},
		{"", "2027-03-02", []string{"238 first reading Daniel 3:25, 34-43", "236 gospel John 4:5-42"}},
		{"", "2027-03-21", []string{"37 gospel Mark 11:1-10", "38 gospel Mark 14:1—15:47"}},
		{"", "2027-03-25", []string{"260 gospel Luke 4:16-21", "39 gospel John 13:1-15"}},
		{"", "2027-03-26", []string{"40 gospel John 18:1—19:42"}},
		{"", "2027-03-28", []string{"41 seventh reading Ezekiel 36:16-17a, 18-28", "41 epistle Romans 6:3-11", "41 gospel Mark 16:1-7", "42 gospel John 20:1-9"}},
		{"", "2027-03-30", []string{"262 gospel John 20:11-18"}},
		{"", "2027-05-06", []string{"58 gospel Mark 16:15-20"}},
		{"", "2027-05-09", []string{"60 gospel John 17:11b-19"}},
		{"malta", "2027-05-09", []string{"58 gospel Mark 16:15-20"}},
		{"", "2027-05-14", []string{"564 gospel John 15:9-17"}},
		{"", "2027-05-16", []string{"62 gospel John 7:37-39", "63 gospel John 20:19-23"}},
		{"", "2027-05-17", []string{" gospel John 19:25-34", "341 gospel Mark 9:14-29"}},
		{"", "2027-06-24", []string{"586 gospel Luke 1:5-17", "587 gospel Luke 1:57-66, 80"}},
		{"", "2027-11-21", []string{"161 gospel John 18:33b-37"}},
		{"", "2027-11-27", []string{"508 gospel Luke 21:34-36", "508 first reading Daniel 7:15-27"}},
		// What goes with the Sunday cycle on a weekday.
		{"", "2026-04-27", []string{"279 gospel John 10:11-18"}}, {"", "2025-05-12", []string{"279 gospel John 10:1-10"}},
		{"", "2025-04-07", []string{"251 gospel John 8:12-20"}}, {"", "2024-03-18", []string{"251 gospel John 8:1-11"}},
		{"", "2026-08-03", []string{"407 gospel Matthew 14:22-36"}}, {"", "2025-08-05", []string{"408 gospel Matthew 14:22-36"}},
	} {
		if c.calendar == "" {
			c.calendar = roman.General
		}
		date, err := time.Parse(time.DateOnly, c.date)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range table.Of(all[c.calendar].Year(date.Year()).Day(date)) {
			for _, r := range m.Readings {
				got = append(got, m.Number+" "+string(r.Kind)+" "+r.Citation)
			}
		}
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s %s lacks %q:\n%s", c.calendar, c.date, want, strings.Join(got, "\n"))
			}
		}
	}
}

// TestEveryDayHasReadings: in all years and calendars each day has a Mass that is whole, but All
// Souls, Holy Saturday, and proper solemnities and feasts that the table lacks, which say so.
func TestEveryDayHasReadings(t *testing.T) {
	table, all := load(t)
	for y := roman.FirstYear; y <= roman.LastYear; y++ {
		for _, d := range daysOf(all, y) {
			whole := 0
			for _, m := range table.Of(&d) {
				if missing := lacks(m); missing != "" && m.Note != noteOwn && !(m.Note == noteNone && len(m.Readings) == 0 && d.Principal().From != "") {
					t.Errorf("%s %s %s lacks %s", d.Date.Format(time.DateOnly), m.For, m.Number, missing)
				} else if missing == "" && len(m.Readings) > 0 {
					whole++
				}
			}
			first := d.Principal()
			proper := first.From != "" && len(table.saint[first.ID]) == 0 && first.Precedence <= 8
			if none := proper || first.ID == "all-souls" || first.ID == "holy-saturday"; none == (whole > 0) {
				t.Errorf("%s %s: %d whole Masses", d.Date.Format(time.DateOnly), d.Principal().ID, whole)
			}
		}
	}
}

// daysOf are the days of a year in every calendar.
func daysOf(all map[string]*roman.Calendar, year int) []roman.Day {
	var days []roman.Day
	for _, c := range all {
		days = append(days, c.Year(year).Days()...)
	}
	return days
}

// TestNoDayBorrowsReadings: a day of the octave of Christmas that a calendar leaves without its feast
// has none, and not those of another day.
func TestNoDayBorrowsReadings(t *testing.T) {
	table, all := load(t)
	bare, err := roman.Parse([]byte("id: bare\nname: Bare\nomit: [stephen, john-apostle, holy-innocents]\n"), all[roman.General])
	if err != nil {
		t.Fatal(err)
	}
	for day := 26; day <= 28; day++ {
		got := table.Of(bare.Year(2028).Day(roman.Date(2028, time.December, day)))
		if len(got) != 1 || got[0].Note != noteNone || len(got[0].Readings) != 0 {
			t.Errorf("%d December: %+v", day, got)
		}
	}
}

// lacks is a kind of reading that a Mass should have and has not.
func lacks(m Mass) string {
	if m.Note == noteDead || m.Note == noteNoMass || m.Number == "37" {
		return ""
	}
	for _, kind := range []Kind{First, Psalm, Gospel} {
		if !slices.ContainsFunc(m.Readings, func(r Reading) bool { return r.Kind == kind }) {
			return string(kind)
		}
	}
	return ""
}

func TestWhatTheTableLacksSaysSo(t *testing.T) {
	table, all := load(t)
	for date, want := range map[string]string{"2027-03-17": noteNone, "2027-11-02": noteDead, "2027-03-27": noteNoMass} {
		d, _ := time.Parse(time.DateOnly, date)
		got := table.Of(all["ireland"].Year(d.Year()).Day(d))
		if len(got) != 1 || got[0].Note != want || len(got[0].Readings) != 0 {
			t.Errorf("%s: %+v", date, got)
		}
	}
}

// TestConfirmedAndNot: both are there, and what was put right by the second source is not confirmed.
func TestConfirmedAndNot(t *testing.T) {
	table, _ := load(t)
	confirmed, not := 0, 0
	for _, r := range table.Rows() {
		for _, cell := range r.Cells {
			for _, c := range cell {
				switch {
				case c.Taken && c.Confirmed:
					t.Errorf("%d: %s has one source, and is confirmed", r.Number, c.Text)
				case c.Confirmed:
					confirmed++
				default:
					not++
				}
			}
		}
	}
	if confirmed < 2300 || not < 20 || not > 60 {
		t.Errorf("%d citations are confirmed, %d are not", confirmed, not)
	}
}

func TestCitations(t *testing.T) {
	for text, other := range map[string]string{
		"Is 63:16b-17, 19b; 64:2-7": "Is 63:16-17, 19; 64:2-4, 5-7", "Ps 122:1-2, 3-4, 4-5": "Ps 122:1-5", "1 Thes 3:12—4:2": "1 Thes 3:12-4:2", "Jude 17, 20b-25": "Jude 17, 20-25", "Est C:12, 14-16": "Est C:12, 14-16",
	} {
		a, err := ParseCitation(text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseCitation(other)
		if err != nil || !a.Same(b) || !b.Same(a) {
			t.Errorf("%s and %s: %v", text, other, err)
		}
	}
	for _, pair := range [][2]string{{"Mt 1:1-5", "Mk 1:1-5"}, {"Mt 1:1-5", "Mt 1:1-6"}, {"Mt 1:1-5", "Mt 2:1-5"}, {"Gn 1:1—2:2", "Gn 1:1—2:3"}, {"Ps 51:3-4, 17", "Ps 51:3-4, 14, 17"}} {
		a, _ := ParseCitation(pair[0])
		b, _ := ParseCitation(pair[1])
		if a.Same(b) {
			t.Errorf("%v are taken as one", pair)
		}
	}
	for _, bad := range []string{"", "Mt", "Matthew 1:1", "Mt 1:x", "Mt 1:5-3", "Mt 1:0", "Mt 1:999", "Mt ,", "mt 1:1", "Mt 1:1-"} {
		if c, err := ParseCitation(bad); err == nil {
			t.Errorf("%q is %+v", bad, c)
		}
	}
}

// FuzzCitation: a text is no citation, or one that has verses and is the same as itself.
func FuzzCitation(f *testing.F) {
	f.Add("Is 63:16b-17, 19b; 64:2-7")
	f.Add("1 Thes 3:12—4:2")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCitation(text); err == nil && (!c.Same(c) || len(c.verses()) == 0) {
			t.Fatalf("%q is not itself: %+v", text, c)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	table, all := load(b)
	d := all[roman.General].Year(2027).Day(roman.Date(2027, time.March, 28))
	for b.Loop() {
		table.Of(d)
	}
}
