package corpus

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of a fetch.
const (
	MaxFetch      = 64 << 10 // bytes of text in one answer
	maxContents   = 200      // sections that are listed
	maxSuggestion = 10       // documents or sections that a refusal names
)

// Want is what is fetched: a document, one of its sections, or the text from a byte on.
type Want struct {
	Document string `json:"document"`
	Section  string `json:"section,omitzero"`
	Offset   int64  `json:"offset,omitzero"`
	Limit    int64  `json:"limit,omitzero"`
}

// Heading is a section in a table of contents.
type Heading struct {
	Section string `json:"section"`
	Heading string `json:"heading"`
}

// Fetched is a document, or a part of it.
type Fetched struct {
	Shown
	Source   string    `json:"source"`
	Sections []Heading `json:"sections"` // at most maxContents
	More     bool      `json:"more_sections,omitzero"`
	Section  string    `json:"section"`
	Heading  string    `json:"heading"`
	Text     string    `json:"text"`
	Offset   int64     `json:"offset"`
	Next     int64     `json:"next"` // where the text goes on; -1 at its end
}

// Fetch reads a document out of its object. What is not there is KindNotFound, naming what
// is.
func (l *Library) Fetch(ctx context.Context, name string, w Want, objects Objects) (*Fetched, error) {
	if w.Limit == 0 {
		w.Limit = MaxFetch
	}
	if w.Document == "" || len(w.Document) > MaxFilter || len(w.Section) > MaxFilter || w.Limit < 1 || w.Limit > MaxFetch {
		return nil, world.Errorf(world.KindBadRequest, "corpus.Fetch", "document must be 1 to %d bytes, and limit from 1 to %d", MaxFilter, MaxFetch)
	}
	if w.Offset < 0 {
		return nil, refusal("offset must be 0 or more, not %d", w.Offset)
	}
	w.Document = strings.TrimPrefix(w.Document, objectRoute) // as answers name their sources
	f := &Fetched{}
	err := l.read(ctx, "corpus.Fetch", name, func(c *sqlite.Conn, _ meta) error {
		found := false
		err := exec(c, "SELECT id, ref, title, author, date, kind, link, sum FROM documents WHERE id = ? OR ref = ? ORDER BY seq LIMIT 1", func(st *sqlite.Stmt) error {
			found = true
			if f.Shown = readShown(st); !f.proved {
				return damaged("corpus.Fetch", name, fmt.Errorf("document %q does not prove itself", f.ID))
			}
			return nil
		}, w.Document, w.Document)
		if err == nil && !found {
			return unknownDocument(c, name, w.Document)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	ref, err := hashref.Parse(f.Ref)
	if err != nil {
		return nil, damaged("corpus.Fetch", name, err)
	}
	o, err := objects.Object(ctx, ref)
	if err != nil {
		return nil, err
	}
	d, err := ParseDocument(o.Payload)
	if err != nil {
		return nil, err
	}
	return f, f.take(d, w)
}

// take fills in the text that is wanted.
func (f *Fetched) take(d *Document, w Want) error {
	f.Source, f.Sections = d.Source, []Heading{}
	for i, s := range d.Sections {
		if f.More = i == maxContents; f.More {
			break
		}
		f.Sections = append(f.Sections, Heading{s.Section, s.Heading})
	}
	text := ""
	if w.Section == "" {
		text = d.Text()
	} else {
		s := d.find(w.Section)
		if s == nil {
			return refusal("document %s has no section %.40q; it has %s", f.ID, w.Section, d.contents())
		}
		f.Section, f.Heading, text = s.Section, s.Heading, s.Text
	}
	if w.Offset > int64(len(text)) || w.Offset == int64(len(text)) && w.Offset > 0 {
		return refusal("offset %d is past the end: there are %d bytes", w.Offset, len(text))
	}
	from := int(w.Offset)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from-- // a range never begins within a character
	}
	part := text[from:]
	if int64(len(part)) > w.Limit {
		if part = cut(part, int(w.Limit)); part == "" {
			_, n := utf8.DecodeRuneInString(text[from:])
			part = text[from : from+n]
		}
	}
	f.Text, f.Offset, f.Next = part, int64(from), -1
	if end := from + len(part); end < len(text) {
		f.Next = int64(end)
	}
	return nil
}

// Text is all of a document, with its headings.
func (d *Document) Text() string {
	var b strings.Builder
	for _, s := range d.Sections {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		if s.Heading != "" {
			fmt.Fprintf(&b, "%s. %s\n\n", s.Section, s.Heading)
		}
		b.WriteString(s.Text)
	}
	return b.String()
}

// find is a section by its number; of a page also by the number alone.
func (d *Document) find(number string) *Section {
	number = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(number), "§"), ".")
	for _, want := range []string{number, "p" + number} {
		for i := range d.Sections {
			if d.Sections[i].Section == want {
				return &d.Sections[i]
			}
		}
	}
	return nil
}

// contents names a document's sections, some of them if there are many.
func (d *Document) contents() string {
	if len(d.Sections) == 0 {
		return "none"
	}
	var all []string
	for i, s := range d.Sections {
		if i == maxSuggestion*2 && len(d.Sections) > i+1 {
			all = append(all, fmt.Sprintf("… %s (%d in all)", d.Sections[len(d.Sections)-1].Section, len(d.Sections)))
			break
		}
		all = append(all, s.Section)
	}
	return strings.Join(all, ", ")
}

// unknownDocument names documents whose ids or titles are like what was asked for; of an
// object, where it is.
func unknownDocument(c *sqlite.Conn, name, id string) error {
	if _, err := hashref.Parse(id); err == nil {
		return refusal("corpus %s has no document of the object %s; one that was removed or replaced is still at /v1/objects/%s", name, id, id)
	}
	var near []string
	add := func(st *sqlite.Stmt) error { near = append(near, st.ColumnText(0)); return nil }
	like := DocumentID(id)
	err := exec(c, "SELECT id FROM documents WHERE instr(id, ?) > 0 OR length(id) >= 4 AND instr(?, id) > 0 OR instr(folded, ?) > 0 ORDER BY id LIMIT ?", add, like, like, foldLine(strings.TrimSpace(id)), maxSuggestion)
	if err != nil {
		return err
	}
	if len(near) > 0 {
		return refusal("corpus %s has no document %.80q; there are like it: %s", name, id, strings.Join(near, ", "))
	}
	total := 0
	if err := exec(c, "SELECT count(*) FROM documents", func(st *sqlite.Stmt) error { total = st.ColumnInt(0); return nil }); err != nil {
		return err
	}
	if err := exec(c, "SELECT id FROM documents ORDER BY id LIMIT ?", add, maxSuggestion); err != nil {
		return err
	}
	return refusal("corpus %s has no document %.80q; it has %d, such as: %s", name, id, total, strings.Join(near, ", "))
}
