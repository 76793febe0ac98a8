package ingest

import (
	"regexp"
	"strings"

	"ailang.dev/world/host/handlers/corpus"
)

// outline gathers a text with headings into sections. Numbers that headings have are kept;
// others are counted.
type outline struct {
	sections []corpus.Section
	body     strings.Builder
	counts   []int  // sections counted so far, by depth
	base     int    // the level of the headings that are counted first; 0 before the first
	number   string // of the section that is being gathered
	heading  string
	begun    bool
}

// numberedHeading is a heading that has its number in it.
var numberedHeading = regexp.MustCompile(`^(?:§\s*)?(\d{1,5}(?:\.\d{1,4}){0,7})(?:[.):]\s*|\s+)(\S.*)$`)

// paragraph adds a paragraph to the section.
func (o *outline) paragraph(text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	if o.body.Len() > 0 {
		o.body.WriteString("\n\n")
	}
	o.body.WriteString(text)
}

// section begins a section at a heading of a level, 1 and up.
func (o *outline) section(level int, heading string) {
	heading = strings.Join(strings.Fields(heading), " ")
	o.flush()
	if o.base == 0 || level < o.base {
		o.base = level
	}
	depth := min(level-o.base+1, 6)
	for len(o.counts) < depth {
		o.counts = append(o.counts, 0)
	}
	o.counts = o.counts[:depth]
	o.counts[depth-1]++
	o.begun = true
	if m := numberedHeading.FindStringSubmatch(heading); m != nil {
		o.number, o.heading = m[1], m[2]
		return
	}
	parts := make([]string, depth)
	for i, n := range o.counts {
		parts[i] = itoa(max(n, 1))
	}
	o.number, o.heading = strings.Join(parts, "."), heading
}

// flush ends the section that is being gathered; one without text and heading is none.
func (o *outline) flush() {
	text := corpus.Clean(o.body.String())
	o.body.Reset()
	if !o.begun && text == "" {
		return
	}
	if !o.begun {
		o.number = "0" // what stands before the first heading
	}
	o.sections = append(o.sections, corpus.Section{Section: o.number, Heading: o.heading, Text: text})
}

// done is all sections. A text without a heading is section 1; sections that hold neither
// text nor a heading are left out.
func (o *outline) done() []corpus.Section {
	o.flush()
	kept := o.sections[:0]
	for _, s := range o.sections {
		if s.Text != "" || s.Heading != "" {
			kept = append(kept, s)
		}
	}
	if !o.begun && len(kept) == 1 {
		kept[0].Section = "1"
	}
	return kept
}
