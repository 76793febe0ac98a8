package corpus

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"
)

// maxWord is the longest word that is indexed, in bytes; more of it is left out.
const maxWord = 64

func itoa(n int) string { return strconv.Itoa(n) }

// word is one word of a text: its stem, without case and diacritics, and where it stands.
type word struct {
	stem       string
	start, end int // in runes
}

// stemmer finds the words of texts. It remembers stems, since texts repeat their words. It
// is for one goroutine.
type stemmer struct{ known map[string]string }

// maxKnown bounds what a stemmer remembers.
const maxKnown = 1 << 16

func newStemmer() *stemmer { return &stemmer{known: make(map[string]string, 1024)} }

// words calls f with each word of a text.
func (s *stemmer) words(text string, f func(word)) {
	scan(text, func(raw string, start, end int) {
		if st := s.stem(raw); st != "" {
			f(word{st, start, end})
		}
	})
}

// scan calls f with each word of a text as it is written, and where it stands, in runes.
func scan(text string, f func(raw string, start, end int)) {
	at, from, begin := 0, -1, 0 // runes so far; where the word begins, in bytes and in runes
	for i, r := range text {
		if inWord(r, from >= 0) {
			if from < 0 {
				from, begin = i, at
			}
		} else if from >= 0 {
			f(text[from:i], begin, at)
			from = -1
		}
		at++
	}
	if from >= 0 {
		f(text[from:], begin, at)
	}
}

// inWord tells whether a character is part of a word; marks are, after a letter.
func inWord(r rune, inside bool) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || inside && unicode.Is(unicode.Mn, r)
}

// stem is the form under which a word is found.
func (s *stemmer) stem(raw string) string {
	if st, ok := s.known[raw]; ok {
		return st
	}
	st := english.Stem(fold(raw), false)
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[strings.Clone(raw)] = st
	return st
}

// fold takes case and diacritics off a text.
func fold(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return cut(strings.ToLower(s), maxWord)
	}
	var b strings.Builder
	for _, r := range norm.NFKD.String(s) {
		switch {
		case unicode.Is(unicode.Mn, r):
		case r == 'æ' || r == 'Æ':
			b.WriteString("ae")
		case r == 'œ' || r == 'Œ':
			b.WriteString("oe")
		case r == 'ß':
			b.WriteString("ss")
		case inWord(r, false):
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return cut(b.String(), maxWord)
}

// foldLine is a field as filters compare it.
func foldLine(s string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(s) {
		if !unicode.Is(unicode.Mn, r) {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// stop are words that say too little to be searched for among others, questions' own too.
var stop = func() map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(`a about above after again against all also am an and any are as at be because been before being below between both but by can
		could did do does doing down during each few for from further had has have having he her here hers herself him himself his how i if in into is it its
		itself just let me might more most must my myself no nor not now of off on once only or other our ours ourselves out over own please same shall she
		should so some such tell than that the their theirs them themselves then there these they this those through to too under until up us very was we were
		what when where which while who whom whose why will with would yes you your yours yourself yourselves
		s t d ll m re ve don isn doesn didn explain describe mean means meaning called kind say says said`) {
		all[w] = true
	}
	return all
}()
