package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// output is a call's output object.
type output struct {
	members map[string]jsontext.Value
}

// refused tells whether the output says "ok": false.
func (o output) refused() bool { return string(o.members["ok"]) == "false" }

// field decodes a member; ok is false if it is not there or of another type.
func field[T any](o output, name string) (v T, ok bool) {
	raw, there := o.members[name]
	if !there || raw.Kind() == 'n' {
		return v, false
	}
	return v, json.Unmarshal(raw, &v) == nil
}

// listEntry is one name of a folder.
type listEntry struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

// match is one line that a search found.
type match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`
	Text   string   `json:"text"`
	Before []string `json:"before"`
	After  []string `json:"after"`
}

// example is a source that a search found.
type example struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// showOutput prints the most useful member of an output, else all of it.
func (a *app) showOutput(raw jsontext.Value, o output) {
	if a.showRun(o) {
		return
	}
	if o.refused() {
		reason, _ := field[string](o, "refused")
		fmt.Fprintf(a.stderr, "refused: %s\n", printable(reason, true))
		return
	}
	if content, ok := field[string](o, "content"); ok {
		a.showContent(content)
	} else if diff, ok := field[string](o, "diff"); ok {
		if commit, ok := field[string](o, "commit"); ok {
			message, _ := field[string](o, "message")
			fmt.Fprintf(a.stdout, "%s\n\n%s\n\n", printable(commit, false), printable(message, true))
		}
		a.showContent(diff)
	} else if entries, ok := field[[]listEntry](o, "entries"); ok {
		a.showListing(entries)
	} else if matches, ok := field[[]match](o, "matches"); ok {
		a.showMatches(matches)
	} else if paths, ok := field[[]string](o, "paths"); ok {
		a.showLines(paths)
	} else if lines, ok := field[[]string](o, "builtins"); ok {
		a.showLines(lines)
	} else if all, ok := field[[]example](o, "examples"); ok {
		a.showExamples(all)
	} else if text, ok := field[string](o, "text"); ok {
		a.showContent(strings.TrimSuffix(text, "\n") + "\n")
	} else {
		fmt.Fprintln(a.stdout, indented(raw))
	}
	if cut, _ := field[bool](o, "truncated"); cut {
		fmt.Fprintln(a.stderr, "there is more than was shown; --json-out tells where it was cut")
	}
}

// showRun prints what a command wrote, to the streams that it wrote it to, and how it ended;
// false if the output is of no command.
func (a *app) showRun(o output) bool {
	code, ended := field[int](o, "exit_code")
	running, _ := field[bool](o, "running")
	if !ended && !running {
		return false
	}
	stdout, _ := field[string](o, "stdout")
	stderr, _ := field[string](o, "stderr")
	a.showContent(stdout)
	fmt.Fprint(a.stderr, printable(stderr, true))
	if stderr != "" && !strings.HasSuffix(stderr, "\n") {
		fmt.Fprintln(a.stderr)
	}
	signal, _ := field[string](o, "signal")
	limit, _ := field[string](o, "limit")
	job, _ := field[string](o, "job")
	switch {
	case running:
		fmt.Fprintf(a.stderr, "runs on as a job; ask again: ailang-worldd call workspace-job --arg job=%s\n", printable(job, false))
	case limit != "":
		fmt.Fprintf(a.stderr, "met its limit: %s\n", printable(limit, false))
	case signal != "":
		fmt.Fprintf(a.stderr, "ended by %s\n", printable(signal, false))
	case code != 0:
		fmt.Fprintf(a.stderr, "exit code %d\n", code)
	}
	if gone, _ := field[[]string](o, "removed"); len(gone) > 0 {
		fmt.Fprintf(a.stderr, "made under protected names, and taken away: %s\n", printable(strings.Join(gone, " "), false))
	}
	return true
}

// showContent prints a text: byte for byte into a file or pipe, on a terminal without what
// would steer it.
func (a *app) showContent(text string) {
	if isTerminal(a.stdout) {
		text = printable(text, true)
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
	}
	fmt.Fprint(a.stdout, text)
}

func (a *app) showLines(lines []string) {
	for _, l := range lines {
		fmt.Fprintln(a.stdout, printable(l, false))
	}
}

func (a *app) showExamples(all []example) {
	for i, e := range all {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		fmt.Fprintf(a.stdout, "-- %s\n", printable(e.Path, false))
		a.showContent(strings.TrimSuffix(e.Text, "\n") + "\n")
	}
}

func (a *app) showListing(entries []listEntry) {
	rows := [][]string{}
	for _, e := range entries {
		name, size := printable(e.Name, false), strconv.FormatInt(e.Size, 10)
		switch e.Type {
		case "directory":
			name, size = name+"/", "-"
		case "symlink":
			name += "@"
		}
		rows = append(rows, []string{size, name})
	}
	table(a.stdout, rows)
}

func (a *app) showMatches(matches []match) {
	for _, m := range matches {
		path := printable(m.Path, false)
		for i, line := range m.Before {
			fmt.Fprintf(a.stdout, "%s-%d-%s\n", path, m.Line-len(m.Before)+i, printable(line, true))
		}
		fmt.Fprintf(a.stdout, "%s:%d:%s\n", path, m.Line, printable(m.Text, true))
		for i, line := range m.After {
			fmt.Fprintf(a.stdout, "%s-%d-%s\n", path, m.Line+1+i, printable(line, true))
		}
	}
}
