package ailang

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/sandbox"
)

// operation is one command line that ailang-cli knows.
type operation struct {
	args   []string
	source bool // a path of a source stands behind
}

// operations are all that the command line can be used for. Each only reads.
var operations = map[string]operation{
	"version":  {args: []string{"--version"}},
	"help":     {args: []string{"--help"}},
	"prompt":   {args: []string{"prompt"}},
	"builtins": {args: []string{"builtins", "list"}},
	"doctor":   {args: []string{"doctor", "builtins"}},
	"iface":    {args: []string{"iface"}, source: true},
}

// do runs one of the fixed operations.
func (a *cliArgs) do(ctx context.Context, c *call) ([]byte, error) {
	o, ok := operations[a.Operation]
	switch {
	case !ok:
		var all []string
		for name := range operations {
			all = append(all, name)
		}
		slices.Sort(all)
		return nil, refuse("there is no operation %s; there are: %s", quoted(a.Operation), strings.Join(all, ", "))
	case !o.source && a.Path != "":
		return nil, refuse("operation %s takes no path", a.Operation)
	case o.source && a.Path == "":
		return nil, refuse("operation %s needs the path of a source", a.Operation)
	}
	j := job{args: o.args}
	if o.source {
		j.tree = c.readOnly()
		if err := c.source(a.Path); err != nil {
			return nil, err
		}
		j.args = append(slices.Clone(o.args), a.Path)
	}
	return c.run(ctx, j)
}

// MaxLine is how many bytes of one line of a search's answer are given.
const MaxLine = 1000

// builtins gives the lines that the toolchain lists and that hold all words, in byte order.
func (a *searchArgs) builtins(ctx context.Context, c *call) ([]byte, error) {
	words, err := a.words()
	if err != nil {
		return nil, err
	}
	if a.Limit > MaxLimit {
		return nil, refuse("limit is %d; at most %d", a.Limit, MaxLimit)
	}
	res, err := c.h.run(ctx, job{args: operations["builtins"].args, keep: maxListing})
	switch {
	case err != nil:
		return nil, err
	case res.Limit != sandbox.LimitNone:
		return nil, refuse("the toolchain could not list its builtins: it met the limit %s", res.Limit)
	case res.Exit != 0:
		return nil, refuse("the toolchain could not list its builtins: exit code %d: %s", res.Exit, cut(plain(firstLine(text(res.Stderr.Text)))))
	}
	lines := listed(res.Stdout)
	if len(lines) == 0 {
		return nil, refuse("the toolchain lists no builtins")
	}
	found := slices.DeleteFunc(lines, func(l string) bool { return !holds(strings.ToLower(l), words) })
	limit := a.Limit
	if limit == 0 {
		limit = dflBuiltins
	}
	total := len(found)
	if total > limit {
		found = found[:limit]
	}
	return hashref.Marshal(struct {
		OK        bool     `json:"ok"`
		Builtins  []string `json:"builtins"`
		Total     int      `json:"total"`
		Truncated bool     `json:"truncated"`
		stamp
	}{true, append([]string{}, found...), total, total > limit || res.Stdout.Left > 0, c.stamp})
}

// listed are the lines of a listing, in order, each once. Where its middle was left out, the
// lines that were cut are too.
func listed(out sandbox.Output) []string {
	whole := plain(string(out.Text))
	if out.Left > 0 {
		head, tail, _ := strings.Cut(whole, fmt.Sprintf("\n[… %d bytes left out …]\n", out.Left))
		_, tail, _ = strings.Cut(tail, "\n")
		whole = head[:strings.LastIndexByte(head, '\n')+1] + tail
	}
	var lines []string
	for l := range strings.SplitSeq(whole, "\n") {
		if l = strings.TrimRight(l, " \t\r"); l != "" {
			lines = append(lines, cut(l))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// cut bounds a line.
func cut(l string) string {
	if len(l) > MaxLine {
		l = strings.ToValidUTF8(l[:MaxLine], "") + "…"
	}
	return l
}
