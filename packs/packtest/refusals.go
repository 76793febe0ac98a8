package packtest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"ailang.dev/world/host/hashref"
)

// CheckRefusals demands the refusals that need no file of every tool of the pack, in
// exactly their words. admits is the arguments of each tool in the order of its table, joined by ", ".
func (b *Bench) CheckRefusals(admits map[string]string) {
	b.T.Helper()
	if len(admits) != len(b.Tools) {
		b.T.Errorf("the pack has %d tools, not %d", len(b.Tools), len(admits))
	}
	for id, keys := range admits {
		c := refusals{b, b.Tool(id), keys}
		c.names()
		c.types()
		c.paths()
	}
}

// refusals tries one tool.
type refusals struct {
	*Bench
	tool Tool
	keys string
}

// sound are arguments that nothing is wrong with.
var sound = map[string]any{"path": "a", "content": "c", "old_text": "o", "new_text": "n", "pattern": "p", "message": "m",
	"profile": "p", "query": "q", "operation": "version", "job": "0123456789abcdef0123456789abcdef"}

// args are sound arguments with one changed, or, if value is nil, left out.
func (c refusals) args(change string, value any) map[string]any {
	all := map[string]any{}
	for k := range strings.SplitSeq(c.keys, ", ") {
		if v, ok := sound[k]; ok && k != change {
			all[k] = v
		}
	}
	if value != nil {
		all[change] = value
	}
	return all
}

func (c refusals) want(args map[string]any, text string) {
	c.T.Helper()
	if got := c.Plan(c.tool.ID, string(hashref.MustMarshal(args))); got != Refusal(text) {
		c.T.Errorf("%s %v:\n got  %s\n want %s", c.tool.ID, args, got, text)
	}
	out := string(hashref.MustMarshal(map[string]any{"ok": false, "refused": text,
		"world": map[string]any{"effects": []any{}, "plan": hashref.Zero}}))
	if err := Valid(c.tool.Out, out); err != nil {
		c.T.Errorf("%s: %s: %v", c.tool.ID, out, err)
	}
}

func (c refusals) names() {
	c.T.Helper()
	for _, bad := range []string{"mode", "Path", "world", ""} {
		c.want(c.args(bad, 1), `unknown argument "`+bad+`"; `+c.tool.ID+` admits only: `+c.keys)
	}
	var in struct {
		Required []string `json:"required"`
	}
	Must(c.T, json.Unmarshal(c.tool.InputSchema, &in))
	for _, k := range in.Required {
		c.want(c.args(k, nil), `missing required argument "`+k+`"`)
	}
}

// types tries values of other types than the schema's.
func (c refusals) types() {
	c.T.Helper()
	var in struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	Must(c.T, json.Unmarshal(c.tool.InputSchema, &in))
	for k := range strings.SplitSeq(c.keys, ", ") {
		called, bad := "a string", []any{1, true, []any{}, map[string]any{}, json.RawMessage("null")}
		switch in.Properties[k].Type {
		case "integer":
			called, bad = "an integer", []any{"1", 1.5, true}
		case "boolean":
			called, bad = "a boolean", []any{"yes", 1}
		case "array":
			called, bad = "a list", []any{"a", 1, map[string]any{}}
		}
		for _, v := range bad {
			c.want(c.args(k, v), `argument "`+k+`" must be `+called)
		}
	}
}

func (c refusals) paths() {
	c.T.Helper()
	if !slices.Contains(strings.Split(c.keys, ", "), "path") {
		return
	}
	for _, p := range []string{"", "/etc/passwd", "..", "../x", "a/../b", "a/..", "-rf"} {
		c.want(c.args("path", p), `path "`+p+`" refused: it must be relative and non-empty, with no ".." segment and no leading "-"`)
	}
}

// CheckTooLarge demands that a tool whose argument grows beyond what a plan may hold is
// refused by the plan. args is the arguments' JSON with %s where the argument's text goes.
func (b *Bench) CheckTooLarge(id, args string) {
	b.T.Helper()
	const max = 1 << 20
	at := func(text string) string { return b.Plan(id, strings.Replace(args, "%s", text, 1)) }
	empty := at("")
	overhead := len(empty) - len(Planned("Workspace.Write", ""))
	if got := at(strings.Repeat("x", max-overhead)); !strings.Contains(got, `"effect":"Workspace.Write"`) {
		b.T.Errorf("%s: the largest payload is refused: %.200s", id, got)
	}
	for _, c := range []string{strings.Repeat("x", max-overhead+1), strings.Repeat(`\n`, max/2), strings.Repeat(`\u0001`, 500_000), strings.Repeat("é", max)} {
		if got := at(c); !tooLarge.MatchString(got) {
			b.T.Errorf("%s: got %.200s", id, got)
		}
	}
}

var tooLarge = regexp.MustCompile(`"refused":"the call is too large: \d+ bytes as JSON, at most 1048576"`)
