package git

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
)

// do answers a show: a commit with what it changed, or a file as a commit holds it.
func (a *showArgs) do(ctx context.Context, c *call) ([]byte, error) {
	p, err := cleaned(a.Path)
	if err != nil {
		return nil, err
	}
	around, err := lines(a.Context)
	if err != nil {
		return nil, err
	}
	id, err := c.resolve(ctx, a.Rev)
	if err != nil {
		return nil, err
	}
	if a.Path != "" {
		return c.showFile(ctx, id, p)
	}
	all, _, err := c.commits(ctx, MaxMessage, "--max-count=1", id)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, errBadOutput
	}
	t := two{a: c.emptyTree(), b: id, context: around}
	if parents := all[0].Parents; len(parents) > 0 {
		t.a = parents[0]
	}
	d, err := c.compare(ctx, t)
	if err != nil {
		return nil, err
	}
	return hashref.Marshal(struct {
		OK bool `json:"ok"`
		commit
		Files     []fileChange `json:"files"`
		Diff      string       `json:"diff"`
		Escaped   bool         `json:"escaped,omitzero"`
		Truncated bool         `json:"truncated"`
		stamp
	}{true, all[0], d.files, d.patch, d.escaped || all[0].Escaped, d.truncated, c.stamp})
}

// showFile answers with the text of a file of a commit.
func (c *call) showFile(ctx context.Context, id, p string) ([]byte, error) {
	if p == "" {
		return nil, refuse("path \".\" is a directory")
	}
	text, err := c.ask(ctx, run{args: []string{"ls-tree", "-z", "-l", "--full-tree", id, "--", p}})
	if err != nil {
		return nil, err
	}
	meta, name, ok := strings.Cut(strings.TrimSuffix(text, "\x00"), "\t")
	fields := strings.Fields(meta)
	switch {
	case text == "":
		return nil, refuse("path %s is not in commit %s", quoted(p), id)
	case !ok || name != p || len(fields) != 4:
		return nil, errBadOutput
	case fields[1] == "tree":
		return nil, refuse("path %s is a directory in commit %s", quoted(p), id)
	case fields[1] != "blob":
		return nil, refuse("path %s is a repository of its own in commit %s", quoted(p), id)
	}
	size, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil {
		return nil, errBadOutput
	}
	if size > MaxShow {
		return nil, refuse("path %s is too large to be shown: %d bytes, at most %d", quoted(p), size, MaxShow)
	}
	content, err := c.ask(ctx, run{args: []string{"cat-file", "blob", fields[2]}})
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(content, 0) || !utf8.ValidString(content) {
		return nil, refuse("path %s is a binary file of %d bytes; its content is not shown", quoted(p), size)
	}
	return hashref.Marshal(struct {
		OK      bool   `json:"ok"`
		Commit  string `json:"commit"`
		Content string `json:"content"`
		Link    bool   `json:"link,omitzero"` // the content is where a symbolic link leads
		stamp
	}{true, id, content, fields[0] == "120000", c.stamp})
}
