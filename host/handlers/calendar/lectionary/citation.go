package lectionary

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// books are the abbreviations of the table, with the names that answers have.
var books = map[string]string{"Gn": "Genesis", "Ex": "Exodus", "Lv": "Leviticus", "Nm": "Numbers", "Dt": "Deuteronomy", "Jos": "Joshua", "Jgs": "Judges",
	"Ru": "Ruth", "1 Sm": "1 Samuel", "2 Sm": "2 Samuel", "1 Kgs": "1 Kings", "2 Kgs": "2 Kings", "1 Chr": "1 Chronicles", "2 Chr": "2 Chronicles",
	"Ezr": "Ezra", "Neh": "Nehemiah", "Tb": "Tobit", "Jdt": "Judith", "Est": "Esther", "1 Mc": "1 Maccabees", "2 Mc": "2 Maccabees", "Jb": "Job",
	"Ps": "Psalm", "Prv": "Proverbs", "Eccl": "Ecclesiastes", "Sg": "Song of Songs", "Wis": "Wisdom", "Sir": "Sirach", "Is": "Isaiah", "Jer": "Jeremiah",
	"Lam": "Lamentations", "Bar": "Baruch", "Ez": "Ezekiel", "Dn": "Daniel", "Hos": "Hosea", "Jl": "Joel", "Am": "Amos", "Ob": "Obadiah", "Jon": "Jonah",
	"Mi": "Micah", "Na": "Nahum", "Hb": "Habakkuk", "Zep": "Zephaniah", "Hg": "Haggai", "Zec": "Zechariah", "Mal": "Malachi", "Mt": "Matthew",
	"Mk": "Mark", "Lk": "Luke", "Jn": "John", "Acts": "Acts", "Rom": "Romans", "1 Cor": "1 Corinthians", "2 Cor": "2 Corinthians", "Gal": "Galatians",
	"Eph": "Ephesians", "Phil": "Philippians", "Col": "Colossians", "1 Thes": "1 Thessalonians", "2 Thes": "2 Thessalonians", "1 Tm": "1 Timothy",
	"2 Tm": "2 Timothy", "Ti": "Titus", "Phlm": "Philemon", "Heb": "Hebrews", "Jas": "James", "1 Pt": "1 Peter", "2 Pt": "2 Peter", "1 Jn": "1 John",
	"2 Jn": "2 John", "3 Jn": "3 John", "Jude": "Jude", "Rv": "Revelation"}

// Place is one chapter and verse. Part is a letter of a part of it.
type Place struct {
	Chapter string
	Verse   int
	Part    string
}

// Citation is what a text cites, in parts that can be compared.
type Citation struct {
	Book   string // an abbreviation of the table
	Ranges [][2]Place
}

var (
	headed = regexp.MustCompile(`^((?:[1-3] )?[A-Z][A-Za-z]*) (.+)$`)
	point  = regexp.MustCompile(`^(?:([0-9]+|[A-F]):)?([0-9]+)([a-h]*)$`)
	dashes = strings.NewReplacer("—", "-", "–", "-")
)

// ParseCitation reads a citation: book, chapter and verses, such as "Is 63:16b-17, 19b; 64:2-7". The
// books of one chapter have verses alone.
func ParseCitation(text string) (Citation, error) {
	m := headed.FindStringSubmatch(text)
	if m == nil || books[m[1]] == "" {
		return Citation{}, fmt.Errorf("%q does not begin with a book", text)
	}
	c := Citation{Book: m[1]}
	chapter := ""
	for _, part := range strings.FieldsFunc(dashes.Replace(m[2]), func(r rune) bool { return r == ',' || r == ';' }) {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		var ends [2]Place
		for i, end := range []string{from, to} {
			p := point.FindStringSubmatch(strings.TrimSpace(end))
			if p == nil {
				return Citation{}, fmt.Errorf("%q: %q is no verse", text, part)
			}
			if p[1] != "" {
				chapter = p[1]
			}
			n, err := strconv.Atoi(p[2])
			if err != nil || n == 0 || n > 200 {
				return Citation{}, fmt.Errorf("%q: there is no verse %s", text, p[2])
			}
			ends[i] = Place{chapter, n, p[3]}
		}
		if ends[0].Chapter == ends[1].Chapter && ends[0].Verse > ends[1].Verse {
			return Citation{}, fmt.Errorf("%q: %q runs backwards", text, part)
		}
		c.Ranges = append(c.Ranges, ends)
	}
	if len(c.Ranges) == 0 {
		return Citation{}, fmt.Errorf("%q has no verses", text)
	}
	return c, nil
}

// Same tells whether two citations have the same verses; letters of parts of verses, and how
// verses are grouped, do not count.
func (c Citation) Same(d Citation) bool {
	return c.Book == d.Book && slices.Equal(c.verses(), d.verses())
}

// verses is each verse once, in order; of a range over chapters its ends.
func (c Citation) verses() []string {
	type key struct {
		chapter string
		verse   int
	}
	var all []string
	seen := map[key]bool{}
	add := func(chapter string, verse int) {
		if k := (key{chapter, verse}); !seen[k] {
			seen[k] = true
			all = append(all, fmt.Sprintf("%6s:%03d", chapter, verse))
		}
	}
	for _, r := range c.Ranges {
		if r[0].Chapter != r[1].Chapter {
			all = append(all, fmt.Sprintf("%6s:%03d-%6s:%03d", r[0].Chapter, r[0].Verse, r[1].Chapter, r[1].Verse))
			continue
		}
		for v := r[0].Verse; v <= r[1].Verse; v++ {
			add(r[0].Chapter, v)
		}
	}
	slices.Sort(all)
	return all
}

// full is a citation's text with the book's name.
func full(text string) string {
	m := headed.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	return books[m[1]] + " " + m[2]
}
