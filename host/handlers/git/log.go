package git

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ailang.dev/world/host/hashref"
)

func asFailure(err error, f **failure) bool { return errors.As(err, f) }

// headCommit is the commit at HEAD.
func (c *call) headCommit(ctx context.Context) (string, error) {
	id, err := c.line(ctx, run{args: []string{"rev-parse", "--verify", "--quiet", "HEAD^{commit}"}})
	var none *failure
	if asFailure(err, &none) && none.code == 1 {
		return "", refuse("the worktree's branch has no commit yet")
	}
	return id, err
}

// resolve is the commit that a revision names, if it is in the history of HEAD. Whatever
// else the repository holds is not told from what it does not hold.
func (c *call) resolve(ctx context.Context, rev string) (string, error) {
	head, err := c.headCommit(ctx)
	if err != nil || rev == "" || rev == "HEAD" {
		return head, err
	}
	if err := checkRevision(rev); err != nil {
		return "", err
	}
	var none *failure
	unknown := refuse("revision %s names no commit in the history of this worktree's branch", quoted(rev))
	id, err := c.line(ctx, run{args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", rev + "^{commit}"}})
	if asFailure(err, &none) {
		return "", unknown
	}
	if err != nil || id == head {
		return id, err
	}
	if err := c.git(ctx, run{args: []string{"merge-base", "--is-ancestor", id, head}}); asFailure(err, &none) && none.code == 1 {
		return "", unknown
	} else if err != nil {
		return "", err
	}
	return id, nil
}

// commit is one commit as it is told.
type commit struct {
	Commit     string   `json:"commit"`
	Parents    []string `json:"parents"`
	Author     person   `json:"author"`
	Committer  person   `json:"committer"`
	Message    string   `json:"message"`
	Cut        bool     `json:"cut,omitzero"`
	Provenance string   `json:"provenance,omitzero"`
	Escaped    bool     `json:"escaped,omitzero"`
}

type person struct {
	Name  string `json:"name"`
	Email string `json:"email"`
	Date  string `json:"date"`
}

// format is one commit in ten fields, each ended by a NUL.
const format = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00" + trailerFormat + "%x00%B"

const (
	trailerFormat = "%(trailers:key=World-Provenance,valueonly,unfold,separator=%x2C)"
	commitFields  = 10
)

// commits asks for commits from one on.
func (c *call) commits(ctx context.Context, text int, args ...string) (all []commit, more bool, err error) {
	out := &bounded{max: maxInternal, stop: true}
	line := append([]string{"log", "-z", "--no-show-signature", "--no-notes", "--no-mailmap", "--no-decorate", "--no-color", "--no-patch", format}, args...)
	if err := c.git(ctx, run{args: line, out: out}); err != nil {
		return nil, false, err
	}
	fields := strings.Split(out.String(), "\x00")
	for ; len(fields) > commitFields; fields = fields[commitFields:] {
		all = append(all, oneCommit(fields, text))
	}
	if !out.cut && (len(fields) != 1 || fields[0] != "") {
		return nil, false, errBadOutput
	}
	return all, out.cut, nil
}

func oneCommit(f []string, text int) commit {
	c := commit{Commit: f[0], Parents: strings.Fields(f[1])}
	if c.Parents == nil {
		c.Parents = []string{}
	}
	tell := func(s string, max int) string {
		s, escaped := escape(s)
		s, cut := clip(s, max)
		c.Escaped, c.Cut = c.Escaped || escaped, c.Cut || cut
		return s
	}
	c.Author = person{tell(f[2], maxNameInText), tell(f[3], maxNameInText), f[4]}
	c.Committer = person{tell(f[5], maxNameInText), tell(f[6], maxNameInText), f[7]}
	c.Provenance = tell(f[8], maxNameInText)
	c.Message = tell(strings.TrimRight(f[9], "\n"), text)
	return c
}

// do answers a log.
func (a *logArgs) do(ctx context.Context, c *call) ([]byte, error) {
	limit := int64(dflLog)
	if a.Limit != nil {
		limit = *a.Limit
	}
	switch {
	case limit < 1 || limit > MaxLog:
		return nil, refuse("limit must be from 1 to %d", MaxLog)
	case a.Skip < 0 || a.Skip > MaxSkip:
		return nil, refuse("skip must be from 0 to %d", MaxSkip)
	}
	p, err := cleaned(a.Path)
	if err != nil {
		return nil, err
	}
	id, err := c.resolve(ctx, a.Rev)
	if err != nil {
		return nil, err
	}
	args := []string{"--skip=" + strconv.FormatInt(a.Skip, 10), fmt.Sprintf("--max-count=%d", limit+1), id}
	all, more, err := c.commits(ctx, MaxLogText, append(args, only(p)...)...)
	if err != nil {
		return nil, err
	}
	if int64(len(all)) > limit {
		all, more = all[:limit], true
	}
	if all == nil {
		all = []commit{}
	}
	return hashref.Marshal(struct {
		OK      bool     `json:"ok"`
		Commits []commit `json:"commits"`
		More    bool     `json:"more"`
		stamp
	}{true, all, more, c.stamp})
}
