package workspace

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
)

// entry is one name of a directory. Escaped says that the name is not UTF-8, and is shown
// with \xNN in place of the bytes that are none: it cannot be given back as a path.
type entry struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Size    int64  `json:"size"`
	Escaped bool   `json:"escaped,omitzero"`
}

// do answers a list: what is in one directory, bytewise by name.
func (a *listArgs) do(ctx context.Context, c *call) ([]byte, error) {
	p, err := c.resolve(a.Path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	switch {
	case len(p.rest) > 0:
		return nil, missing(a.Path)
	case !p.isDir():
		return nil, refuse("path %s is not a directory", quoted(a.Path))
	}
	names, cut, err := readNames(p.dir(), MaxDirEntries)
	if err != nil {
		return nil, pathError(a.Path, "listed", err)
	}
	slices.SortFunc(names, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	entries, room := []entry{}, MaxListing
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fi, err := p.dir().Lstat(n.Name())
		if err != nil {
			continue // it went meanwhile
		}
		e := entry{Type: typeName(fi.Mode()), Size: fi.Size()}
		e.Name, e.Escaped = escape(n.Name())
		if room -= jsonLen(e.Name) + 80; room < 0 || len(entries) == MaxPaths {
			cut = true
			break
		}
		entries = append(entries, e)
	}
	return hashref.Marshal(struct {
		OK        bool    `json:"ok"`
		Entries   []entry `json:"entries"`
		Truncated bool    `json:"truncated"`
		stamp
	}{true, entries, cut, c.stamp})
}

func typeName(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "other"
}

// do answers a glob: the files, and links, whose path below the base matches.
func (a *globArgs) do(ctx context.Context, c *call) ([]byte, error) {
	limit, err := limited(a.Limit, dflPaths, MaxPaths)
	if err != nil {
		return nil, err
	}
	pattern, err := checkGlob("pattern", a.Pattern)
	if err != nil {
		return nil, err
	}
	base := a.Path
	if base == "" {
		base = "."
	}
	fixed, rest := doublestar.SplitPattern(pattern)
	start := base
	if fixed != "." {
		start = path.Join(base, fixed)
		if err := c.mustBeDir(base); err != nil {
			return nil, err
		}
	}
	g := &globbing{pattern: rest, limit: limit, room: MaxListing, paths: []string{}}
	if err := g.run(ctx, c, start, fixed == "."); err != nil {
		return nil, err
	}
	return hashref.Marshal(struct {
		OK        bool     `json:"ok"`
		Paths     []string `json:"paths"`
		Escaped   []string `json:"escaped,omitempty"`
		Truncated bool     `json:"truncated"`
		stamp
	}{true, g.paths, g.escaped, g.cut, c.stamp})
}

// mustBeDir refuses a base that is no directory.
func (c *call) mustBeDir(asked string) error {
	p, err := c.resolve(asked)
	if err != nil {
		return err
	}
	defer p.close()
	if len(p.rest) > 0 {
		return missing(asked)
	}
	if !p.isDir() {
		return refuse("path %s is not a directory", quoted(asked))
	}
	return nil
}

// checkGlob refuses a glob that cannot be matched, and cleans one that can.
func checkGlob(name, pattern string) (string, error) {
	switch {
	case pattern == "":
		return "", refuse("%s is empty", name)
	case len(pattern) > MaxPattern:
		return "", refuse("%s is longer than %d bytes", name, MaxPattern)
	case strings.HasPrefix(pattern, "/"), slices.Contains(strings.Split(pattern, "/"), ".."):
		return "", refuse("%s %s escapes the worktree", name, quoted(pattern))
	}
	if why := policy.BadGlob(pattern); why != "" {
		return "", refuse("%s %s %s", name, quoted(pattern), why)
	}
	for strings.HasPrefix(pattern, "./") {
		pattern = strings.TrimLeft(pattern[2:], "/")
	}
	if pattern == "" {
		pattern = "*"
	}
	return pattern, nil
}

// globbing is one glob at work.
type globbing struct {
	pattern string
	limit   int
	room    int // bytes of JSON that are left
	paths   []string
	escaped []string // those of paths that are shown escaped
	cut     bool
}

// run walks from start. What is not there matches nothing, unless the caller named it.
func (g *globbing) run(ctx context.Context, c *call, start string, named bool) error {
	p, err := c.resolve(start)
	if err != nil {
		return err
	}
	defer p.close()
	switch {
	case named && len(p.rest) > 0:
		return missing(start)
	case named && !p.isDir():
		return refuse("path %s is not a directory", quoted(start))
	case !p.isDir():
		return nil
	}
	prefix := strings.Join(p.clean, "/")
	w := &walker{maxDepth: MaxDepth, visit: func(f found) error {
		if f.kind&^fs.ModeSymlink != 0 || !doublestar.MatchUnvalidated(g.pattern, f.rel) {
			return nil
		}
		return g.add(strings.TrimPrefix(prefix+"/"+f.rel, "/"))
	}}
	if !strings.Contains(g.pattern, "**") && !strings.Contains(g.pattern, "{") {
		w.maxDepth = min(MaxDepth-1, strings.Count(g.pattern, "/"))
	}
	cut, err := w.run(ctx, p.dir())
	g.cut = g.cut || cut
	return pathErrorOf(start, err)
}

func (g *globbing) add(name string) error {
	name, escaped := escape(name)
	g.room -= jsonLen(name) + 1
	if escaped {
		g.room -= jsonLen(name) + 1
	}
	if len(g.paths) == g.limit || g.room < 0 {
		g.cut = true
		return errStop
	}
	g.paths = append(g.paths, name)
	if escaped {
		g.escaped = append(g.escaped, name)
	}
	return nil
}

// pathErrorOf is pathError for a walk, which may also have gone well.
func pathErrorOf(asked string, err error) error {
	if err == nil {
		return nil
	}
	return pathError(asked, "walked", err)
}
