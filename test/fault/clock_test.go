package fault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
	"ailang.dev/world/packs"
)

// noon is where the clock stands at first.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// clocked is a daemon whose clock is the test's.
type clocked struct {
	*worldtest.World
	t     *testing.T
	clock atomic.Int64 // seconds after noon
	n     int
}

func newClocked(t *testing.T) *clocked {
	t.Helper()
	c := &clocked{t: t}
	write := world.Grant{Effect: "Workspace.Write", Scope: "worktree", Budget: 2}
	c.World = worldtest.Start(t, worldtest.Options{
		Now: func() time.Time { return noon.Add(time.Duration(c.clock.Load()) * time.Second) },
		Plans: authority.Plans{
			"daily": {Name: "daily", Tasks: true, Grants: []authority.PlanGrant{{Grant: write, Daily: true}}},
			"rated": {Name: "rated", Tasks: true, Grants: []authority.PlanGrant{{Grant: world.Grant{Effect: write.Effect, Scope: write.Scope, Budget: 1000}}},
				Rates: map[string]authority.Rate{authority.ClassDefault: {Requests: 3, Per: time.Minute, Burst: 3}}},
		},
	})
	return c
}

// at sets the clock.
func (c *clocked) at(d time.Duration) { c.clock.Store(int64(d / time.Second)) }

// tree makes an episode's worktree.
func (c *clocked) tree(episode string) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Join(c.Dir, "ws", episode), 0o700); err != nil {
		c.t.Fatal(err)
	}
}

// post makes one request, and gives its body.
func (c *clocked) post(path, token string, body any) string {
	c.t.Helper()
	req, err := http.NewRequest(http.MethodPost, c.URL+path, bytes.NewReader(hashref.MustMarshal(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// write has a session write a file, and gives what it was told.
func (c *clocked) write(token, skill string) string {
	c.t.Helper()
	c.n++
	return c.post("/a2a/", token, map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": map[string]any{
		"id": fmt.Sprint("t-", c.n), "metadata": map[string]any{"skill_id": skill},
		"message": map[string]any{"role": "user", "parts": []any{map[string]any{"type": "data", "data": map[string]any{"path": "f", "content": "x"}}}}}})
}

// send has a user write a file, and gives what the user was told.
func (c *clocked) send(token, message string) string {
	c.t.Helper()
	return c.post("/api/v1/a2a", token, map[string]any{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": map[string]any{
		"message": map[string]any{"role": "user", "kind": "message", "messageId": message, "metadata": map[string]any{"skillId": "workspace-write"},
			"parts": []any{map[string]any{"kind": "data", "data": map[string]any{"path": "f", "content": "x"}}}}}})
}

// next is send with a message of its own.
func (c *clocked) next(token string) string {
	c.n++
	return c.send(token, fmt.Sprint("m-", c.n))
}

func (c *clocked) says(what, got, want string) {
	c.t.Helper()
	if !strings.Contains(got, want) {
		c.t.Fatalf("%s: %s, want %q", what, got, want)
	}
}

const (
	done   = `"ok":true`
	denied = `denied:budget`
)

// TestClockJumps sets the clock forth and back, and restarts the daemon in between. What ends
// at a moment ends by the clock that there is; what was spent, used or taken stays so in
// whatever year.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	t.Run("sessions and their budgets", func(t *testing.T) {
		c := newClocked(t)
		c.tree("ep")
		s := c.Mint("ep", "Workspace.Write=worktree:3")
		for _, step := range []struct {
			at   time.Duration
			want string
		}{
			{0, done}, {59 * time.Minute, done}, {time.Hour, "session credential has expired"}, {year, "session credential has expired"},
			{-year, done}, {-2 * year, denied}, {time.Minute, denied}, {time.Hour + time.Second, "session credential has expired"}, {0, denied},
		} {
			c.at(step.at)
			c.says(fmt.Sprint("at ", step.at), c.write(s, "workspace-write"), step.want)
			c.Restart()
		}
	})
	t.Run("tokens and daily budgets", func(t *testing.T) {
		c := newClocked(t)
		episode := authority.User{Subject: "ada"}.Episode()
		c.tree(episode)
		token := c.MintToken("ada", "daily", "96h")
		const day = 24 * time.Hour
		for _, step := range []struct {
			at   time.Duration
			want string
		}{
			{0, done}, {time.Hour, done}, {2 * time.Hour, denied},
			{day, done}, {0, denied}, {day, done}, {day, denied}, // no day is had twice
			{-3 * time.Hour, denied}, {2 * day, done}, {day, denied}, {2*day + time.Hour, done}, {2 * day, denied},
			{3 * day, done}, {3*day - time.Hour, done}, {4 * day, "the token has expired"},
		} {
			c.at(step.at)
			c.says(fmt.Sprint("at ", step.at), c.next(token), step.want)
			c.Restart()
		}
		if spent, err := c.Core.Store.Spent(context.Background(), episode, "Workspace.Write", "worktree"); err != nil || spent != 8 {
			t.Errorf("spent %d on four days of 2 each, %v", spent, err)
		}
	})
	t.Run("rates", func(t *testing.T) {
		c := newClocked(t)
		c.tree(authority.User{Subject: "bob"}.Episode())
		token := c.MintToken("bob", "rated", "87600h")
		const limited = "-32003"
		all := func(at time.Duration, wants ...string) {
			t.Helper()
			c.at(at)
			for i, want := range wants {
				c.says(fmt.Sprint("call ", i, " at ", at), c.next(token), want)
			}
		}
		all(0, done, done, done, limited)
		all(20*time.Second, done, limited)
		all(-year, limited) // a clock that goes back gives nothing, and takes nothing:
		all(-year+20*time.Second, done, limited)
		all(year, done, done, done, limited) // the pool, and no more
		all(year+20*time.Second, done, limited)
	})
	t.Run("kept tasks", func(t *testing.T) {
		c := newClocked(t)
		c.tree(authority.User{Subject: "eve"}.Episode())
		token := c.MintToken("eve", "rated", "87600h")
		first := c.send(token, "kept")
		c.says("sent", first, done)
		_, id, _ := strings.Cut(first, `"kind":"task","id":"`)
		id, _, _ = strings.Cut(id, `"`)
		get := func() string {
			return c.post("/api/v1/a2a", token, map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": map[string]any{"id": id}})
		}
		for _, step := range []struct {
			at   time.Duration
			want string
		}{{0, done}, {23 * time.Hour, done}, {25 * time.Hour, "-32001"}, {time.Hour, done}, {-year, done}, {year, "-32001"}, {time.Hour, done}} {
			c.at(step.at)
			c.says(fmt.Sprint("at ", step.at), get(), step.want)
		}
		// What a sweep forgot while the clock was wrong is not done again.
		c.at(25 * time.Hour)
		if n, err := c.Core.Store.SweepKept(context.Background(), noon.Add(25*time.Hour), store.MaxPage); err != nil || n == 0 {
			t.Fatalf("%d swept, %v", n, err)
		}
		c.at(time.Hour)
		before := c.entries()
		again := c.send(token, "kept")
		c.says("sent again", again, done)
		c.says("sent again", again, id)
		if after := c.entries(); after != before {
			t.Errorf("a message that was known is done again: %d entries, %d before", after, before)
		}
	})
	t.Run("approvals", func(t *testing.T) {
		c := newClocked(t)
		c.tree("ep")
		pack, err := packs.Load("workspace")
		if err != nil {
			t.Fatal(err)
		}
		c.Publish(`[{"id":"gated","title":"gated","description":"","transitionFnFile":"workspace-write.star","inputSchema":{},"outputSchema":{},`+
			`"access":{"effect":"Workspace.Write","scope":"worktree","cost":1},"declaredEffects":[{"effect":"Workspace.Write","scope":"worktree","cost":1,"approval":true}]}]`,
			map[string][]byte{"workspace-write.star": pack.Files["workspace-write.star"]})
		ctx := context.Background()
		m, _, err := c.Core.Authority.Mint(ctx, "ep", []world.Grant{{Effect: "Workspace.Write", Scope: "worktree", Budget: 9}}, 8*year)
		if err != nil {
			t.Fatal(err)
		}
		const asks = "a person must approve"
		c.says("asked", c.write(m, "gated"), asks)
		all, err := c.Ops.Approvals(ctx)
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		decide := func() error {
			_, err := c.Ops.DecideApproval(ctx, all[0].ID, approvals.Decision{Grant: true, By: "ada"})
			return err
		}
		c.at(25 * time.Hour)
		if err := decide(); err == nil {
			t.Error("a question that is over was decided")
		}
		c.at(time.Hour)
		if err := decide(); err != nil {
			t.Errorf("set back, it can be decided: %v", err)
		}
		c.Restart()
		c.at(3 * time.Hour)
		c.says("after its hour", c.write(m, "gated"), asks)
		c.at(-year)
		c.says("set back", c.write(m, "gated"), done)
		for _, at := range []time.Duration{0, time.Hour, -2 * year, year} {
			c.at(at)
			c.says(fmt.Sprint("used, at ", at), c.write(m, "gated"), asks)
			c.Restart()
		}
	})
}

// entries is how long the log is.
func (c *clocked) entries() int64 {
	c.t.Helper()
	head, err := c.Core.Store.Head(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	return head.Next
}
