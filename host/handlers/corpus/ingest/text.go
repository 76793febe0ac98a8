package ingest

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/hashref"
)

// textHeading is a line alone that is a heading by its number: "3.2. Of grace".
var textHeading = regexp.MustCompile(`^(\d{1,3}(?:\.\d{1,3}){0,5})\.?\s+\p{Lu}[^\n]{0,90}$`)

// decodeText reads plain text: paragraphs between empty lines. A line alone that begins with
// a number is a heading; of the first lines, one alone is the title.
func decodeText(src []byte) (*corpus.Document, error) {
	d := &corpus.Document{Media: mediaText}
	front, body, err := frontMatter(src)
	if err != nil {
		return nil, err
	}
	if err := applyFront(d, front); err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(body), "\r\n", "\n"), "\f", "\n\n")
	o := &outline{}
	first := true
	for par := range strings.SplitSeq(emptyLines.ReplaceAllString(text, "\n\n"), "\n\n") {
		par = strings.Trim(par, "\n")
		if strings.TrimSpace(par) == "" {
			continue
		}
		alone := !strings.Contains(par, "\n") && !strings.HasPrefix(par, " ")
		switch {
		case alone && textHeading.MatchString(par) && !strings.HasSuffix(par, ".") && !strings.Contains(par, "...") && !strings.Contains(par, ". . ."):
			o.section(1+strings.Count(textHeading.FindStringSubmatch(par)[1], "."), par)
		case first && d.Title == "" && !strings.Contains(strings.TrimSpace(par), "\n") && len(par) <= 120:
			d.Title = strings.TrimSpace(par)
		default:
			o.paragraph(unwrap(par))
		}
		first = false
	}
	if d.Sections = o.done(); len(d.Sections) == 0 && d.Title != "" {
		d.Sections = []corpus.Section{{Section: "1", Text: d.Title}}
	}
	return d, nil
}

var emptyLines = regexp.MustCompile(`\n[ \t\n]*\n`)

// unwrap takes the indentation off a paragraph's lines.
func unwrap(par string) string {
	lines := strings.Split(par, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n")
}

// decodeLines reads JSON Lines: each line is a document {"title", "text", …}, with "sections"
// instead of "text" if it has parts. A line that is none, or whose id stands before, is told
// to bad by its number.
func decodeLines(src []byte, bad func(line int, err error)) []made {
	var all []made
	ids := map[string]int{} // the line of each id
	for n := 1; len(src) > 0; n++ {
		text, rest, _ := bytes.Cut(src, []byte("\n"))
		src = rest
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if len(text) > MaxLine {
			bad(n, reason("the line is longer than %d MB", MaxLine>>20))
			continue
		}
		m, err := decodeLine(text)
		if err != nil {
			bad(n, err)
			continue
		}
		m.fragment = "#" + itoa(n)
		if m.name != "" {
			m.fragment = "#" + m.name
		}
		if before, twice := ids[m.fragment]; twice { // also an id that is another line's number
			bad(n, reason("line %d is the document %.80q already; give each an \"id\" of its own", before, m.fragment[1:]))
			continue
		}
		ids[m.fragment] = n
		all = append(all, m)
	}
	return all
}

func decodeLine(text []byte) (made, error) {
	v := map[string]any{}
	if err := hashref.Decode(text, &v); err != nil {
		var wrong *jsontext.SyntacticError
		if errors.As(err, &wrong) && !errors.Is(err, jsontext.ErrDuplicateName) {
			return made{}, reason("it is no JSON object: byte %d of the line is wrong", wrong.ByteOffset+1)
		}
		return made{}, reason("it is no JSON object, or has a member twice")
	}
	d := &corpus.Document{Media: mediaLines}
	applyFields(d, v)
	id, body := fieldText(v["id"]), fieldText(v["text"])
	if len(id) > maxLineID {
		return made{}, reason("its \"id\" is longer than %d bytes", maxLineID)
	}
	sections, _ := v["sections"].([]any)
	o := &outline{}
	for par := range strings.SplitSeq(emptyLines.ReplaceAllString(strings.ReplaceAll(body, "\r\n", "\n"), "\n\n"), "\n\n") {
		o.paragraph(par)
	}
	d.Sections = o.done()
	for i, e := range sections {
		s, ok := e.(map[string]any)
		if !ok {
			return made{}, reason("sections[%d] is no object", i)
		}
		number := fieldText(s["section"])
		if number == "" {
			number = itoa(i + 1)
		}
		d.Sections = append(d.Sections, corpus.Section{Section: number, Heading: fieldText(s["heading"]), Text: corpus.Clean(fieldText(s["text"]))})
	}
	if len(d.Sections) == 0 {
		return made{}, reason("it has no \"text\"")
	}
	return made{name: id, original: text, doc: d}, nil
}
