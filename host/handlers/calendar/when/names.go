package when

import (
	"maps"
	"slices"
	"strings"
	"time"

	"ailang.dev/world/host/handlers/calendar/roman"
)

// aliases are names of days that are not those of their celebrations.
var aliases = map[string]string{"easter": "easter-sunday", "easter day": "easter-sunday", "easter sunday": "easter-sunday", "pascha": "easter-sunday", "resurrection": "easter-sunday",
	"christmas": "christmas", "christmas day": "christmas", "nativity": "christmas", "christmas eve": "advent-12-24", "epiphany": "epiphany", "baptism": "baptism-of-the-lord",
	"ash wednesday": "ash-wednesday", "palm sunday": "palm-sunday", "passion sunday": "palm-sunday", "holy thursday": "holy-thursday", "good friday": "good-friday",
	"holy saturday": "holy-saturday", "easter vigil": "holy-saturday", "easter monday": "easter-1-monday", "divine mercy": "easter-2-sunday",
	"divine mercy sunday": "easter-2-sunday", "low sunday": "easter-2-sunday", "ascension": "ascension", "ascension thursday": "ascension", "ascension day": "ascension",
	"pentecost": "pentecost", "trinity": "trinity", "trinity sunday": "trinity", "corpus christi": "corpus-christi", "body and blood": "corpus-christi",
	"sacred heart": "sacred-heart", "immaculate heart": "immaculate-heart", "immaculate heart of mary": "immaculate-heart", "christ king": "christ-the-king", "christ the king": "christ-the-king",
	"holy family": "holy-family", "gaudete": "advent-3-sunday", "gaudete sunday": "advent-3-sunday", "laetare": "lent-4-sunday", "laetare sunday": "lent-4-sunday",
	"advent": "advent-1-sunday", "lent": "ash-wednesday", "advent sunday": "advent-1-sunday", "mother of god": "mary-mother-of-god", "mary mother of god": "mary-mother-of-god",
	"new year": "mary-mother-of-god", "new years day": "mary-mother-of-god", "mother of church": "mother-of-the-church", "mary mother of church": "mother-of-the-church",
	"candlemas": "presentation-of-the-lord", "annunciation": "annunciation", "assumption": "assumption", "assumption of mary": "assumption",
	"immaculate conception": "immaculate-conception", "all saint": "all-saints", "all saint day": "all-saints", "all soul": "all-souls", "all souls": "all-souls", "all souls day": "all-souls",
	"birth of john baptist": "nativity-of-john-the-baptist", "nativity of john baptist": "nativity-of-john-the-baptist", "transfiguration": "transfiguration",
	"first day of advent": "advent-1-sunday", "last sunday of advent": "advent-4-sunday", "first day of lent": "ash-wednesday", "thirty-fourth sunday in ordinary time": "christ-the-king",
	"thirty-fourth sunday of ordinary time": "christ-the-king", "thirty-fourth sunday ordinary time": "christ-the-king", "last sunday ordinary time": "christ-the-king", "last sunday in ordinary time": "christ-the-king", "last sunday of ordinary time": "christ-the-king",
	"exaltation of cross": "exaltation-of-the-cross", "nativity of mary": "nativity-of-mary", "visitation": "visitation"}

// fixed are the days of aliases whose celebration may give way: the day is the civil one.
var fixed = map[string][2]int{"advent-12-24": {12, 24}}

// noise are words that names are compared without.
var noise = []string{"the", "saint", "lord", "most", "blessed", "virgin", "holy", "solemnity", "feast", "memorial", "in", "of", "and", "day", "week", "bishop", "priest", "abbot",
	"martyr", "martyrs", "apostle", "apostles", "evangelist", "companions", "pope", "deacon"}

// article are words that no name is told apart by.
var article = []string{"the", "lord"}

// without is words but some, and but an "of" that is left over at the end.
func without(words, some []string) []string {
	left := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(some, w) })
	for len(left) > 0 && left[len(left)-1] == "of" {
		left = left[:len(left)-1]
	}
	return left
}

// name is a celebration's name in the forms that it is looked for by.
type name struct {
	id, full            string
	strict, loose, head string
	words               []string // of loose
}

// nameYears are years whose proper of time has every day that there is.
const nameYears = 60

// namesOf are the names of all celebrations of a calendar, in whatever years it has them.
func namesOf(c *roman.Calendar) []name {
	known := c.Names()
	for y := 2000; y < 2000+nameYears; y++ {
		for _, d := range c.Year(y).Days() {
			known[d.Proper.ID] = d.Proper.Name
		}
	}
	all := make([]name, 0, len(known))
	for _, id := range slices.Sorted(maps.Keys(known)) {
		full := known[id]
		head, _, _ := strings.Cut(full, ",")
		w := words(full)
		n := name{id: id, full: full, words: without(w, noise)}
		n.strict, n.loose = strings.Join(without(w, article), " "), strings.Join(n.words, " ")
		n.head = strings.Join(without(words(head), noise), " ")
		all = append(all, n)
	}
	return all
}

// maxListed bounds the names that a refusal lists.
const maxListed = 6

// ordinalOf reads "33rd", "thirty third" and "third" at the beginning of words as the word that
// names have, and how many words it takes; "" is none.
func ordinalOf(w []string) (string, int) {
	if n := strings.TrimRight(w[0], "stndrh"); n != w[0] && dayNumber.MatchString(w[0]) {
		return strings.ToLower(roman.Ordinal(number(n))), 1
	}
	if len(w) > 1 && (w[0] == "twenty" || w[0] == "thirty") {
		if n := slices.Index(ordinalWords, w[1]); n >= 0 && n < 9 {
			return w[0] + "-" + w[1], 2
		}
	}
	return "", 0
}

// ordinals are words with their ordinals as names have them.
func ordinals(w []string) []string {
	var all []string
	for len(w) > 0 {
		word, n := ordinalOf(w)
		if word == "" {
			word, n = w[0], 1
		}
		all, w = append(all, word), w[n:]
	}
	return all
}

// counts tells whether words count weekdays, as in the first Friday of Lent, which is not the
// Friday of its first week.
func counts(w []string) bool {
	return !slices.Contains(w, "week") && slices.ContainsFunc(w, func(w string) bool { return weekdayOf(w) > time.Sunday }) &&
		slices.ContainsFunc(w, func(w string) bool {
			word, _ := ordinalOf([]string{w})
			return word != "" || slices.Contains(ordinalWords, w)
		})
}

// identify finds the one celebration that words name; no words of a name are no error.
func (b *Book) identify(w []string) (string, error) {
	named := w
	w = ordinals(w)
	strict := strings.Join(without(w, article), " ")
	if id := aliases[strict]; id != "" {
		return id, nil
	}
	core := without(w, noise)
	loose := strings.Join(core, " ")
	if loose == "" {
		return "", nil
	}
	for _, same := range []func(name) bool{
		func(n name) bool { return n.strict == strict },
		func(n name) bool { return n.loose == loose },
		func(n name) bool { return n.head == loose },
		func(n name) bool {
			if counts(named) || slices.Contains(core, "after") || slices.Contains(core, "before") {
				return false // more of them would be another day
			}
			return !slices.ContainsFunc(core, func(w string) bool { return !slices.Contains(n.words, w) })
		},
	} {
		var found []string
		id := ""
		for _, n := range b.names() {
			if same(n) {
				id = n.id
				found = append(found, n.full)
			}
		}
		if len(found) == 1 {
			return id, nil
		}
		if len(found) > maxListed {
			return "", refuse("%q may be %d days, such as %s; write more of the name", strings.Join(w, " "), len(found), strings.Join(found[:maxListed], "; "))
		}
		if len(found) > 1 {
			return "", refuse("%q may be one of %d days: %s; write more of the name", strings.Join(w, " "), len(found), strings.Join(found, "; "))
		}
	}
	return "", nil
}

// named reads the name of a day, with or without a year.
func (p *parser) named(w []string) (time.Time, bool, error) {
	year := 0
	if len(w) > 1 && slices.Contains([]string{"next", "this", "coming"}, w[0]) {
		w = w[1:] // the coming one, which is meant without it too
	}
	if n := len(w); n > 2 && w[n-1] == "year" && (w[n-2] == "next" || w[n-2] == "this") {
		if year = p.today.Year(); w[n-2] == "next" {
			year++
		}
		w = w[:n-2]
	} else if last := w[n-1]; digits.MatchString(last) && len(last) >= 4 {
		year, w = yearOf(last), without(w[:len(w)-1], []string{"in"})
	}
	id, err := p.book.identify(w)
	if id == "" {
		return time.Time{}, err != nil, err
	}
	t, err := p.inYear(year, func(y int) (time.Time, error) {
		if y < roman.FirstYear || y > roman.LastYear {
			return time.Time{}, outside(y)
		}
		if d, ok := fixed[id]; ok {
			return date(y, d[0], d[1])
		}
		if t, ok := p.find(y, id); ok {
			return t, nil
		}
		return time.Time{}, refuse("the calendar of %d has no %q", y, strings.Join(w, " "))
	})
	return t, true, err
}

// find is the day of a celebration in a year, also of one that gives way there.
func (p *parser) find(year int, id string) (time.Time, bool) {
	same := func(c roman.Celebration) bool { return c.ID == id }
	for _, d := range p.book.years(year).Days() {
		if same(d.Proper) || slices.ContainsFunc(d.Celebrations, same) ||
			slices.ContainsFunc(d.Omitted, func(o roman.Omitted) bool { return o.To == "" && same(o.Celebration) }) {
			return d.Date, true
		}
	}
	return time.Time{}, false
}
