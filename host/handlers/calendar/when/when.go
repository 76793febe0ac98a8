// Package when reads the words for a date: "2027-03-28", "today", "next Sunday", "Easter 2027",
// "28 March". It owns which words there are and what each means; what is ambiguous, impossible
// or outside of the years of the calendar is refused in words for a person. It is pure: today and
// the calendar are handed to it. Answers spec/20-calendar.md.
package when

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"ailang.dev/world/host/handlers/calendar/roman"
)

// MaxText bounds the words, in bytes.
const MaxText = 256

// maxDays bounds "in N days" and "N days ago".
const maxDays = 100_000

// Accepted says what may be written.
const Accepted = `a date (2027-03-28, 28 March 2027, March 28), "today", "tomorrow", "yesterday", "in 3 days", a weekday ("Sunday", "next Sunday", "last Friday"), ` +
	`or the name of a day with or without a year ("Easter 2027", "Ash Wednesday", "first Sunday of Advent 2028", "Saint Joseph")`

// Years gives the days of a civil year of the calendar that names are looked up in.
type Years func(year int) *roman.Year

// refusal is an error for the person who wrote the words.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// Book knows the days of one calendar by their names. It is safe for concurrent use.
type Book struct {
	years Years
	names func() []name
}

// NewBook makes the book of a calendar; names are read when the first is looked for.
func NewBook(c *roman.Calendar, years Years) *Book {
	return &Book{years: years, names: sync.OnceValue(func() []name { return namesOf(c) })}
}

// Parse is the date that words mean on a day. An error is a refusal that says what is accepted.
func (b *Book) Parse(text string, today time.Time) (time.Time, error) {
	if len(text) > MaxText {
		return time.Time{}, refuse("a date has at most %d bytes; accepted is %s", MaxText, Accepted)
	}
	p := parser{book: b, today: today, text: text, words: words(text)}
	t, err := p.date()
	if err != nil {
		return time.Time{}, err
	}
	if t.Year() < roman.FirstYear || t.Year() > roman.LastYear {
		return time.Time{}, outside(t.Year())
	}
	return t, nil
}

func outside(year int) error {
	if year >= noYear {
		return refuse("the calendar is computed for the years %d to %d, and none so late", roman.FirstYear, roman.LastYear)
	}
	return refuse("the calendar is computed for the years %d to %d, not for %d", roman.FirstYear, roman.LastYear, max(year, 0))
}

// words folds a text: lower case, no diacritics, words of letters, digits and the marks of dates.
func words(text string) []string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(strings.ToLower(text)) {
		switch {
		case unicode.Is(unicode.Mn, r), r == '\'', r == '’':
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '/', r == '.':
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	all := strings.Fields(b.String())
	for i, w := range all {
		all[i] = strings.Trim(w, ".")
		if named := spelt[all[i]]; named != "" {
			all[i] = named
		}
	}
	return slices.DeleteFunc(all, func(w string) bool { return w == "" || w == "-" })
}

// spelt are words that are written in more than one way.
var spelt = map[string]string{"st": "saint", "sts": "saint", "ss": "saint", "saints": "saint", "xmas": "christmas",
	"todays": "today", "tomorrows": "tomorrow", "yesterdays": "yesterday", "sundays": "sunday", "maundy": "holy", "whit": "pentecost", "whitsunday": "pentecost"}

// filler are words that may stand before a date in a question about it.
var filler = []string{"what", "whats", "which", "who", "whose", "is", "are", "was", "were", "will", "be", "the", "a", "reading", "readings", "mass", "masses", "saint", "feast", "feasts",
	"gospel", "day", "liturgical", "celebrated", "commemorated", "honoured", "honored", "do", "does", "we", "church", "on", "for", "of", "at", "please", "give", "show", "tell", "me", "list", "get", "lectionary", "celebration", "celebrations"}

// courtesy are words that may stand behind one.
var courtesy = []string{"please", "reading", "readings", "mass", "gospel", "saint"}

type parser struct {
	book  *Book
	today time.Time
	text  string
	words []string
}

// date tries the words as they are, then without fillers before; words of courtesy behind do not count.
func (p *parser) date() (time.Time, error) {
	if len(p.words) == 0 {
		return time.Time{}, refuse("the date is empty; accepted is %s", Accepted)
	}
	words := p.words
	for len(words) > 1 && slices.Contains(courtesy, words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	for rest := words; len(rest) > 0; rest = rest[1:] {
		t, known, err := p.read(rest)
		if known {
			return t, err
		}
		if !slices.Contains(filler, rest[0]) {
			break
		}
	}
	if strings.HasSuffix(strings.Join(words, " "), "of the day") && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(filler, w) }) {
		return p.today, nil
	}
	return time.Time{}, refuse("%.100q is no date that is known here; accepted is %s", p.text, Accepted)
}

// read tries each form; known tells that the words are of a form, also if it means no date.
func (p *parser) read(w []string) (t time.Time, known bool, err error) {
	for _, form := range []func([]string) (time.Time, bool, error){p.relative, p.weekday, p.numeric, p.spelled, p.named, p.beside} {
		if t, known, err = form(w); known {
			return t, true, err
		}
	}
	return time.Time{}, false, nil
}

var relatives = map[string]int{"today": 0, "now": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "the day after tomorrow": 2, "day after tomorrow": 2,
	"the day before yesterday": -2, "day before yesterday": -2}

var counted = regexp.MustCompile(`^(?:in )?(\d{1,9}|a|one|two|three|four|five|six|seven|ten) (day|week)s?( ago| from now| hence)?$`)

var small = map[string]int{"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}

func (p *parser) relative(w []string) (time.Time, bool, error) {
	text := strings.Join(w, " ")
	if n, ok := relatives[text]; ok {
		return p.plus(n), true, nil
	}
	m := counted.FindStringSubmatch(text)
	if m == nil || strings.HasPrefix(text, "in ") == (m[3] != "") { // "in 3 days", or "3 days ago"
		return time.Time{}, false, nil
	}
	n := countOf(m)
	if n > maxDays {
		return time.Time{}, true, refuse("%q is too far away: at most %d days", text, maxDays)
	}
	if m[3] == " ago" {
		n = -n
	}
	return p.plus(n), true, nil
}

// beside reads a day that is counted from another: "the day after Christmas", "two weeks before
// Easter", "the Sunday after All Saints".
func (p *parser) beside(w []string) (time.Time, bool, error) {
	i := slices.IndexFunc(w, func(w string) bool { return w == "after" || w == "before" })
	if i < 1 || i == len(w)-1 || slices.ContainsFunc(w[i+1:], func(w string) bool { return w == "after" || w == "before" }) {
		return time.Time{}, false, nil
	}
	sign := map[string]int{"after": 1, "before": -1}[w[i]]
	left := without(w[:i], []string{"the"})
	day := time.Weekday(-1)
	n := 1
	switch {
	case len(left) == 1 && left[0] == "day":
	case len(left) == 1 && weekdayOf(left[0]) >= 0:
		day = weekdayOf(left[0])
	default:
		m := counted.FindStringSubmatch(strings.Join(left, " ") + " ago")
		if m == nil {
			return time.Time{}, false, nil
		}
		if n = countOf(m); n > maxDays {
			return time.Time{}, true, refuse("%q is too far away: at most %d days", strings.Join(w, " "), maxDays)
		}
	}
	from, known, err := p.read(w[i+1:])
	if !known || err != nil {
		return time.Time{}, known, err
	}
	t := from.AddDate(0, 0, sign*n)
	for day >= 0 && t.Weekday() != day {
		t = t.AddDate(0, 0, sign)
	}
	return t, true, nil
}

// countOf is the days of a match of counted.
func countOf(m []string) int {
	n, ok := small[m[1]]
	if !ok {
		n, _ = strconv.Atoi(m[1]) // nine digits at most
	}
	if m[2] == "week" && n <= maxDays {
		n *= 7
	}
	return n
}

func (p *parser) plus(days int) time.Time { return p.today.AddDate(0, 0, days) }

// weekdayOf is the weekday of a word, -1 if there is none.
func weekdayOf(word string) time.Weekday {
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		if word == name || len(word) >= 3 && len(word) <= 5 && strings.HasPrefix(name, word) {
			return d
		}
	}
	return -1
}

// weekday reads "Sunday" and "this Sunday", the coming one or today; "next Sunday", the first
// after today; "last Sunday", the last before today.
func (p *parser) weekday(w []string) (time.Time, bool, error) {
	which := "this"
	if len(w) == 2 && slices.Contains([]string{"this", "coming", "next", "last", "previous", "on"}, w[0]) {
		which, w = w[0], w[1:]
	}
	if len(w) != 1 {
		return time.Time{}, false, nil
	}
	day := weekdayOf(w[0])
	if day < 0 {
		return time.Time{}, false, nil
	}
	ahead := (int(day) - int(p.today.Weekday()) + 7) % 7
	switch which {
	case "next":
		if ahead == 0 {
			ahead = 7
		}
	case "last", "previous":
		ahead -= 7
	}
	return p.plus(ahead), true, nil
}

// On is the date of an instant in a zone, as midnight UTC.
func On(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return roman.Date(t.Year(), t.Month(), t.Day())
}
