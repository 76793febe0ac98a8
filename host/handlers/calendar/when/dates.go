package when

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ailang.dev/world/host/handlers/calendar/roman"
)

var (
	yearFirst = regexp.MustCompile(`^(\d+)([-/.])(\d{1,2})([-/.])(\d{1,2})$`)
	yearLast  = regexp.MustCompile(`^(\d{1,2})([-/.])(\d{1,2})([-/.])(\d+)$`)
	dayMonth  = regexp.MustCompile(`^(\d{1,2})[-/.](\d{1,2})$`)
	digits    = regexp.MustCompile(`^\d+$`)
	dayNumber = regexp.MustCompile(`^(\d{1,2})(?:st|nd|rd|th)?$`)
)

// date is a day of a year, month and day, if there is one.
func date(year, month, day int) (time.Time, error) {
	if year < roman.FirstYear || year > roman.LastYear {
		return time.Time{}, outside(year)
	}
	if month < 1 || month > 12 {
		return time.Time{}, refuse("there is no month %d", month)
	}
	t := roman.Date(year, time.Month(month), day)
	if t.Day() != day || int(t.Month()) != month {
		return time.Time{}, refuse("%s %d has no day %d", time.Month(month), year, day)
	}
	return t, nil
}

// yearOf is a year that stands by a name. The year 0 is one before all, since 0 is none.
func yearOf(text string) int {
	if n := number(text); n > 0 {
		return n
	}
	return -1
}

// noYear stands for all numbers as large, and larger.
const noYear = 1_000_000

// number is a number as it is written.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return noYear
	}
	return min(n, noYear)
}

// numeric reads dates of figures alone.
func (p *parser) numeric(w []string) (time.Time, bool, error) {
	if len(w) != 1 {
		return time.Time{}, false, nil
	}
	if m := yearFirst.FindStringSubmatch(w[0]); m != nil && len(m[1]) >= 4 && m[2] == m[4] {
		t, err := date(number(m[1]), number(m[3]), number(m[5]))
		return t, true, err
	}
	if m := yearLast.FindStringSubmatch(w[0]); m != nil && len(m[5]) >= 4 && m[2] == m[4] {
		a, b, year := number(m[1]), number(m[3]), number(m[5])
		switch {
		case a > 12 && b <= 12:
			t, err := date(year, b, a)
			return t, true, err
		case b > 12 && a <= 12, a == b:
			t, err := date(year, a, b)
			return t, true, err
		}
		return time.Time{}, true, refuse("%q is ambiguous: day and month may be either way round; write it as 2027-03-28 or 28 March 2027", w[0])
	}
	switch {
	case yearFirst.MatchString(w[0]), yearLast.MatchString(w[0]):
		return time.Time{}, true, refuse("%q is ambiguous: the year needs four digits; write it as 2027-03-28 or 28 March 2027", w[0])
	case dayMonth.MatchString(w[0]):
		return time.Time{}, true, refuse("%q is ambiguous: day and month may be either way round; write it as 28 March or 2027-03-28", w[0])
	case digits.MatchString(w[0]):
		return time.Time{}, true, refuse("%.40q is a number, and no day; accepted is %s", w[0], Accepted)
	}
	return time.Time{}, false, nil
}

// ordinalWords are the ordinals from the first on.
var ordinalWords = func() (all []string) {
	for n := 1; roman.Ordinal(n) != ""; n++ {
		all = append(all, strings.ToLower(roman.Ordinal(n)))
	}
	return all
}()

// monthOf is the month of a word, 0 if there is none.
func monthOf(word string) time.Month {
	for m := time.January; m <= time.December; m++ {
		name := strings.ToLower(m.String())
		if word == name || word == name[:3] || word == "sept" && m == time.September {
			return m
		}
	}
	return 0
}

// spelled reads a day with the name of its month, in either order, with or without a year and
// with a weekday before, which must be right.
func (p *parser) spelled(w []string) (time.Time, bool, error) {
	weekday := time.Weekday(-1)
	if len(w) > 2 {
		if weekday = weekdayOf(w[0]); weekday >= 0 {
			w = w[1:]
		}
	}
	w = ordinals(w)
	var left []string
	month, day, year := time.Month(0), -1, 0
	for i, x := range w {
		switch m := monthOf(x); {
		case m > 0 && month == 0:
			month = m
		case dayNumber.MatchString(x) && day < 0:
			day = number(dayNumber.FindStringSubmatch(x)[1])
		case day < 0 && slices.Contains(ordinalWords, x):
			day = slices.Index(ordinalWords, x) + 1
		case digits.MatchString(x) && len(x) >= 4 && year == 0 && i > 0:
			year = yearOf(x)
		case x != "the" && x != "of":
			left = append(left, x)
		}
	}
	if month == 0 || len(left) > 0 {
		return time.Time{}, false, nil
	}
	if day < 0 {
		return time.Time{}, true, refuse("%q is a month: say which day of it", strings.Join(w, " "))
	}
	t, err := p.inYear(year, func(year int) (time.Time, error) { return date(year, int(month), day) })
	if err == nil && weekday >= 0 && t.Weekday() != weekday {
		return time.Time{}, true, refuse("%s is a %s, not a %s", t.Format("2 January 2006"), t.Weekday(), weekday)
	}
	return t, true, err
}

// inYear is a date in a year, or, if none was named, the coming one: today's, or the first after.
func (p *parser) inYear(year int, in func(int) (time.Time, error)) (time.Time, error) {
	if year != 0 {
		return in(year)
	}
	var last error
	for y := p.today.Year(); y <= p.today.Year()+8; y++ { // 29 February may be eight years away
		t, err := in(y)
		if err == nil && !t.Before(p.today) {
			return t, nil
		}
		if err != nil && last == nil {
			last = err
		}
	}
	if last == nil {
		last = outside(p.today.Year() + 8)
	}
	return time.Time{}, last
}
