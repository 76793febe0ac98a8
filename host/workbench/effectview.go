package workbench

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
)

// maxDiff bounds, in bytes, each side of a difference that is computed.
const maxDiff = 64 << 10

// answer is what the handlers that ship answer; each has some of it.
type answer struct {
	OK        *bool  `json:"ok"`
	Refused   string `json:"refused"`
	Failed    string `json:"failed"`
	Content   string `json:"content"`
	Diff      string `json:"diff"`
	Created   bool   `json:"created"`
	Line      int    `json:"line"`
	From      any    `json:"from"`
	Truncated bool   `json:"truncated"`

	Stdout     *string `json:"stdout"`
	Stderr     string  `json:"stderr"`
	Exit       int64   `json:"exit_code"`
	Signal     string  `json:"signal"`
	Limit      string  `json:"limit"`
	DurationMS int64   `json:"duration_ms"`
	Running    bool    `json:"running"`

	Commit  string `json:"commit"`
	Branch  string `json:"branch"`
	Matches []struct {
		Path string `json:"path"`
		Line int    `json:"line"`
		Text string `json:"text"`
	} `json:"matches"`
	Entries []struct {
		Name string `json:"name"`
		Type string `json:"type"`
		Size int64  `json:"size"`
	} `json:"entries"`
	Paths   []string `json:"paths"`
	Changes []struct {
		Path     string `json:"path"`
		Staged   string `json:"staged"`
		Unstaged string `json:"unstaged"`
	} `json:"changes"`
}

// inside is what an effect did, as its kind is best looked at; "" if only its JSON tells.
func inside(effect string, req, res jsontext.Value, whole string) template.HTML {
	var a payload
	var r answer
	if hashref.DecodeKnown(req, &a) != nil {
		return ""
	}
	if len(res) > 0 && hashref.DecodeKnown(res, &r) != nil {
		return ""
	}
	done := r.OK != nil && r.Refused == "" && r.Failed == ""
	switch {
	case r.Stdout != nil && effect == "Workspace.Exec":
		return terminal(&a, &r, whole)
	case effect == "Workspace.Write" && a.Op == "edit":
		return edit(&a, &r, whole)
	case effect == "Workspace.Write" && a.Op == "write":
		return write(&a, &r, done, whole)
	case !done:
		return ""
	case strings.HasPrefix(effect, "Git.") && r.Diff != "":
		return unified(r.Diff, whole)
	case r.Content != "":
		first := 1
		if f, ok := r.From.(float64); ok && f >= 1 && f < 1<<31 {
			first = int(f)
		}
		return numbered(r.Content, first, whole)
	}
	return table(&r, whole)
}

// table shows answers that are lists.
func table(r *answer, whole string) template.HTML {
	var b strings.Builder
	for _, m := range r.Matches {
		fmt.Fprintf(&b, "%s:%d: %s\n", m.Path, m.Line, m.Text)
	}
	for _, e := range r.Entries {
		size := ""
		if e.Type == "file" {
			size = fmt.Sprintf("%d", e.Size)
		}
		fmt.Fprintf(&b, "%10s  %-4s  %s\n", size, cut(e.Type, 12), e.Name)
	}
	for _, p := range r.Paths {
		b.WriteString(p + "\n")
	}
	for _, c := range r.Changes {
		fmt.Fprintf(&b, "%-12s %-12s %s\n", cut(c.Staged, 12), cut(c.Unstaged, 12), c.Path)
	}
	if b.Len() == 0 {
		return ""
	}
	return box(b.String(), MaxBlock, MaxLines, whole)
}

// numbered is a file's text with its line numbers.
func numbered(s string, first int, whole string) template.HTML {
	d := newDiff(whole)
	d.m.raw(`<div class="code" tabindex="0"><table class="diff plain">`)
	d.each(s, func(i int, line string) { d.row(" ", "", fmt.Sprint(first+i), line) })
	return d.end()
}

// write shows what a file was given. What it held before is not in the log.
func write(a *payload, r *answer, done bool, whole string) template.HTML {
	d := newDiff(whole)
	switch {
	case !done:
		d.note("This is what was to be written; it was not.")
	case !r.Created:
		d.note("The file was there, and is this since. What it was before is not part of this call.")
	}
	d.open()
	d.each(a.Content, func(i int, line string) { d.row("+", "", fmt.Sprint(1+i), line) })
	return d.end()
}

// edit shows an edit as a difference. Its line numbers are those of the file before, where
// the answer tells the place.
func edit(a *payload, r *answer, whole string) template.HTML {
	d := newDiff(whole)
	if r.Line == 0 {
		d.note("This is what was to be changed; it was not.")
	}
	d.open()
	at := max(1, r.Line)
	if len(a.OldText) > maxDiff || len(a.NewText) > maxDiff {
		d.each(a.OldText, func(i int, line string) { d.row("-", fmt.Sprint(at+i), "", line) })
		d.each(a.NewText, func(i int, line string) { d.row("+", "", fmt.Sprint(at+i), line) })
		return d.end()
	}
	before, after := a.OldText, a.NewText
	if !strings.HasSuffix(before, "\n") || !strings.HasSuffix(after, "\n") {
		before, after = before+"\n", after+"\n" // they end within lines of the file
	}
	u, err := udiff.ToUnifiedDiff("a", "b", before, udiff.Lines(before, after), 3)
	if err != nil {
		return ""
	}
	for _, h := range u.Hunks {
		from, to := at+h.FromLine-1, at+h.ToLine-1
		for _, l := range h.Lines {
			text := strings.TrimSuffix(l.Content, "\n")
			switch l.Kind {
			case udiff.Delete:
				d.row("-", fmt.Sprint(from), "", text)
				from++
			case udiff.Insert:
				d.row("+", "", fmt.Sprint(to), text)
				to++
			default:
				d.row(" ", fmt.Sprint(from), fmt.Sprint(to), text)
				from++
				to++
			}
		}
	}
	return d.end()
}

// unified shows a difference that came as text.
func unified(s, whole string) template.HTML {
	d := newDiff(whole)
	d.open()
	head := true // of a file; a "---" further down is a line that was taken out
	d.each(s, func(_ int, line string) {
		switch {
		case strings.HasPrefix(line, "diff "):
			head = true
			d.row("@", "", "", line)
		case strings.HasPrefix(line, "@@"):
			head = false
			d.row("@", "", "", line)
		case head:
			d.row("@", "", "", line)
		case strings.HasPrefix(line, "+"):
			d.row("+", "", "", line[1:])
		case strings.HasPrefix(line, "-"):
			d.row("-", "", "", line[1:])
		default:
			d.row(" ", "", "", strings.TrimPrefix(line, " "))
		}
	})
	return d.end()
}

// diff is a table of lines being made, within the bounds of a box.
type diff struct {
	m     markup
	whole string
	rows  int
	bytes int
	left  bool
}

func newDiff(whole string) *diff { return &diff{whole: whole} }

func (d *diff) note(s string) {
	d.m.raw(`<p class="note">`)
	d.m.text(s)
	d.m.raw(`</p>`)
}

func (d *diff) open() { d.m.raw(`<div class="code" tabindex="0"><table class="diff">`) }

// each calls f with each line, until the box is full.
func (d *diff) each(s string, f func(i int, line string)) {
	if s == "" {
		return
	}
	s = strings.TrimSuffix(s, "\n")
	for i := 0; ; i++ {
		if d.rows >= MaxLines || d.bytes >= MaxBlock {
			d.left = true
			return
		}
		line, rest, more := strings.Cut(s, "\n")
		f(i, line)
		if !more {
			return
		}
		s = rest
	}
}

var rowClass = map[string]string{"+": "add", "-": "del", " ": "same", "@": "hunk"}

// row is one line. Its sign is text, not colour alone.
func (d *diff) row(sign, before, after, text string) {
	if d.rows >= MaxLines || d.bytes >= MaxBlock {
		d.left = true
		return
	}
	shown, left := clip(text, MaxBlock-d.bytes, 1)
	d.rows++
	d.bytes += len(shown)
	d.left = d.left || left > 0
	d.m.raw(`<tr class="` + rowClass[sign] + `"><td class="ln">`)
	d.m.text(before)
	d.m.raw(`</td><td class="ln">`)
	d.m.text(after)
	d.m.raw(`</td><td class="sg">`)
	if sign != "@" {
		d.m.text(sign)
	}
	d.m.raw(`</td><td class="tx">`)
	d.m.text(shown)
	d.m.raw("</td></tr>\n")
}

func (d *diff) end() template.HTML {
	d.m.raw(`</table></div>`)
	if d.left {
		d.m.raw(`<p class="cut">Cut: it is longer than is shown here. `)
		link(&d.m, d.whole, "Show the whole")
		d.m.raw(`</p>`)
	}
	return d.m.html()
}

// colours are the escape sequences that colour text, or clear the rest of a line; they are
// left out of a terminal, and all others are shown.
var colours = regexp.MustCompile("\x1b\\[[0-9;:]{0,32}[mK]")

// terminal shows a command's run as it was seen.
func terminal(a *payload, r *answer, whole string) template.HTML {
	var m markup
	m.raw(`<div class="term"><div class="bar" aria-hidden="true"><i></i><i></i><i></i></div><pre tabindex="0"><span class="pr">$ </span>`)
	what := strings.Join(append([]string{a.Profile}, a.Args...), " ")
	if a.Op == "job" {
		what = a.Action + " job " + a.Job
	}
	m.span("cmd", cut(what, 2*MaxField))
	m.raw("\n")
	room, cutOff := MaxBlock, false
	for _, s := range []struct{ class, text string }{{"out", *r.Stdout}, {"err", r.Stderr}} {
		shown, left := clip(colours.ReplaceAllString(s.text[:min(len(s.text), 2*MaxBlock)], ""), room, MaxLines)
		room -= len(shown)
		cutOff = cutOff || left > 0 || len(s.text) > 2*MaxBlock
		if shown == "" {
			continue
		}
		m.span(s.class, shown)
		if !strings.HasSuffix(shown, "\n") {
			m.raw("\n")
		}
	}
	m.raw(`</pre><p class="end">`)
	class, text := ending(r)
	m.span(class, text)
	m.text(fmt.Sprintf(" · %d ms", r.DurationMS))
	if r.Limit != "" {
		m.text(" · ended by the limit of " + cut(r.Limit, 40))
	}
	if r.Truncated {
		m.text(" · what was printed beyond its limit was not kept")
	}
	m.raw(`</p></div>`)
	if cutOff {
		m.raw(`<p class="cut">Cut: it is longer than is shown here. `)
		link(&m, whole, "Show the whole")
		m.raw(`</p>`)
	}
	return m.html()
}

func ending(r *answer) (class, text string) {
	switch {
	case r.Running:
		return "run", "still running then"
	case r.Signal != "":
		return "bad", "ended by " + cut(r.Signal, 40)
	case r.Exit != 0:
		return "bad", fmt.Sprintf("exit code %d", r.Exit)
	}
	return "good", "exit code 0"
}
