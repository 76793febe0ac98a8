package ingest

import (
	"fmt"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"ailang.dev/world/host/handlers/corpus"
)

// decodeMarkdown reads CommonMark with tables, footnotes and front matter. The first heading
// of level 1 is the title if front matter has none; deeper headings are sections.
func decodeMarkdown(src []byte) (*corpus.Document, error) {
	d := &corpus.Document{Media: mediaMarkdown}
	front, body, err := frontMatter(src)
	if err != nil {
		return nil, err
	}
	if err := applyFront(d, front); err != nil {
		return nil, err
	}
	root := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Footnote)).Parser().Parse(text.NewReader(body))
	m := &markdown{src: body, out: &outline{}}
	first := true
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		switch {
		case ok && h.Level == 1 && first:
			first = false
			t := m.inline(n)
			if d.Title == "" {
				d.Title = t
			}
		case ok:
			m.out.section(h.Level, m.inline(n))
		default:
			m.out.paragraph(m.block(n, 0))
		}
	}
	if m.deep {
		return nil, tooDeep
	}
	d.Sections = m.out.done()
	return d, nil
}

type markdown struct {
	src  []byte
	out  *outline
	deep bool // something was too deep to be read
}

// block is a block's text, by its structure.
func (m *markdown) block(n ast.Node, depth int) string {
	if depth > maxNesting {
		m.deep = true
		return ""
	}
	switch v := n.(type) {
	case *ast.Paragraph, *ast.TextBlock, *ast.Heading, *extast.TableCell:
		return m.inline(n)
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		return strings.TrimRight(string(n.Lines().Value(m.src)), "\n")
	case *ast.HTMLBlock:
		return htmlText(n.Lines().Value(m.src))
	case *ast.ThematicBreak:
		return ""
	case *ast.List:
		return m.list(v, depth)
	case *extast.TableHeader, *extast.TableRow:
		return m.children(n, " | ", depth)
	case *extast.Table:
		return m.children(n, "\n", depth)
	}
	return m.children(n, "\n\n", depth)
}

func (m *markdown) children(n ast.Node, sep string, depth int) string {
	var all []string
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t := strings.TrimSpace(m.block(c, depth+1)); t != "" {
			all = append(all, t)
		}
	}
	return strings.Join(all, sep)
}

func (m *markdown) list(l *ast.List, depth int) string {
	var all []string
	at := l.Start
	for c := l.FirstChild(); c != nil; c = c.NextSibling() {
		mark := "- "
		if l.IsOrdered() {
			mark = fmt.Sprintf("%d. ", at)
			at++
		}
		all = append(all, mark+strings.ReplaceAll(m.children(c, "\n", depth), "\n", "\n  "))
	}
	return strings.Join(all, "\n")
}

// inline is the text of a block without its markup.
func (m *markdown) inline(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch v := n.(type) {
		case *ast.Text:
			b.Write(v.Segment.Value(m.src))
			if v.SoftLineBreak() {
				b.WriteByte(' ')
			} else if v.HardLineBreak() {
				b.WriteByte('\n')
			}
		case *ast.String:
			b.Write(v.Value)
		case *ast.AutoLink:
			b.Write(v.Label(m.src))
		case *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return unescape(b.String())
}
