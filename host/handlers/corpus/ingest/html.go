package ingest

import (
	"bytes"
	stdhtml "html"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"ailang.dev/world/host/handlers/corpus"
)

// dropped are elements that are no text of a document.
var dropped = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Nav: true, atom.Noscript: true, atom.Template: true, atom.Iframe: true, atom.Object: true, atom.Embed: true,
	atom.Svg: true, atom.Math: true, atom.Form: true, atom.Button: true, atom.Select: true, atom.Textarea: true, atom.Footer: true, atom.Head: true, atom.Canvas: true,
	atom.Audio: true, atom.Video: true, atom.Dialog: true,
}

// blocks are elements that begin and end a paragraph.
var blocks = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Section: true, atom.Article: true, atom.Main: true, atom.Header: true, atom.Aside: true, atom.Blockquote: true, atom.Ul: true,
	atom.Ol: true, atom.Dl: true, atom.Dt: true, atom.Dd: true, atom.Table: true, atom.Figure: true, atom.Figcaption: true, atom.Address: true, atom.Body: true,
	atom.Details: true, atom.Summary: true, atom.Hr: true, atom.Center: true, atom.Pre: true,
}

// decodeHTML reads a page: its title, meta data, and its text by headings. What is no text
// is dropped, and nothing of it runs.
func decodeHTML(src []byte) (*corpus.Document, error) {
	root, err := html.Parse(bytes.NewReader(src))
	if err != nil {
		return nil, reason("it cannot be read: %.120v", err)
	}
	d := &corpus.Document{Media: mediaHTML}
	p := &page{out: &outline{}, doc: d}
	p.head(root, 0)
	p.walk(root, 0)
	p.end()
	if p.deep {
		return nil, tooDeep
	}
	d.Sections = p.out.done()
	if d.Title == "" {
		d.Title = p.first
	}
	return d, nil
}

// page is a page on its way to text.
type page struct {
	doc   *corpus.Document
	out   *outline
	first string // the first h1
	buf   strings.Builder
	deep  bool // something was too deep to be read
}

const tooDeep = reasonError("its elements are too deep within one another")

// unseen is a style under which nothing is seen.
var unseen = regexp.MustCompile(`(?i)(display\s*:\s*none|visibility\s*:\s*hidden)`)

// has tells whether an element has an attribute, whatever its value.
func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Namespace == "" && a.Key == name })
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if strings.EqualFold(a.Key, name) {
			return a.Val
		}
	}
	return ""
}

// head takes title and meta data.
func (p *page) head(n *html.Node, depth int) {
	if depth > maxNesting {
		return
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.DataAtom == atom.Title && p.doc.Title == "" && n.DataAtom == atom.Head:
			p.doc.Title = strings.Join(strings.Fields(rawText(c)), " ")
		case c.DataAtom == atom.Meta:
			p.meta(strings.ToLower(attr(c, "name")+attr(c, "property")), attr(c, "content"))
		case c.DataAtom == atom.Link && attr(c, "rel") == "canonical":
			p.doc.Link = attr(c, "href")
		case c.DataAtom == atom.Html, c.DataAtom == atom.Head:
			p.head(c, depth+1)
		}
	}
}

func (p *page) meta(name, content string) {
	set := func(into *string) {
		if *into == "" {
			*into = content
		}
	}
	switch name {
	case "author", "dc.creator", "dcterms.creator", "article:author":
		set(&p.doc.Author)
	case "date", "dc.date", "dcterms.date", "article:published_time", "citation_publication_date":
		set(&p.doc.Date)
	}
}

func rawText(n *html.Node) string {
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// end puts what was gathered into a paragraph.
func (p *page) end() {
	lines := strings.Split(p.buf.String(), "\n")
	kept := lines[:0]
	for _, l := range lines {
		if l = strings.Join(strings.Fields(l), " "); l != "" {
			kept = append(kept, l)
		}
	}
	p.buf.Reset()
	p.out.paragraph(strings.Join(kept, "\n"))
}

func (p *page) walk(n *html.Node, depth int) {
	if depth > maxNesting {
		p.deep = true
		return
	}
	switch n.Type {
	case html.TextNode:
		text := n.Data
		if n.Parent == nil || n.Parent.DataAtom != atom.Pre {
			text = strings.ReplaceAll(text, "\n", " ")
		}
		p.buf.WriteString(text)
		return
	case html.ElementNode:
		if dropped[n.DataAtom] || has(n, "hidden") || unseen.MatchString(attr(n, "style")) || attr(n, "aria-hidden") == "true" || attr(n, "role") == "navigation" {
			return
		}
	}
	if level := headingLevel(n.DataAtom); level > 0 {
		p.heading(n, level, depth)
		return
	}
	switch n.DataAtom {
	case atom.Br:
		p.buf.WriteByte('\n')
	case atom.Li:
		p.buf.WriteString("\n- ")
	case atom.Tr:
		p.buf.WriteByte('\n')
	case atom.Td, atom.Th:
		p.buf.WriteString(" ")
	}
	if blocks[n.DataAtom] && !within(n, atom.Li) && !within(n, atom.Td) {
		p.end()
		defer p.end()
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.walk(c, depth+1)
	}
}

// within tells whether an element stands in a list item or cell, whose text stays together.
func within(n *html.Node, a atom.Atom) bool {
	return n.Parent != nil && n.Parent.DataAtom == a
}

func headingLevel(a atom.Atom) int {
	switch a {
	case atom.H1:
		return 1
	case atom.H2:
		return 2
	case atom.H3:
		return 3
	case atom.H4:
		return 4
	case atom.H5:
		return 5
	case atom.H6:
		return 6
	}
	return 0
}

func (p *page) heading(n *html.Node, level, depth int) {
	p.end()
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.walk(c, depth+1)
	}
	text := strings.TrimRight(strings.Join(strings.Fields(p.buf.String()), " "), "¶ ")
	p.buf.Reset()
	if level == 1 && p.first == "" {
		p.first = text
		if len(p.out.sections) == 0 && !p.out.begun {
			return // the title of the page
		}
	}
	p.out.section(level, text)
}

// htmlText is the text of a piece of HTML.
func htmlText(src []byte) string {
	d, err := decodeHTML(src)
	if err != nil {
		return ""
	}
	return d.Text()
}

// unescape resolves the entities of a text.
func unescape(s string) string { return stdhtml.UnescapeString(s) }
