// Package fault hurts the machine under a real daemon that is at work: disks that fail, fill
// up, become read-only or slow, kills at each write, descriptors and memory that run out,
// clocks that jump. Each fault is followed by a recovery without help, by a kill and a
// restart, by verify --deep, and by exact accounting: an acknowledged call is an entry for
// ever, no effect is done twice, none is done that is in nobody's account, and what was spent
// is what was intended. docs/faults.md is the table of it. Answers spec/02-store.md.
package fault

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
)

const (
	callers = 4
	episode = "ep"
	// end marks where each effect adds a line: an edit that is done twice shows.
	end = "<<end>>"
	// startTimeout bounds one start of the daemon, callTimeout one request.
	startTimeout = 30 * time.Second
	callTimeout  = 60 * time.Second
)

var tools struct {
	once sync.Once
	dir  string
	bin  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if tools.dir != "" {
		os.RemoveAll(tools.dir)
	}
	os.Exit(code)
}

// binary builds the daemon, once.
func binary(t *testing.T) string {
	t.Helper()
	tools.once.Do(func() {
		if tools.dir, tools.err = os.MkdirTemp("", "world-fault"); tools.err != nil {
			return
		}
		tools.bin = filepath.Join(tools.dir, "ailang-worldd")
		out, err := exec.Command("go", "build", "-o", tools.bin, "ailang.dev/world/cmd/ailang-worldd").CombinedOutput()
		if err != nil {
			tools.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if tools.err != nil {
		t.Fatal(tools.err)
	}
	return tools.bin
}

// site is a store, a worktree and the daemon that is hurt.
type site struct {
	t     *testing.T
	bin   string
	dir   string
	db    string
	token string

	cmd    *exec.Cmd
	url    string
	stderr *safeBuffer
	client *http.Client
	dials  atomic.Int64 // connections that were made since start
	folder string       // that the daemon works in; "" is the test's
	tasks  []*task
}

// safeBuffer is written by the daemon's pipe while the test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newSite makes a world whose store is in the folder storeDir, "" for one beside all else.
func newSite(t *testing.T, storeDir string) *site {
	t.Helper()
	s := &site{t: t, bin: binary(t), dir: t.TempDir()}
	if storeDir == "" {
		storeDir = filepath.Join(s.dir, "store")
	}
	s.db = filepath.Join(storeDir, "world.db")
	tree := filepath.Join(s.dir, "ws", episode)
	for _, d := range []string{storeDir, tree} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for c := range callers {
		if err := os.WriteFile(filepath.Join(tree, file(c)), []byte(end), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.run("genesis", "--db", s.db)
	for _, pack := range []string{"workspace", "examples"} {
		s.run("transitions", "publish", "--db", s.db, "--manifest", filepath.Join("..", "..", "packs", pack, "manifest.json"), "--yes")
	}
	s.token = strings.TrimSpace(s.run("session", "mint", "--db", s.db, "--episode", episode, "--ttl", "8h", "--yes",
		"--grant", "Workspace.Read=worktree:1000000", "--grant", "Workspace.Write=worktree:1000000", "--grant", "Tools.Echo=demo:1000"))
	t.Cleanup(func() {
		if s.cmd != nil && s.cmd.ProcessState == nil {
			s.kill()
		}
	})
	return s
}

func file(caller int) string { return fmt.Sprintf("log-%d.txt", caller) }

// run runs a command of the daemon's binary, which must succeed.
func (s *site) run(args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(s.bin, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%v: %v\n%s%s", args, err, out.String(), errs.String())
	}
	return out.String()
}

// start starts the daemon and waits for its listening line.
func (s *site) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.bin, "serve", "--db", s.db, "--bind", "127.0.0.1:0", "--workspace-root", filepath.Join(s.dir, "ws"))
	s.cmd.Dir = s.folder
	s.stderr = &safeBuffer{}
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	timer := time.AfterFunc(startTimeout, func() { s.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.cmd.Wait()
		s.t.Fatalf("the daemon did not start: %v\n%s", err, s.stderr.String())
	}
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "ailang-worldd listening on "))
	s.dials.Store(0)
	dialer := &net.Dialer{}
	s.client = &http.Client{Timeout: callTimeout, Transport: &http.Transport{
		MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err == nil {
				s.dials.Add(1)
			}
			return c, err
		},
	}}
}

func (s *site) kill() {
	s.cmd.Process.Signal(syscall.SIGKILL)
	s.cmd.Wait()
	s.client.CloseIdleConnections()
}

// The kinds of calls.
const (
	pure   = "pure"
	effect = "effect" // one effect, its outcome with the entry
	rounds = "rounds" // one effect, its outcome before a finish phase
)

var kinds = []string{pure, effect, rounds}

// task is one call that was sent.
type task struct {
	caller int
	id     string
	kind   string
	acked  bool
	ok     bool // as far as the output says
	entry  int64
	told   string // an error's message, or why there was no answer
}

// send sends a task. An error says that there was no answer.
func (s *site) send(tk *task) error {
	skill, args := "tools.echo", map[string]any{"task": tk.id}
	if tk.kind != pure {
		skill, args = "workspace-edit", map[string]any{"path": file(tk.caller), "old_text": end, "new_text": tk.id + "\n" + end}
	}
	if tk.kind == rounds {
		skill, args = "workspace-apply", map[string]any{"edits": []any{args}}
	}
	return s.sendAs(tk, skill, args)
}

func (s *site) sendAs(tk *task, skill string, args map[string]any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": tk.id, "method": "tasks/send", "params": map[string]any{
		"id": tk.id, "metadata": map[string]any{"skill_id": skill},
		"message": map[string]any{"role": "user", "parts": []any{map[string]any{"type": "data", "data": args}}}}})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, s.url+"/a2a/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var a struct {
		Result *struct {
			Metadata struct {
				EntryIndex int64 `json:"entry_index"`
			} `json:"metadata"`
			Artifacts []struct {
				Parts []struct {
					Data struct {
						OK *bool `json:"ok"`
					} `json:"data"`
				} `json:"parts"`
			} `json:"artifacts"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	if a.Error != nil {
		tk.told = a.Error.Message
		return nil
	}
	if tk.acked && tk.entry != a.Result.Metadata.EntryIndex {
		s.t.Errorf("task %s was entry %d, its resend says %d", tk.id, tk.entry, a.Result.Metadata.EntryIndex)
	}
	ok := a.Result.Artifacts[0].Parts[0].Data.OK
	tk.acked, tk.ok, tk.entry, tk.told = true, ok == nil || *ok, a.Result.Metadata.EntryIndex, ""
	return nil
}

// load has each caller send so many calls, one after the other, or until there is no more
// answer. They are added to the site's tasks.
func (s *site) load(name string, each int) []*task {
	var wg sync.WaitGroup
	sent := make([][]*task, callers)
	for c := range callers {
		wg.Go(func() {
			for n := range each {
				tk := &task{caller: c, id: fmt.Sprintf("%s-c%d-n%d", name, c, n), kind: kinds[(n+c)%len(kinds)]}
				sent[c] = append(sent[c], tk)
				if err := s.send(tk); err != nil {
					tk.told = "no answer"
					return
				}
			}
		})
	}
	wg.Wait()
	var all []*task
	for _, list := range sent {
		all = append(all, list...)
	}
	s.tasks = append(s.tasks, all...)
	return all
}

// answers counts how tasks were answered.
func answers(tasks []*task) map[string]int {
	told := map[string]int{}
	for _, tk := range tasks {
		say, _, _ := strings.Cut(tk.told, ";")
		switch {
		case tk.acked && tk.ok:
			say = "done"
		case tk.acked:
			say = "an entry that says no"
		case strings.HasPrefix(say, unrecorded):
			say = unrecorded
		}
		told[say]++
	}
	return told
}

const unrecorded = "effects were requested but"

// allDone fails the test unless all tasks were done: the daemon goes on by itself.
func (s *site) allDone(when string, tasks []*task) {
	s.t.Helper()
	for _, tk := range tasks {
		if !tk.acked || !tk.ok {
			s.t.Fatalf("%s: %s (%s) was answered %q; the daemon says:\n%s", when, tk.id, tk.kind, tk.told, s.stderr.String())
		}
	}
}

// settle kills the daemon, starts it again, sends every task that was not acknowledged again,
// and some that were, and then accounts for all.
func (s *site) settle() {
	s.t.Helper()
	if s.cmd.ProcessState == nil {
		s.kill()
	}
	s.start()
	for i, tk := range s.tasks {
		if !tk.acked || i%3 == 0 {
			if err := s.send(tk); err != nil {
				s.t.Fatalf("resend of %s: %v", tk.id, err)
			}
		}
	}
	s.kill()
	s.account()
}

// account compares what was acknowledged, what the store says and what is on disk, and has
// the store prove itself.
func (s *site) account() {
	t := s.t
	t.Helper()
	s.run("verify", "--db", s.db, "--deep")
	ctx := context.Background()
	db, err := sqlite.Open(ctx, sqlite.Options{Path: s.db, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lines := s.lines()
	var intents int64
	for _, tk := range s.tasks {
		inv, err := db.Invocation(ctx, world.AgentInvocation(episode, tk.id))
		if err != nil {
			t.Fatal(err)
		}
		intents += int64(len(inv.Effects))
		done := lines[tk.id]
		delete(lines, tk.id)
		switch {
		case done > 1:
			t.Errorf("%s: its effect was done %d times", tk.id, done)
		case tk.acked && (inv.State != store.StateCommitted || inv.EntryIndex != tk.entry):
			t.Errorf("%s: acknowledged as entry %d, the store says %+v", tk.id, tk.entry, inv)
		case tk.acked && tk.ok && tk.kind != pure && done != 1:
			t.Errorf("%s: acknowledged, but its effect is not there", tk.id)
		case len(inv.Effects) == 0 && done != 0:
			t.Errorf("%s: an effect without an intent", tk.id)
		case !tk.acked && !strings.HasPrefix(tk.told, unrecorded):
			t.Errorf("%s: after a resend it is neither a result nor unrecorded: %q", tk.id, tk.told)
		case !tk.acked && (inv.State != store.StateOpen || len(inv.Effects) == 0):
			t.Errorf("%s: it is told as unrecorded, the store says %+v", tk.id, inv)
		}
	}
	if len(lines) != 0 {
		t.Errorf("effects of nobody: %v", lines)
	}
	if spent, err := db.Spent(ctx, episode, "Workspace.Write", "worktree"); err != nil || spent != intents {
		t.Errorf("spent %d, intents %d, %v", spent, intents, err)
	}
	t.Logf("accounted for %d calls: %v", len(s.tasks), answers(s.tasks))
}

// lines counts what the effects left in the worktree.
func (s *site) lines() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for c := range callers {
		b, err := os.ReadFile(filepath.Join(s.dir, "ws", episode, file(c)))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if line != end {
				counts[line]++
			}
		}
	}
	return counts
}
