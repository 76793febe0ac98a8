package git

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"ailang.dev/world/host/hashref"
)

// change is one path that differs. Staged is the index against HEAD, Unstaged the files
// against the index.
type change struct {
	path             string
	staged, unstaged string
	conflict         bool
	submodule        bool
}

var letters = map[byte]string{'M': "modified", 'T': "type", 'A': "added", 'D': "deleted", 'R': "renamed", 'C': "copied"}

// errBadOutput says that git answered in a form that this package does not know.
var errBadOutput = errors.New("git answered in an unknown form")

// changes are all paths that differ, in git's order: tracked ones, then new ones. more
// tells whether there are more than max. One whose name ends in a slash is a repository of
// its own.
func (c *call) changes(ctx context.Context, max int, paths ...string) (all []change, more bool, err error) {
	out := &records{max: max}
	args := []string{"status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--ignore-submodules=all", "--no-renames", "--no-ahead-behind"}
	if len(paths) > 0 {
		args = append(append(args, "--"), paths...)
	}
	if err := c.git(ctx, run{args: args, work: c.repo.tree, out: out}); err != nil {
		return nil, false, err
	}
	for _, rec := range out.all {
		ch, err := parseChange(rec)
		if err != nil {
			return nil, false, err
		}
		all = append(all, ch)
	}
	return all, out.more, nil
}

// parseChange reads one record of porcelain v2 without renames: fields, then the path.
func parseChange(rec string) (change, error) {
	fields := map[byte]int{'1': 8, 'u': 10, '?': 1}[rec[0]]
	parts := strings.SplitN(rec, " ", fields+1)
	if fields == 0 || len(parts) != fields+1 || parts[fields] == "" {
		return change{}, errBadOutput
	}
	ch := change{path: parts[fields]}
	switch rec[0] {
	case '?':
		ch.unstaged = "untracked"
	case 'u':
		ch.conflict = true
	default:
		if len(parts[1]) != 2 || parts[2] == "" {
			return change{}, errBadOutput
		}
		ch.staged, ch.unstaged = letters[parts[1][0]], letters[parts[1][1]]
		ch.submodule = parts[2][0] == 'S'
	}
	return ch, nil
}

// records splits at NULs as git prints, and stops it at max.
type records struct {
	max  int
	all  []string
	more bool
	rest []byte
}

func (r *records) Write(p []byte) (int, error) {
	n := len(p)
	for {
		rec, rest, ok := bytes.Cut(p, []byte{0})
		if !ok {
			if r.rest = append(r.rest, p...); len(r.rest) > MaxList {
				return 0, errBadOutput
			}
			return n, nil
		}
		if len(r.all) == r.max {
			r.more = true
			return 0, errEnough
		}
		if rec = append(r.rest, rec...); len(rec) > 0 {
			r.all = append(r.all, string(rec))
		}
		r.rest, p = nil, rest
	}
}

func (r *records) enough() bool { return r.more }

// told is one path of a status as it is told.
type told struct {
	Path     string `json:"path"`
	Staged   string `json:"staged,omitzero"`
	Unstaged string `json:"unstaged,omitzero"`
	Conflict bool   `json:"conflict,omitzero"`
	Escaped  bool   `json:"escaped,omitzero"`
}

// do answers a status.
func (a *statusArgs) do(ctx context.Context, c *call) ([]byte, error) {
	p, err := cleaned(a.Path)
	if err != nil {
		return nil, err
	}
	head, err := c.headCommit(ctx)
	if err != nil {
		return nil, err
	}
	var paths []string
	if p != "" {
		paths = []string{p}
	}
	all, more, err := c.changes(ctx, MaxEntries, paths...)
	if err != nil {
		return nil, err
	}
	list, room := []told{}, MaxList
	for _, ch := range all {
		e := told{Staged: ch.staged, Unstaged: ch.unstaged, Conflict: ch.conflict}
		e.Path, e.Escaped = escape(ch.path)
		if room -= jsonSize(e.Path) + 100; room < 0 {
			more = true
			break
		}
		list = append(list, e)
	}
	return hashref.Marshal(struct {
		OK        bool   `json:"ok"`
		Branch    string `json:"branch"`
		Head      string `json:"head"`
		UnderWay  string `json:"under_way,omitzero"`
		Changes   []told `json:"changes"`
		Truncated bool   `json:"truncated"`
		stamp
	}{true, c.branchName(), head, c.repo.underWay(), list, more, c.stamp})
}

// branchName is the branch as it is told; "" when HEAD is on none.
func (c *call) branchName() string {
	name, _ := escape(strings.TrimPrefix(c.repo.branch, "refs/heads/"))
	return name
}
