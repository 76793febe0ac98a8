package corpus

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a query.
const (
	MaxQuery  = 1 << 10 // bytes
	maxUnits  = 24      // words, phrases and prefixes that are searched; the first ones count
	maxPhrase = 12      // words of a phrase; more of it is not looked at
)

// unit is one thing that is searched: a word, several words in a row, or the beginning of
// words.
type unit struct {
	stems  []string // of a prefix: the letters as they are, in stems[0]
	prefix bool
	whole  []string // stems of words that a prefix may be the beginning of, but no beginning of
	again  int      // how often the query has it beyond the first time
}

func (u unit) key() string {
	k := strings.Join(u.stems, " ")
	if u.prefix {
		k += "*"
	}
	return k
}

// parseQuery reads a query. There is no bad one: what is no phrase in quotation marks and no
// prefix* is words. Words that say too little are left out, outside of phrases.
func parseQuery(s *stemmer, q string) []unit {
	var units []unit
	place := map[string]int{}
	add := func(u unit) {
		if i, ok := place[u.key()]; ok {
			units[i].again++
		} else if len(units) < maxUnits {
			place[u.key()] = len(units)
			units = append(units, u)
		}
	}
	q = strings.Map(func(r rune) rune {
		switch r {
		case '“', '”', '„', '«', '»':
			return '"'
		case utf8.RuneError:
			return ' '
		}
		return r
	}, q)
	for q != "" {
		before, rest, quoted := strings.Cut(q, `"`)
		inner, after, closed := strings.Cut(rest, `"`)
		if !quoted || !closed { // what is left has no phrase
			parseWords(s, strings.ReplaceAll(q, `"`, " "), add)
			break
		}
		parseWords(s, before, add)
		if u := phrase(s, inner); len(u.stems) > 0 {
			add(u)
		}
		q = after
	}
	return units
}

// phrase is the words of a text in a row.
func phrase(s *stemmer, text string) (u unit) {
	s.words(text, func(w word) {
		if len(u.stems) < maxPhrase {
			u.stems = append(u.stems, w.stem)
		}
	})
	return u
}

func parseWords(s *stemmer, text string, add func(unit)) {
	for field := range strings.FieldsSeq(text) {
		star := strings.HasSuffix(field, "*")
		var last unit
		letters, have := "", false
		flush := func(prefix bool) {
			if have && prefix {
				last = beginning(s, letters)
			}
			if have {
				add(last)
			}
		}
		s.words(field, func(w word) {
			flush(false)
			raw := []rune(field)[w.start:w.end]
			ends := star && w.end == len([]rune(field))-1
			letters = fold(string(raw))
			last, have = unit{stems: []string{w.stem}}, ends || !stop[fold(string(raw))]
		})
		flush(have && star && endsInStar(field))
	}
}

// endings complete a prefix to words, whose stems may be shorter than it: indulgenc* stands
// for indulgence, which is found as indulg.
var endings = []string{"", "e", "es", "s", "y", "ies", "ed", "ing", "ion", "ions", "al", "ally", "ly", "er", "or", "ment", "ness", "ity", "ance", "ence", "able", "ible", "ive", "ous", "t", "tion", "tions"}

// beginning is the unit of a prefix.
func beginning(s *stemmer, letters string) unit {
	u := unit{stems: []string{letters}, prefix: true}
	for _, end := range endings {
		if st := s.stem(letters + end); st != "" && !strings.HasPrefix(st, letters) && !slices.Contains(u.whole, st) {
			u.whole = append(u.whole, st)
		}
	}
	return u
}

// endsInStar tells whether a star stands right behind a word's last letter.
func endsInStar(field string) bool {
	body := strings.TrimSuffix(field, "*")
	r, _ := utf8.DecodeLastRuneInString(body)
	return inWord(r, true)
}
