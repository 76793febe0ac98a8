package corpus

import (
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of a document.
const (
	MaxDocument = 12 << 20 // bytes of its object's payload
	MaxSections = 20_000
	maxField    = 512     // bytes of title, author, kind, heading
	maxLink     = 2 << 10 // bytes of a link
)

// ingestProvenance names who wrote a document's object.
const ingestProvenance = "corpus:add"

// Section is a part of a document that has a number of its own.
type Section struct {
	Section string `json:"section"` // "3.2"; of a PDF's pages "p3"
	Heading string `json:"heading"`
	Text    string `json:"text"` // paragraphs with an empty line between
}

// Document is what a world/document/v1 object holds.
type Document struct {
	Title    string    `json:"title"`
	Author   string    `json:"author"`
	Date     string    `json:"date"`
	Kind     string    `json:"kind"`
	Link     string    `json:"link"`
	Source   string    `json:"source"` // the path it was added by, relative to what was named
	Media    string    `json:"media"`
	Original world.Ref `json:"original"` // of the bytes it was made of
	Sections []Section `json:"sections"`
}

// Tidy brings a document within the bounds of its fields, and numbers its sections without
// repeating a number.
func (d *Document) Tidy() {
	d.Title, d.Author, d.Kind, d.Source = line(d.Title), line(d.Author), line(d.Kind), line(d.Source)
	d.Date = tidyDate(d.Date)
	if d.Link = strings.TrimSpace(d.Link); len(d.Link) > maxLink || !linkForm.MatchString(d.Link) {
		d.Link = ""
	}
	seen := make(map[string]bool, len(d.Sections))
	for i := range d.Sections {
		s := &d.Sections[i]
		s.Section, s.Heading, s.Text = numbered(line(s.Section), seen), line(s.Heading), Clean(s.Text)
	}
}

// numbered makes a number that no section before has.
func numbered(want string, seen map[string]bool) string {
	n := want
	for i := 2; n == "" || seen[n]; i++ {
		n = want + "-" + itoa(i)
	}
	seen[n] = true
	return n
}

// linkForm is what a link may be: never one that a reader's program would run.
var linkForm = regexp.MustCompile(`^(?:https?://[^\s"'<>]+|urn:[^\s"'<>]+|doi:[^\s"'<>]+)$`)

// Object is the document as it is stored. One that is too large is KindTooLarge.
func (d *Document) Object() (world.Object, error) {
	if len(d.Sections) > MaxSections {
		return world.Object{}, world.Errorf(world.KindTooLarge, "corpus.Object", "it has more than %d sections; split it", MaxSections)
	}
	payload, err := hashref.Marshal(d)
	if err != nil {
		return world.Object{}, world.Wrap(world.KindBadRequest, "corpus.Object", err)
	}
	if len(payload) > MaxDocument {
		return world.Object{}, world.Errorf(world.KindTooLarge, "corpus.Object", "its text is larger than %d MB; split it", MaxDocument>>20)
	}
	return world.NewObject(world.SemDocument, ingestProvenance, payload), nil
}

// ParseDocument reads a document's object.
func ParseDocument(payload []byte) (*Document, error) {
	d := &Document{}
	if err := hashref.Decode(payload, d); err != nil {
		return nil, &world.Error{Op: "corpus.ParseDocument", Kind: world.KindIntegrity, Msg: "the document's object is no document", Err: err}
	}
	return d, nil
}

// Clean takes out of a text what could steer whoever shows it: control characters but line
// ends and tabs, and marks of direction.
func Clean(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t', r == '\u00a0':
			return ' '
		case r == '\u00ad', r == '\ufeff', r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// line is a text on one line within maxField.
func line(s string) string {
	s = strings.Join(strings.Fields(Clean(s)), " ")
	return cut(s, maxField)
}

// cut shortens a text to at most n bytes, between characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// dateForms are the dates that can be told apart from other text.
var dateForms = []struct{ layout, as string }{
	{"2006-01-02", "2006-01-02"}, {time.RFC3339, "2006-01-02"}, {"2006-01-02T15:04:05", "2006-01-02"}, {"2006-01-02 15:04:05", "2006-01-02"},
	{"2006-01-02T15:04", "2006-01-02"}, {"2006/01/02", "2006-01-02"}, {"2006-01", "2006-01"}, {"2006", "2006"},
	{"2 January 2006", "2006-01-02"}, {"January 2, 2006", "2006-01-02"}, {"January 2006", "2006-01"}, {"2 Jan 2006", "2006-01-02"},
}

// tidyDate writes a date as YYYY, YYYY-MM or YYYY-MM-DD; what is none of dateForms stays as
// it is, and no filter by date finds it.
func tidyDate(s string) string {
	s = line(s)
	for _, f := range dateForms {
		if t, err := time.Parse(f.layout, s); err == nil {
			return t.Format(f.as)
		}
	}
	return cut(s, 64)
}

var dateText = regexp.MustCompile(`^[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?$`)

// validDate tells whether a text is a date as filters have it.
func validDate(s string) bool {
	if !dateText.MatchString(s) {
		return false
	}
	_, err := time.Parse("2006-01-02"[:len(s)], s)
	return err == nil
}
