package workbench

import (
	"fmt"
	"html/template"
	"strings"

	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/world"
)

// Measures of the picture, in units that are pixels where it is shown at its own size.
const (
	picWidth  = 340
	nodeTall  = 46
	nodeGap   = 22
	picMargin = 4
)

// node is one thing that an entry stands on.
type node struct {
	label, name string
	href        string
	mark        string // ok, bad or "" where nothing was to be proved
	class       string
	indent      int
	edge        string // what leads to it from the one before
}

// picture draws the chain of an entry, from who asked down to the world that it made. The
// same is told in words by its description, and by the table of links.
func picture(c *provenance.Chain) template.HTML {
	nodes := nodesOf(c)
	var m markup
	height := len(nodes)*(nodeTall+nodeGap) - nodeGap + 2*picMargin
	m.raw(fmt.Sprintf(`<svg class="chain" viewBox="0 0 %d %d" role="group" aria-labelledby="chain-title chain-desc">`, picWidth, height))
	m.raw(`<title id="chain-title">`)
	m.text(fmt.Sprintf("The chain of entry %d", c.Index))
	m.raw(`</title><desc id="chain-desc">`)
	m.text(inWords(nodes))
	m.raw(`</desc>`)
	for i, n := range nodes {
		drawEdge(&m, i, n)
	}
	for i, n := range nodes {
		drawNode(&m, i, n)
	}
	m.raw(`</svg>`)
	return m.html()
}

func top(i int) int { return picMargin + i*(nodeTall+nodeGap) }

func drawEdge(m *markup, i int, n node) {
	if i == 0 {
		return
	}
	x, y := picMargin+24+n.indent, top(i)
	m.raw(fmt.Sprintf(`<path class="edge" d="M%d %dV%d"/><path class="tip" d="M%d %dl-4 -7h8z"/>`, x, y-nodeGap, y-3, x, y-1))
	if n.edge != "" {
		m.raw(fmt.Sprintf(`<text class="edge-text" x="%d" y="%d">`, x+10, y-7))
		m.text(n.edge)
		m.raw(`</text>`)
	}
}

func drawNode(m *markup, i int, n node) {
	x, y := picMargin+n.indent, top(i)
	width := picWidth - 2*picMargin - n.indent
	if n.href != "" {
		m.raw(`<a href="`)
		m.text(n.href)
		m.raw(`">`)
	}
	m.raw(fmt.Sprintf(`<rect class="node %s" x="%d" y="%d" width="%d" height="%d" rx="8"/>`, n.class, x, y, width, nodeTall))
	m.raw(fmt.Sprintf(`<text class="node-label" x="%d" y="%d">`, x+14, y+19))
	m.text(n.label)
	m.raw(fmt.Sprintf("</text> "+`<text class="node-name" x="%d" y="%d">`, x+14, y+36))
	m.text(n.name)
	m.raw(`</text>`)
	switch n.mark {
	case "ok":
		m.raw(fmt.Sprintf(" "+`<text class="mark good" x="%d" y="%d">✓</text>`, x+width-24, y+29))
	case "bad":
		m.raw(fmt.Sprintf(" "+`<text class="mark bad" x="%d" y="%d">✗</text>`, x+width-24, y+29))
	}
	if n.href != "" {
		m.raw(`</a>`)
	}
}

func said(mark string) string {
	return map[string]string{"ok": ", it holds", "bad": ", it is broken"}[mark]
}

// inWords is the picture for who does not see it.
func inWords(nodes []node) string {
	parts := make([]string, len(nodes))
	for i, n := range nodes {
		parts[i] = strings.TrimSpace(n.edge+" "+n.label) + " " + n.name + said(n.mark)
	}
	return strings.Join(parts, "; ") + "."
}

// marks tells of each reference whether its links hold.
func marks(c *provenance.Chain) map[world.Ref]string {
	m := map[world.Ref]string{}
	for _, l := range c.Links {
		switch {
		case !l.OK:
			m[l.Ref] = "bad"
		case m[l.Ref] == "":
			m[l.Ref] = "ok"
		}
	}
	return m
}

func nodesOf(c *provenance.Chain) []node {
	mark := marks(c)
	object := func(label, edge string, ref world.Ref) node {
		return node{label: label, name: short(ref), href: objectPath(ref, true), mark: mark[ref], edge: edge}
	}
	var all []node
	if c.Episode != "" {
		n := node{label: "Episode " + cut(c.Episode, 32), name: "over " + cut(c.Surface, 12), href: episodePath(c.Episode), class: "who"}
		if c.Session != nil {
			n.name += ", session " + short(c.Session.ID)
			n.mark = mark[c.Session.ID]
		}
		all = append(all, n)
	}
	if len(c.Input) > 0 || c.Tool != "" {
		all = append(all, object("Input", "asked", inputRef(c)))
	}
	if c.Tool != "" {
		n := object("Transition "+cut(c.Tool, 30), "of", c.Source)
		n.name += engineName(c)
		all = append(all, n)
	}
	drawn, effects := 0, 0
	for i, r := range c.Rounds {
		label := "Plan"
		if len(c.Rounds) > 1 {
			label = fmt.Sprintf("Plan, round %d", i+1)
		}
		all = append(all, object(label, "which planned", r.Plan))
		for _, e := range r.Effects {
			if effects++; drawn == MaxNodes {
				continue
			}
			drawn++
			all = append(all, effectNode(e, mark))
		}
	}
	if effects > drawn {
		all = append(all, node{label: fmt.Sprintf("%d more effects", effects-drawn), name: "listed on this page", indent: 24})
	}
	if c.Tool != "" {
		all = append(all, object("Output", "answered", outputRef(c)))
	} else {
		all = append(all, object("Record", "", c.Entry.TransitionRef))
	}
	entry := node{label: fmt.Sprintf("Entry %d", c.Index), name: short(c.Entry.EntryHash), mark: mark[c.Entry.EntryHash], class: "this", edge: "recorded as"}
	if c.Index > 0 {
		prev := mark[c.Entry.Header.PrevEntryHash]
		entry.name += map[string]string{"ok": ", follows ", "bad": ", does not follow "}[prev] + fmt.Sprint(c.Index-1)
		if prev == "bad" {
			entry.mark = "bad"
		}
	}
	all = append(all, entry)
	if !c.World.Ref.IsNone() {
		all = append(all, node{label: fmt.Sprintf("World, revision %d", c.World.Revision), name: short(c.World.Ref),
			href: worldPath(c.World.Ref), mark: mark[c.World.Ref], edge: "which made"})
	}
	return all
}

func effectNode(e provenance.Effect, mark map[world.Ref]string) node {
	n := node{label: cut(e.Effect, 26) + " " + cut(e.Scope, 14), name: fmt.Sprintf("%s · cost %d · %d left", e.Status, e.Cost, e.BudgetAfter),
		href: objectPath(e.Record, true), indent: 24, class: e.Status, mark: mark[e.Record]}
	if e.Status == "unknown" {
		n.label, n.name = "Effect", short(e.Record)
	}
	for _, ref := range []world.Ref{e.Request, e.Result} {
		if mark[ref] == "bad" {
			n.mark = "bad"
		}
	}
	return n
}

func engineName(c *provenance.Chain) string {
	name := c.Engine.Name
	if name == "" {
		name = short(c.Engine.Ref)
	}
	return " on " + cut(name, 20)
}

// linkRef is the reference of a link by its name.
func linkRef(c *provenance.Chain, what string) world.Ref {
	for _, l := range c.Links {
		if l.What == what {
			return l.Ref
		}
	}
	return world.Ref{}
}

func inputRef(c *provenance.Chain) world.Ref  { return linkRef(c, "input") }
func outputRef(c *provenance.Chain) world.Ref { return linkRef(c, "output") }

// short is a reference in few characters; its whole is behind the link.
func short(ref world.Ref) string {
	if ref.IsNone() {
		return "none"
	}
	return ref.Hex()[:12]
}

// bar is a budget, as what was spent of it.
func bar(spent, granted int64) template.HTML {
	used := int64(0)
	if spent >= granted && spent > 0 {
		used = 100
	} else if granted > 0 {
		used = min(100, int64(100*(float64(spent)/float64(granted))+0.5))
	}
	if used == 0 && spent > 0 {
		used = 1
	}
	class := "used"
	if used >= 90 {
		class = "used most"
	}
	var m markup
	m.raw(`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="`)
	m.text(fmt.Sprintf("%d of %d spent", spent, granted))
	m.raw(fmt.Sprintf(`"><rect class="all" width="100" height="8"/><rect class="%s" width="%d" height="8"/></svg>`, class, used))
	return m.html()
}
