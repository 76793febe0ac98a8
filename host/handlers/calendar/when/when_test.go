package when

import (
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/handlers/calendar/roman"
)

// today is a Tuesday.
var today = roman.Date(2026, time.December, 1)

func book(t testing.TB, calendar string) *Book {
	t.Helper()
	all, err := roman.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	known := map[int]*roman.Year{}
	return NewBook(all[calendar], func(y int) *roman.Year {
		if known[y] == nil {
			known[y] = all[calendar].Year(y)
		}
		return known[y]
	})
}

func TestWordsForDates(t *testing.T) {
	b := book(t, roman.General)
	for text, want := range map[string]string{
		"today": "2026-12-01", "TODAY!": "2026-12-01", "tomorrow": "2026-12-02", "yesterday": "2026-11-30", "the day after tomorrow": "2026-12-03", "in 3 days": "2026-12-04",
		"3 days from now": "2026-12-04", "two weeks ago": "2026-11-17", "in a week": "2026-12-08", "today's readings": "",
		"Tuesday": "2026-12-01", "this Tuesday": "2026-12-01", "next Tuesday": "2026-12-08", "last Tuesday": "2026-11-24", "Sunday": "2026-12-06", "this Sunday": "2026-12-06",
		"next Sunday": "2026-12-06", "last Friday": "2026-11-27", "fri": "2026-12-04",
		"2027-03-28": "2027-03-28", "2027-3-8": "2027-03-08", "2027/03/28": "2027-03-28", "28 March 2027": "2027-03-28", "28 Mar 2027": "2027-03-28", "March 28, 2027": "2027-03-28",
		"28th of March, 2027": "2027-03-28", "the 5th of May": "2027-05-05", "28.3.2027": "2027-03-28", "12/13/2027": "2027-12-13", "5/5/2027": "2027-05-05", "Sunday, 28 March 2027": "2027-03-28",
		"December 1": "2026-12-01", "30 November": "2027-11-30", "29 February": "2028-02-29", "1 Sept 2027": "2027-09-01",
		"Easter 2027": "2027-03-28", "easter": "2027-03-28", "Easter Sunday 2030": "2030-04-21", "Pentecost": "2027-05-16", "Ash Wednesday 2030": "2030-03-06", "Christmas 2031": "2031-12-25",
		"Christmas": "2026-12-25", "first Sunday of Advent 2028": "2028-12-03", "1st Sunday of Advent": "2027-11-28", "2nd Sunday of Advent": "2026-12-06", "Good Friday": "2027-03-26", "good friday in 2030": "2030-04-19",
		"Maundy Thursday 2027": "2027-03-25", "Easter Monday 2027": "2027-03-29", "Palm Sunday 2027": "2027-03-21", "Trinity Sunday 2027": "2027-05-23", "Corpus Christi 2027": "2027-05-27",
		"Gaudete Sunday 2027": "2027-12-12", "Christmas Eve 2028": "2028-12-24", "Third Sunday in Ordinary Time 2027": "2027-01-24", "Monday of Holy Week 2027": "2027-03-22",
		"Christ the King 2027": "2027-11-21", "Immaculate Conception 2024": "2024-12-09", "Annunciation 2024": "2024-04-08", "all souls 2027": "2027-11-02", "All Saints' Day 2027": "2027-11-01",
		"St. Joseph 2027": "2027-03-19", "Saint Thérèse": "2027-10-01", "Therese": "2027-10-01", "St Francis of Assisi 2027": "2027-10-04", "Anthony of Padua 2027": "2027-06-13", "mother of god 2027": "2027-01-01",
		"What are the readings for next Sunday?": "2026-12-06", "saint of the day": "2026-12-01", "who is the saint of the day": "2026-12-01", "Readings of 28 March 2027, please": "2027-03-28",
		"33rd Sunday in Ordinary Time 2027": "2027-11-14", "thirty third Sunday in Ordinary Time 2027": "2027-11-14", "Thirty-third Sunday of ordinary time 2027": "2027-11-14",
		"4th Sunday of Easter 2027": "2027-04-18", "Tuesday of the 12th week in Ordinary Time 2027": "2027-06-22", "1st May 2027": "2027-05-01", "the 3rd of May": "2027-05-03", "22nd December": "2026-12-22",
		"5th Sunday of Lent 2027": "2027-03-14", "twenty fifth December": "2026-12-25", "the twenty-fifth of December 2027": "2027-12-25",
		"the day after Christmas": "2026-12-26", "day after Easter 2027": "2027-03-29", "two days before Ash Wednesday 2027": "2027-02-08", "the Sunday after Easter 2027": "2027-04-04",
		"2 weeks after 28 March 2027": "2027-04-11", "Second Sunday after Christmas 2027": "2027-01-03", "Thursday after Ash Wednesday 2027": "2027-02-11", "day before Christmas": "2026-12-24",
		"34th Sunday in Ordinary Time 2027": "2027-11-21", "last Sunday in Ordinary Time 2027": "2027-11-21", "last Sunday of Advent 2027": "2027-12-19", "first day of Lent 2027": "2027-02-10",
		"next Easter": "2027-03-28", "this Christmas": "2026-12-25", "Easter next year": "2027-03-28", "Christmas this year": "2026-12-25", "Friday of the first week of Lent 2027": "2027-02-19",
		"1970-01-01": "1970-01-01", "2199-12-31": "2199-12-31",
	} {
		got, err := b.Parse(text, today)
		if want == "" {
			want = "2026-12-01"
		}
		if err != nil || got.Format(time.DateOnly) != want {
			t.Errorf("%q: %s, %v; want %s", text, got.Format(time.DateOnly), err, want)
		}
	}
	malta := book(t, "malta")
	if got, err := malta.Parse("Corpus Christi 2027", today); err != nil || got.Day() != 30 {
		t.Errorf("%s %v", got, err)
	}
	if got, err := malta.Parse("Shipwreck of Saint Paul 2027", today); err != nil || got.Format(time.DateOnly) != "2027-02-11" {
		t.Errorf("%s %v", got, err)
	}
}

func TestWordsThatAreNoDate(t *testing.T) {
	b := book(t, roman.General)
	for text, want := range map[string]string{
		"": "is empty", " \n": "is empty", "?": "is empty", "when pigs fly": "accepted is a date (2027-03-28", "saint": "accepted is", "next week": "accepted is", "the": "accepted is",
		"3/4/2027": "ambiguous: day and month", "03.04.2027": "ambiguous: day and month", "3/4": "ambiguous: day and month", "28/3/27": "the year needs four digits", "27-03-28": "the year needs four digits",
		"2027": "is a number", "20270328": "is a number", "March 2027": "is a month", "March": "is a month", "29 February 2027": "February 2027 has no day 29", "2027-02-30": "February 2027 has no day 30",
		"2027-13-01": "no month 13", "13/14/2027": "ambiguous", "0 March 2027": "has no day 0", "Monday, 28 March 2027": "28 March 2027 is a Sunday, not a Monday", "30 February": "February 2026 has no day 30",
		"first Friday of Lent 2027": "accepted is", "the second day after Christmas": "accepted is", "day after day after Easter": "accepted is", "the day after pigs": "accepted is",
		"40th Sunday in Ordinary Time": "accepted is", "99th Sunday": "accepted is", "0th Sunday of Lent": "accepted is",
		"1969-12-31": "1970 to 2199, not for 1969", "2200-01-01": "not for 2200", "99999-01-01": "not for 99999", "123456789012345-01-01": "none so late", "Easter 10000000000": "none so late", "Easter 1950": "not for 1950", "Easter 0000": "not for 0", "28 March 0000": "not for 0", "Easter 20277": "not for 20277",
		"in 99999 days": "1970 to 2199", "in 999999999 weeks": "too far away", "Elizabeth": "Saint Elizabeth of Hungary; Saint Elizabeth of Portugal", "Paul 2027": "write more of the name",
		"Teresa of Calcutta 2020": `the calendar of 2020 has no "teresa of calcutta"`, strings.Repeat("x", 257): "at most 256 bytes", "in 3 days ago": "accepted is", "3 days": "accepted is",
	} {
		got, err := b.Parse(text, today)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v; want %q", text, got.Format(time.DateOnly), err, want)
		}
	}
}

func TestTodayIsThatOfTheZone(t *testing.T) {
	at := time.Date(2026, time.December, 1, 23, 30, 0, 0, time.UTC)
	for zone, want := range map[string]string{"UTC": "2026-12-01", "Pacific/Kiritimati": "2026-12-02", "Europe/Malta": "2026-12-02", "America/Los_Angeles": "2026-12-01"} {
		z, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := On(at, z).Format(time.DateOnly); got != want {
			t.Errorf("%s: %s, want %s", zone, got, want)
		}
	}
}

// FuzzParse: any words mean a date of the calendar, always the same one, or are refused with a reason; and each date
// that comes out is read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"today", "next Sunday", "Easter 2027", "28.3.2027", "in 3 days", "Sunday, 28 March 2027", "What are the readings for All Saints?", "١٢ March", "İstanbul", "3 3 3", "Ⅳ", "- - -", "1st 2nd", "of of of 2027"} {
		f.Add(s, 0)
	}
	b := book(f, roman.General)
	f.Fuzz(func(t *testing.T, text string, shift int) {
		day := today.AddDate(0, 0, shift%20000)
		got, err := b.Parse(text, day)
		if err != nil {
			if err.Error() == "" || !got.IsZero() {
				t.Fatalf("%q: %v %v", text, got, err)
			}
			return
		}
		if got.Year() < roman.FirstYear || got.Year() > roman.LastYear || got.Location() != time.UTC || got.Hour() != 0 {
			t.Fatalf("%q is %v", text, got)
		}
		for _, form := range []string{time.DateOnly, "2 January 2006", "January 2, 2006", "Monday, 2 January 2006"} {
			if again, err := b.Parse(got.Format(form), day); err != nil || !again.Equal(got) {
				t.Fatalf("%q is %v, and %q %v, %v", text, got, got.Format(form), again, err)
			}
		}
	})
}
