package model

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"
)

// stems is the words of a text as they are compared: lower case, without diacritics, without
// the words that carry no content, without their endings.
func stems(text string) []string {
	var all []string
	for _, w := range strings.FieldsFunc(fold(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if stop[w] || len(w) < 2 && w != "v" && w != "x" { // which number popes
			continue
		}
		all = append(all, stem(w))
	}
	return all
}

// stem is a word without its ending. British and American spellings are one, and so are words
// that people use for one another here.
func stem(word string) string {
	word = strings.ReplaceAll(word, "iz", "is")
	if len(word) > 4 {
		word = strings.ReplaceAll(word, "our", "or")
	}
	st := english.Stem(word, false)
	if same, there := alias[st]; there {
		return same
	}
	return st
}

// alias leads from a stem to that of a word with the same meaning.
var alias = map[string]string{"babi": "infant", "annul": "nulliti", "bibl": "scriptur", "papal": "pope", "papaci": "pope"}

// fold is lower case without diacritics.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(ligatures.Replace(text)))
}

var ligatures = strings.NewReplacer("æ", "ae", "Æ", "ae", "œ", "oe", "Œ", "oe", "ß", "ss")

// topic is what a question asks about.
type topic struct {
	words map[string]float64 // stems, with what each counts
	names [][]string         // stems that together name one thing
}

func topicOf(question string) topic {
	a := topic{words: make(map[string]float64), names: namesOf(question)}
	named := make(map[string]bool)
	for _, name := range a.names {
		for _, w := range name {
			named[w] = true
		}
	}
	for _, w := range stems(question) {
		switch {
		case common[w]:
			a.words[w] = commonWeight
		case named[w], len(w) > 2 && strings.Trim(w, "0123456789") == "": // a year, a number of a book
			a.words[w] = nameWeight
		default:
			a.words[w] = 1
		}
	}
	return a
}

// namesOf is the names in a question: words in a row with a capital where no sentence begins,
// as in Francis of Assisi; a title before them is not part of it. In a question without a
// word in small letters that says nothing.
func namesOf(question string) [][]string {
	var names [][]string
	var name []string
	done := func() {
		if len(name) > 0 {
			names = append(names, name)
		}
		name = nil
	}
	fields := strings.Fields(question)
	begins, small := true, false
	for _, w := range fields {
		bare := strings.TrimFunc(w, unicode.IsPunct)
		first, _ := utf8.DecodeRuneInString(bare)
		switch {
		case unicode.IsUpper(first) && !begins:
			if st := stems(bare); len(name) > 0 || !titles[strings.ToLower(bare)] {
				name = append(name, st...)
			}
		case !between[w]:
			done()
		}
		small = small || unicode.IsLower(first) && !between[w]
		if begins = strings.ContainsAny(w[len(w)-1:], ".?!:"); begins || strings.HasSuffix(w, ",") {
			done()
		}
	}
	done()
	if !small {
		return nil
	}
	return names
}

// titles stand before a name, and between in the middle of one.
var titles, between = set("saint saints st sts pope popes king queen emperor bishop cardinal father mother sister brother blessed doctor mr mrs dr"), set("of the de del della da di von van")

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

func stemmed(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		m[stem(w)] = true
	}
	return m
}

// stop are words without content, in questions and in texts.
var stop = set(`a about above according after again against all also am an and any anybody anyone anything are aren as at be because been before being below between both but by can
could d did didn do does doesn doing don down during each either else ever everybody everyone everything few for from further get gets give given gives go goes going got had has have having he her
here hers him his how however i if in into is isn it its itself just let like ll m make makes many may me might more most much must my near no nobody nor not nothing now of off often on once one
only onto or other others our out over own per please rather re really s same say says shall she should since so some somebody someone something sometimes still such t than that
the their them then there therefore these they this those through thus to too under until up upon us ve very via was wasn way we were what whatever when
where whether which while who whom whose why will with within without would yes yet you your`)

// common are words that a question here has, whatever it is about.
var common = stemmed(`answer ask believe belief call catholic catholicism catholics christian christians church churches consider define definition describe difference
different do doctrine exactly explain faith find happen happens hold hold important kind know know mean meaning means mention name necessary need number
people person question really reason religion require say speak sort tell teach teaches teaching teachings taught term thing think time type understand use used
want word work world allow allowed become begin catechism come long move start take turn wrong`)

// abbreviations end in a full stop that ends no sentence.
var abbreviations = set(`st sts ss dr fr mr mrs ms bl ven rev cf c ca can cann art arts ch chs e.g i.e no nos n nn vol p pp par q qq v vv vs sess viz etc ad a.d b.c jn mt mk lk cor rom gal eph phil
tim heb pet`)

// split cuts a text into sentences. What stands in round brackets behind a full stop belongs to
// the sentence before it.
func split(text string) []string {
	var all []string
	for para := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n") {
		var words []string
		ended, behind := false, false // behind: in brackets behind an end
		for w := range strings.FieldsSeq(para) {
			if ended && !goesOn(w) {
				all, words = append(all, strings.Join(words, " ")), nil
			}
			behind = behind || ended && w[0] == '('
			words = append(words, w)
			ended = ends(w)
			if behind && strings.HasSuffix(w, ")") {
				ended, behind = true, false
			}
		}
		if len(words) > 0 {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

func goesOn(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.IsLower(r) || r == '('
}

func ends(word string) bool {
	core := strings.TrimRight(word, ")]}\"'”’»*_")
	last, _ := utf8.DecodeLastRuneInString(core)
	if last != '.' && last != '!' && last != '?' && last != '…' {
		return false
	}
	inner := strings.ToLower(strings.TrimLeft(strings.TrimRight(core, "."), "([\"'“"))
	initial := utf8.RuneCountInString(inner) == 1 && unicode.IsLetter([]rune(inner)[0])
	return last != '.' || !abbreviations[inner] && !initial
}
