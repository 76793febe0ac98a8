package workbench

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of a JSON text that is shown.
const (
	maxMembers = 4000 // lines
	maxStringS = 600  // bytes of one string, where there is a whole to link to
)

// pretty shows a payload: JSON indented, references as links, long strings cut; anything
// else as text, or by its size if it is none. whole is where all of it is; with "" strings
// are shown up to the bound of the box.
func pretty(b []byte, maxBytes int, whole string) template.HTML {
	var m markup
	switch {
	case len(b) == 0:
		m.raw(`<p class="none">It is empty.</p>`)
		return m.html()
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		m.raw(`<p class="none">`)
		m.text(fmt.Sprintf("These %d bytes are no text.", len(b)))
		m.raw(`</p>`)
		more(&m, whole)
		return m.html()
	}
	// Highlighting walks the text; what is far larger than the box is shown as it is.
	if b[0] == '{' || b[0] == '[' {
		if j := (&jsonView{m: &m, max: maxBytes, whole: whole}); j.show(b) {
			return m.html()
		}
		m.Reset()
	}
	return box(string(b), maxBytes, maxMembers, whole)
}

// box is plain text in a box, cut at its bounds.
func box(s string, maxBytes, maxLines int, whole string) template.HTML {
	var m markup
	shown, left := clip(s, maxBytes, maxLines)
	m.raw(`<pre class="text" tabindex="0">`)
	m.text(shown)
	m.raw(`</pre>`)
	if left > 0 {
		left := fmt.Sprintf("%d more bytes", left)
		m.raw(`<p class="cut">`)
		m.text("Cut here: " + left + ". ")
		link(&m, whole, "Show the whole")
		m.raw(`</p>`)
	}
	return m.html()
}

func more(m *markup, whole string) {
	if whole != "" {
		m.raw(`<p class="cut">`)
		link(m, whole, "Show the whole")
		m.raw(`</p>`)
	}
}

func link(m *markup, href, text string) {
	if href == "" {
		return
	}
	m.raw(`<a href="`)
	m.text(href)
	m.raw(`">`)
	m.text(text)
	m.raw(`</a>`)
}

// jsonView writes one JSON text as markup.
type jsonView struct {
	m     *markup
	max   int
	whole string
	lines int
	cut   bool
	short bool // a string was cut
}

// show tells whether the text is JSON.
func (j *jsonView) show(b []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	j.m.raw(`<pre class="json" tabindex="0">`)
	if !j.value(dec, 0) {
		return false
	}
	j.m.raw(`</pre>`)
	if j.cut || j.short {
		j.m.raw(`<p class="cut">`)
		j.m.text("Cut: it is longer than is shown here. ")
		link(j.m, j.whole, "Show the whole")
		j.m.raw(`</p>`)
	}
	return true
}

func (j *jsonView) indent(depth int) {
	j.lines++
	j.m.raw("\n" + strings.Repeat("  ", depth))
}

// full tells whether the box holds no more; then only the ends of what is open follow.
func (j *jsonView) full() bool { return j.m.Len() > 3*j.max || j.lines > maxMembers }

func (j *jsonView) value(dec *jsontext.Decoder, depth int) bool {
	if dec.PeekKind() == '{' || dec.PeekKind() == '[' {
		return j.composite(dec, depth)
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return false
	}
	switch tok.Kind() {
	case '"':
		j.text(tok.String())
	case '0':
		j.m.span("n", tok.String())
	default:
		j.m.span("k", tok.String())
	}
	return true
}

func (j *jsonView) composite(dec *jsontext.Decoder, depth int) bool {
	open, err := dec.ReadToken()
	if err != nil {
		return false
	}
	object := open.Kind() == '{'
	end := byte('}')
	if !object {
		end = ']'
	}
	j.m.raw(open.String())
	for n := 0; dec.PeekKind() != jsontext.Kind(end); n++ {
		if dec.PeekKind() == 0 {
			return false
		}
		if j.full() {
			j.cut = true
			if !skipRest(dec, jsontext.Kind(end)) {
				return false
			}
			j.indent(depth + 1)
			j.m.raw("…")
			break
		}
		if n > 0 {
			j.m.raw(",")
		}
		j.indent(depth + 1)
		if object {
			name, err := dec.ReadToken()
			if err != nil {
				return false
			}
			j.m.span("m", quote(cut(name.String(), MaxField)))
			j.m.raw(": ")
		}
		if !j.value(dec, depth+1) {
			return false
		}
	}
	if j.m.String()[j.m.Len()-1] != open.String()[0] {
		j.indent(depth)
	}
	_, err = dec.ReadToken()
	j.m.raw(string(end))
	return err == nil
}

func skipRest(dec *jsontext.Decoder, end jsontext.Kind) bool {
	for dec.PeekKind() != end {
		if dec.SkipValue() != nil {
			return false
		}
	}
	return true
}

// text is a string: a link if it is a reference.
func (j *jsonView) text(s string) {
	if ref, err := hashref.Parse(s); err == nil && !ref.IsNone() {
		j.m.raw(`<a class="ref" href="`)
		j.m.text(objectPath(ref, true))
		j.m.raw(`">`)
		j.m.text(`"` + s + `"`)
		j.m.raw(`</a>`)
		return
	}
	limit := maxStringS
	if j.whole == "" {
		limit = j.max
	}
	shown, left := clip(s, limit, maxMembers)
	j.m.span("s", quote(shown))
	if left > 0 {
		j.short = true
		j.m.span("cut", fmt.Sprintf(" … %d more bytes", left))
	}
}

// quote is a JSON string whose line ends are seen as such: the text goes on below.
func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return `"` + strings.ToValidUTF8(s, "\uFFFD") + `"`
	}
	return string(b)
}

// objectPath is the page of an object.
func objectPath(ref world.Ref, payload bool) string {
	path := "/workbench?object=" + ref.String()
	if payload {
		path += "&payload=1"
	}
	return path
}
