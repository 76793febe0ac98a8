package kill

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

const (
	// goneWithin is how long a command's processes may be seen after the daemon was killed:
	// the kernel ends them, and is not waited for by whoever kills.
	goneWithin = 20 * time.Second
	// seenWithin is how long a command may take to get going.
	seenWithin = 20 * time.Second
	lookEvery  = 20 * time.Millisecond
)

// commands are a site whose agents may run commands that can be told from all others.
type commands struct {
	*site
	marker string // in the arguments and the environment of each process of theirs
	starts int
}

// newCommands declares "hard": a tree of processes that ignores signals, hides in sessions
// of its own, and never ends; "hard-job", the same as a job; and "quick".
func newCommands(t *testing.T) *commands {
	t.Helper()
	c := &commands{site: newSite(t), marker: "world-kill-" + rand.Text()}
	hard := `trap "" TERM INT HUP
echo begun
(setsid sh -c "trap \"\" TERM; while :; do sleep 1; done" "$0" &)
sh -c "sleep 1000; :" "$0" &
while :; do sleep 1; done`
	profile := func(job bool) map[string]any {
		return map[string]any{"argv": []string{"sh", "-c", hard, c.marker}, "env": map[string]string{"WORLD_MARKER": c.marker}, "job": job}
	}
	// YAML takes JSON as it is.
	config := hashref.MustMarshal(map[string]any{"exec": map[string]any{"profiles": map[string]any{
		"hard": profile(false), "hard-job": profile(true), "quick": map[string]any{"argv": []string{"echo", "quick"}},
	}}})
	if err := os.WriteFile(c.config(), config, 0o600); err != nil {
		t.Fatal(err)
	}
	c.token = strings.TrimSpace(c.run(c.bin, "session", "mint", "--db", c.db, "--episode", episode, "--ttl", "8h", "--yes",
		"--grant", "Workspace.Read=worktree:1000", "--grant", "Workspace.Exec=worktree:1000"))
	c.serve()
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			c.kill()
		}
	})
	return c
}

func (c *commands) config() string { return filepath.Join(c.dir, "world.yaml") }

func (c *commands) serve() {
	c.t.Helper()
	c.launch(c.bin, "serve", "--db", c.db, "--bind", "127.0.0.1:0", "--workspace-root", filepath.Join(c.dir, "ws"), "--config", c.config())
}

// call sends one task, and gives its output or the message it was answered with.
func (c *commands) call(id, skill string, args map[string]any) (out map[string]any, refused string, err error) {
	body := hashref.MustMarshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tasks/send", "params": map[string]any{
		"id": id, "metadata": map[string]any{"skill_id": skill},
		"message": map[string]any{"role": "user", "parts": []any{map[string]any{"type": "data", "data": args}}}}})
	req, err := http.NewRequest(http.MethodPost, c.url+"/a2a/", bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, "", err
	}
	var a struct {
		Result struct {
			Artifacts []struct {
				Parts []struct {
					Data map[string]any `json:"data"`
				} `json:"parts"`
			} `json:"artifacts"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(text, &a); {
	case err != nil:
		return nil, "", fmt.Errorf("%w: %s", err, text)
	case a.Error != nil:
		return nil, a.Error.Message, nil
	}
	return a.Result.Artifacts[0].Parts[0].Data, "", nil
}

// want is a call whose output must hold some members.
func (c *commands) want(id, skill string, args, members map[string]any) map[string]any {
	c.t.Helper()
	out, refused, err := c.call(id, skill, args)
	if err != nil || refused != "" {
		c.t.Fatalf("%s %v: %q, %v", skill, args, refused, err)
	}
	for k, v := range members {
		if out[k] != v {
			c.t.Fatalf("%s %v: %s is not %v in %v", skill, args, k, v, out)
		}
	}
	return out
}

// marked is the processes of commands that are there now, as the whole machine sees them.
func (c *commands) marked() []string {
	c.t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		c.t.Fatal(err)
	}
	var found []string
	for _, p := range procs {
		argv, _ := os.ReadFile(p + "/cmdline") // it may be gone by now
		env, _ := os.ReadFile(p + "/environ")
		if bytes.Contains(argv, []byte(c.marker)) || bytes.Contains(env, []byte("WORLD_MARKER="+c.marker)) {
			found = append(found, filepath.Base(p)+" "+strings.ReplaceAll(string(argv), "\x00", " "))
		}
	}
	return found
}

// until waits for the number of marked processes to be as wished.
func (c *commands) until(within time.Duration, what string, wish func(n int) bool) {
	c.t.Helper()
	began := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		found := c.marked()
		if wish(len(found)) {
			c.t.Logf("%s after %v: %d processes", what, time.Since(began).Round(time.Millisecond), len(found))
			return
		}
		if time.Since(began) > within {
			c.t.Fatalf("%s: not so within %v: %q", what, within, found)
		}
		<-tick.C
	}
}

// The tree is the shell and two more, each with a sleep.
func (c *commands) running() {
	c.t.Helper()
	c.until(seenWithin, "all runs", func(n int) bool { return n >= 6 })
}

func (c *commands) gone() {
	c.t.Helper()
	c.until(goneWithin, "nothing is left", func(n int) bool { return n == 0 })
}

// stop ends the daemon in good order. Only then all of stderr is there.
func (c *commands) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the daemon ended with %v: %s", err, c.stderr.String())
	}
}

// job starts "hard-job" and comes back when it is a job.
func (c *commands) job() string {
	c.t.Helper()
	out := c.want("begin", "workspace-exec", map[string]any{"profile": "hard-job"}, map[string]any{"ok": true, "running": true, "stdout": "begun\n"})
	c.running()
	return out["job"].(string)
}

// goesOn starts the daemon again, looks whether the episode can be worked in, and gives what
// the daemon said of what had been.
func (c *commands) goesOn(job string) string {
	c.t.Helper()
	c.serve()
	c.starts++
	id := func(what string) string { return fmt.Sprintf("%s-%d", what, c.starts) }
	c.want(id("read"), "workspace-read", map[string]any{"path": file(0)}, map[string]any{"ok": true})
	c.want(id("quick"), "workspace-exec", map[string]any{"profile": "quick"}, map[string]any{"ok": true, "stdout": "quick\n"})
	if job != "" {
		out := c.want(id("poll"), "workspace-job", map[string]any{"job": job}, map[string]any{"ok": false})
		if why, _ := out["refused"].(string); !strings.Contains(why, "no such job") {
			c.t.Errorf("the job of another daemon: %v", out)
		}
	}
	c.stop()
	var told strings.Builder
	for line := range strings.Lines(c.stderr.String()) {
		if !strings.HasPrefix(line, "sandbox: ") { // what this host is weaker in
			told.WriteString(line)
		}
	}
	return told.String()
}

// failure checks the store, and gives the reason in the record of an invocation's one effect, "" if it
// has none.
func (c *commands) failure(id world.InvocationID) string {
	t := c.t
	t.Helper()
	ctx := context.Background()
	db, err := sqlite.Open(ctx, sqlite.Options{Path: c.db, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	worldtest.CheckAll(t, db)
	inv, err := db.Invocation(ctx, id)
	if err != nil || len(inv.Effects) != 1 {
		t.Fatalf("%+v, %v", inv, err)
	}
	if inv.Effects[0].Record.IsNone() {
		return ""
	}
	var rec struct {
		Effect    string    `json:"effect"`
		Allowed   bool      `json:"allowed"`
		Failed    bool      `json:"failed"`
		ResultRef world.Ref `json:"resultRef"`
	}
	var res struct {
		Failed string `json:"failed"`
	}
	c.object(db, inv.Effects[0].Record, world.SemEffect, &rec)
	c.object(db, rec.ResultRef, world.SemResult, &res)
	if rec.Effect != "Workspace.Exec" || !rec.Allowed || !rec.Failed {
		t.Errorf("the record is %+v", rec)
	}
	return res.Failed
}

func (c *commands) object(db store.Reader, ref world.Ref, kind string, v any) {
	c.t.Helper()
	o, err := db.Object(context.Background(), ref)
	if err != nil || o.SemanticID != kind {
		c.t.Fatalf("%s is %q: %v", ref, o.SemanticID, err)
	}
	if err := json.Unmarshal(o.Payload, v); err != nil {
		c.t.Fatal(err)
	}
}

// TestKilledDaemonLeavesNoJob: a job dies with a daemon that is killed, the next one says
// so, and keeps account of it.
func TestKilledDaemonLeavesNoJob(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	id := c.job()
	c.kill()
	c.gone()
	told := c.goesOn(id)
	want := "job:" + id + " (Workspace.Exec) had not ended when the daemon did: "
	if strings.Count(told, want) != 1 || strings.Contains(told, "indeterminate") {
		t.Errorf("the next start says %q, want %q", told, want)
	}
	if why := c.failure(world.InvocationID(world.JobPrefix + id)); why != "the daemon ended before the job did; its processes ended with it" {
		t.Errorf("the job's record says %q", why)
	}
	if told := c.goesOn(id); told != "" {
		t.Errorf("the start after it says %q", told)
	}
}

// TestStoppedDaemonEndsItsJobs: a normal stop ends a job and records that before it exits.
func TestStoppedDaemonEndsItsJobs(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	id := c.job()
	c.stop()
	if left := c.marked(); len(left) != 0 {
		t.Errorf("after the daemon's end there are %q", left)
	}
	if why := c.failure(world.InvocationID(world.JobPrefix + id)); why != "the daemon stopped before the job ended" {
		t.Errorf("the job's record says %q", why)
	}
	if told := c.goesOn(id); told != "" {
		t.Errorf("the next start says %q", told)
	}
}

// TestKilledDaemonLeavesNoCommand: a command dies with a daemon that is killed in the midst
// of its call, whose end is not known then.
func TestKilledDaemonLeavesNoCommand(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	answered := make(chan error, 1)
	go func() {
		_, _, err := c.call("cut", "workspace-exec", map[string]any{"profile": "hard"})
		answered <- err
	}()
	c.running()
	c.kill()
	if err := <-answered; err == nil {
		t.Error("the call was answered")
	}
	c.gone()
	told := c.goesOn("")
	if !strings.Contains(told, "indeterminate effect e1 of a2a:"+episode+":cut") {
		t.Errorf("the next start says %q", told)
	}
	if why := c.failure(world.AgentInvocation(episode, "cut")); why != "" {
		t.Errorf("the effect has a record: %q", why)
	}
	c.serve()
	if _, refused, err := c.call("cut", "workspace-exec", map[string]any{"profile": "hard"}); err != nil || !strings.HasPrefix(refused, "effects were requested but") {
		t.Errorf("the resend: %q, %v", refused, err)
	}
	c.stop()
	c.gone()
}
