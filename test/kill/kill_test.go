// Package kill holds the crash test: a real daemon, real effects, SIGKILL at random
// moments under load, and then exact accounting. Every acknowledged call must be there,
// the chain whole, no effect done twice, and the spend equal to the intents.
package kill

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

var kills = flag.Int("kills", 200, "how often the daemon is killed")

const (
	callers = 6
	episode = "ep"
	// end marks where each effect adds a line: an edit that is done twice shows.
	end = "<<end>>"
	// startTimeout bounds one start of the daemon.
	startTimeout = 30 * time.Second
)

// site is a store, a worktree and the daemon that is killed again and again.
type site struct {
	t     *testing.T
	bin   string
	dir   string
	db    string
	token string

	cmd    *exec.Cmd
	url    string
	stderr *safeBuffer

	entries int64 // of the log, before a resend
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

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	s.bin = filepath.Join(s.dir, "ailang-worldd")
	s.db = filepath.Join(s.dir, "store", "world.db")
	s.run("go", "build", "-o", s.bin, "ailang.dev/world/cmd/ailang-worldd")
	tree := filepath.Join(s.dir, "ws", episode)
	for _, d := range []string{filepath.Dir(s.db), tree} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range callers {
		if err := os.WriteFile(filepath.Join(tree, file(i)), []byte(end), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.run(s.bin, "genesis", "--db", s.db)
	for _, pack := range []string{"workspace", "examples"} {
		s.run(s.bin, "transitions", "publish", "--db", s.db, "--manifest", filepath.Join("..", "..", "packs", pack, "manifest.json"), "--yes")
	}
	s.token = strings.TrimSpace(s.run(s.bin, "session", "mint", "--db", s.db, "--episode", episode, "--ttl", "8h", "--yes",
		"--grant", "Workspace.Read=worktree:1000000", "--grant", "Workspace.Write=worktree:1000000", "--grant", "Tools.Echo=demo:0"))
	return s
}

func file(caller int) string { return fmt.Sprintf("log-%d.txt", caller) }

func (s *site) run(name string, args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s %v: %v\n%s%s", name, args, err, out.String(), errs.String())
	}
	return out.String()
}

// start starts the daemon and waits for its listening line.
func (s *site) start() {
	s.t.Helper()
	s.launch(s.bin, "serve", "--db", s.db, "--bind", "127.0.0.1:0", "--workspace-root", filepath.Join(s.dir, "ws"))
}

// launch starts a program that serves, and waits for its listening line.
func (s *site) launch(name string, args ...string) {
	s.t.Helper()
	s.cmd = exec.Command(name, args...)
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
		s.t.Fatalf("daemon did not start: %v\n%s", err, s.stderr.String())
	}
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "ailang-worldd listening on "))
}

func (s *site) kill() {
	s.cmd.Process.Signal(syscall.SIGKILL)
	s.cmd.Wait()
}

// answer is what a caller was told of a task.
type answer struct {
	ID     string `json:"id"`
	Result *struct {
		Metadata struct {
			EntryIndex int64 `json:"entry_index"`
		} `json:"metadata"`
		Artifacts []struct {
			Parts []struct {
				Data struct {
					OK bool `json:"ok"`
				} `json:"data"`
			} `json:"parts"`
		} `json:"artifacts"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// task is one call that was sent.
type task struct {
	caller   int
	id       string
	effect   bool
	rounds   bool // the effect is one of a plan with a finish phase
	acked    bool
	entry    int64
	answered string // an error's message, if it was answered with one
}

func (s *site) send(tk *task) error {
	skill, args := "tools.echo", map[string]any{"task": tk.id}
	if tk.effect {
		skill, args = "workspace-edit", map[string]any{"path": file(tk.caller), "old_text": end, "new_text": tk.id + "\n" + end}
	}
	if tk.rounds {
		skill, args = "workspace-apply", map[string]any{"edits": []any{args}}
	}
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
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	if a.Error != nil {
		tk.answered = a.Error.Message
		return nil
	}
	if tk.effect && !a.Result.Artifacts[0].Parts[0].Data.OK {
		s.t.Errorf("task %s was refused: %s", tk.id, text)
	}
	if tk.acked && tk.entry != a.Result.Metadata.EntryIndex {
		s.t.Errorf("task %s was entry %d, its resend says %d", tk.id, tk.entry, a.Result.Metadata.EntryIndex)
	}
	tk.acked, tk.entry, tk.answered = true, a.Result.Metadata.EntryIndex, ""
	return nil
}

// load sends calls from every caller until the daemon is gone, and gives all of them.
func (s *site) load(round int) []*task {
	var wg sync.WaitGroup
	sent := make([][]*task, callers)
	for c := range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := 0; ; n++ {
				tk := &task{caller: c, id: fmt.Sprintf("r%d-c%d-n%d", round, c, n), effect: n%3 != 0, rounds: n%3 == 2}
				sent[c] = append(sent[c], tk)
				if err := s.send(tk); err != nil {
					return
				}
			}
		}()
	}
	time.Sleep(time.Duration(30+rand.IntN(220)) * time.Millisecond) // the random moment is the test
	s.kill()
	wg.Wait()
	var all []*task
	for _, list := range sent {
		all = append(all, list...)
	}
	return all
}

func TestKilledDaemonLosesAndRepeatsNothing(t *testing.T) {
	s := newSite(t)
	s.start()
	t.Cleanup(func() { s.kill() })
	var tasks []*task
	for round := range *kills {
		got := s.load(round)
		s.start()
		// The last call of each caller was in doubt; some others too. Resending is what the
		// contract says to do, and must neither lose nor repeat anything.
		for _, tk := range got {
			if !tk.acked || rand.IntN(4) == 0 {
				if err := s.send(tk); err != nil {
					t.Fatalf("resend of %s: %v", tk.id, err)
				}
			}
		}
		tasks = append(tasks, got...)
	}
	s.resendAcknowledged(tasks)
	s.kill()
	s.account(tasks)
}

// resendAcknowledged: an acknowledged task is the same entry for ever.
func (s *site) resendAcknowledged(tasks []*task) {
	s.t.Helper()
	for _, tk := range tasks {
		if tk.acked {
			if err := s.send(tk); err != nil {
				s.t.Fatalf("resend of %s: %v", tk.id, err)
			}
		}
	}
}

// account compares what was acknowledged, what the store says and what is on disk.
func (s *site) account(tasks []*task) {
	t := s.t
	ctx := context.Background()
	db, err := sqlite.Open(ctx, sqlite.Options{Path: s.db, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	worldtest.CheckAll(t, db)
	lines := s.lines()
	var intents int64
	acked, unrecorded, lost := 0, 0, 0
	for _, tk := range tasks {
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
		case tk.acked && tk.effect && done != 1:
			t.Errorf("%s: acknowledged, but its effect is not there", tk.id)
		case !tk.acked && len(inv.Effects) == 0 && done != 0:
			t.Errorf("%s: an effect without an intent", tk.id)
		}
		switch {
		case tk.acked:
			acked++
		case strings.HasPrefix(tk.answered, "effects were requested but"):
			unrecorded++
		default:
			lost++
			t.Errorf("%s: after a resend it is neither a result nor unrecorded: %q", tk.id, tk.answered)
		}
	}
	if len(lines) != 0 {
		t.Errorf("effects of nobody: %v", lines)
	}
	spent, err := db.Spent(ctx, episode, "Workspace.Write", "worktree")
	if err != nil || spent != intents {
		t.Errorf("spent %d, intents %d, %v", spent, intents, err)
	}
	t.Logf("%d kills: %d calls, %d acknowledged, %d with effects unrecorded, %d unaccounted for", *kills, len(tasks), acked, unrecorded, lost)
	if acked == 0 || lost != 0 {
		t.Error("nothing was acknowledged, or something is unaccounted for")
	}
}

// lines counts what the effects left in the worktree.
func (s *site) lines() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	entries, err := os.ReadDir(filepath.Join(s.dir, "ws", episode))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(s.dir, "ws", episode, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if !strings.HasPrefix(e.Name(), "log-") {
			continue // what a killed write left beside its target
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if line != end {
				counts[line]++
			}
		}
	}
	return counts
}
