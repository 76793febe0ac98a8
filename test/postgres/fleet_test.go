// Package postgres runs real daemons over one world in a real PostgreSQL: three at once with
// mixed calls and one killed, a primary that dies and a replica that takes its place, a world
// that moves from a file to a database and back; each with exact accounting.
package postgres

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	store_pg "ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/store/postgres/pgtest"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// cluster is the server of this package's tests; nil where its programs are missing.
var cluster *pgtest.Cluster

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == stepVerb {
		if err := serveUntil(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "world-fleet-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.path = filepath.Join(dir, "ailang-worldd")
	code := pgtest.Main(m, func(c *pgtest.Cluster) { cluster = c })
	os.RemoveAll(dir)
	os.Exit(code)
}

// built is the program, which is built once.
var built struct {
	once sync.Once
	path string
	err  error
}

func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if out, err := exec.Command("go", "build", "-o", built.path, "ailang.dev/world/cmd/ailang-worldd").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

const (
	episode = "ep"
	shared  = "shared.txt"
	// end marks where each effect adds a line: an edit that is lost or done twice shows.
	end = "<<end>>"
	// startTimeout bounds one start of a daemon.
	startTimeout = 60 * time.Second
)

var ctx = context.Background()

// fleet is a world and the daemons that serve it.
type fleet struct {
	t        *testing.T
	bin, dir string
	db       string
	token    string
	daemons  []*daemon
	environ  []string
}

// daemon is one process.
type daemon struct {
	cmd    *exec.Cmd
	url    string
	stderr *safeBuffer
}

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

// newFleet makes a world in a database, or where db says, with a session.
func newFleet(t *testing.T, db string) *fleet {
	t.Helper()
	if db == "" {
		db = cluster.URL(cluster.Database(t))
	}
	f := &fleet{t: t, dir: t.TempDir(), db: db}
	f.environ = append(os.Environ(), "HOME="+f.dir, "XDG_DATA_HOME="+filepath.Join(f.dir, "data"), "XDG_RUNTIME_DIR=")
	f.bin = program(t)
	tree := filepath.Join(f.dir, "ws", episode)
	if err := os.MkdirAll(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, shared), []byte(end), 0o644); err != nil {
		t.Fatal(err)
	}
	f.run(f.bin, "genesis", "--db", f.db)
	for _, pack := range []string{"workspace", "examples"} {
		f.run(f.bin, "transitions", "publish", "--db", f.db, "--manifest", filepath.Join("..", "..", "packs", pack, "manifest.json"), "--yes")
	}
	f.token = f.mint(episode, 1_000_000)
	return f
}

func (f *fleet) mint(episode string, budget int) string {
	f.t.Helper()
	return strings.TrimSpace(f.run(f.bin, "session", "mint", "--db", f.db, "--episode", episode, "--ttl", "8h", "--yes",
		"--grant", "Workspace.Read=worktree:1000000", "--grant", fmt.Sprintf("Workspace.Write=worktree:%d", budget), "--grant", "Tools.Echo=demo:0"))
}

// try runs a program and gives what it printed.
func (f *fleet) try(name string, args ...string) (out, errs string, err error) {
	var o, e bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &o, &e, f.environ
	err = cmd.Run()
	for _, said := range []string{o.String(), e.String()} {
		if strings.Contains(said, pgtest.Password) {
			f.t.Errorf("%v tells the password: %s", args, said)
		}
	}
	return o.String(), e.String(), err
}

func (f *fleet) run(name string, args ...string) string {
	f.t.Helper()
	out, errs, err := f.try(name, args...)
	if err != nil {
		f.t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, errs)
	}
	return out
}

// start starts one more daemon and waits for its listening line.
func (f *fleet) start(flags ...string) *daemon {
	f.t.Helper()
	return f.launch(f.bin, append([]string{"serve", "--db", f.db, "--bind", "127.0.0.1:0", "--workspace-root", filepath.Join(f.dir, "ws")}, flags...)...)
}

// launch starts a program that says where it listens, as serve does.
func (f *fleet) launch(bin string, args ...string) *daemon {
	f.t.Helper()
	d := &daemon{stderr: &safeBuffer{}}
	d.cmd = exec.Command(bin, args...)
	d.cmd.Stderr, d.cmd.Env = d.stderr, f.environ
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	timer := time.AfterFunc(startTimeout, func() { d.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		d.cmd.Wait()
		f.t.Fatalf("daemon did not start: %v\n%s", err, d.stderr)
	}
	d.url = strings.TrimSpace(strings.TrimPrefix(line, "ailang-worldd listening on "))
	f.daemons = append(f.daemons, d)
	f.t.Cleanup(func() {
		d.kill()
		if strings.Contains(d.stderr.String(), pgtest.Password) {
			f.t.Errorf("a daemon tells the password: %s", d.stderr)
		}
	})
	return d
}

func (d *daemon) kill() {
	d.cmd.Process.Signal(syscall.SIGKILL)
	d.cmd.Wait()
}

func (d *daemon) stop(t *testing.T) {
	t.Helper()
	d.cmd.Process.Signal(syscall.SIGTERM)
	if err := d.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, d.stderr)
	}
}

// task is one call that was sent.
type task struct {
	id             string
	episode        string
	effect, rounds bool
	acked, denied  bool
	entry          int64
	answered       string // an error's message, if it was answered with one
}

func (f *fleet) send(d *daemon, token string, tk *task) error {
	skill, args := "tools.echo", map[string]any{"task": tk.id}
	if tk.effect {
		skill, args = "workspace-edit", map[string]any{"path": shared, "old_text": end, "new_text": tk.id + "\n" + end}
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
	req, err := http.NewRequest(http.MethodPost, d.url+"/a2a/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
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
						OK bool `json:"ok"`
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
		tk.answered = a.Error.Message
		return nil
	}
	tk.denied = tk.effect && !a.Result.Artifacts[0].Parts[0].Data.OK
	if tk.acked && tk.entry != a.Result.Metadata.EntryIndex {
		f.t.Errorf("task %s was entry %d, its resend says %d", tk.id, tk.entry, a.Result.Metadata.EntryIndex)
	}
	tk.acked, tk.entry, tk.answered = true, a.Result.Metadata.EntryIndex, ""
	return nil
}

// unrecorded is how the answer begins of a call whose effects ran, and that is no entry.
const unrecorded = "effects were requested but"

// settled sends a task again until the answer says what became of it: a result, or effects that
// are unrecorded for ever.
func (f *fleet) settled(d *daemon, token string, tk *task) {
	f.t.Helper()
	for range 60 {
		if err := f.send(d, token, tk); err != nil {
			f.t.Fatalf("resend of %s: %v", tk.id, err)
		}
		if tk.acked || strings.HasPrefix(tk.answered, unrecorded) {
			return
		}
		time.Sleep(250 * time.Millisecond) // a person would wait too: the world is changing hands
	}
	f.t.Errorf("%s: after many resends it is neither a result nor unrecorded: %q", tk.id, tk.answered)
}

// account compares what was acknowledged, what the store says and what is on disk.
func (f *fleet) account(tasks []*task) {
	t := f.t
	t.Helper()
	s, err := store_pg.OpenReadOnly(ctx, store_pg.Options{URL: f.db, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	worldtest.CheckAll(t, s)
	lines := f.lines()
	acked, open, denied := 0, 0, 0
	intents := int64(0)
	for _, tk := range tasks {
		inv, err := s.Invocation(ctx, world.AgentInvocation(tk.episode, tk.id))
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
		case tk.acked && tk.effect && !tk.denied && done != 1:
			t.Errorf("%s: acknowledged, but its effect is not there", tk.id)
		case len(inv.Effects) == 0 && done != 0:
			t.Errorf("%s: an effect without an intent", tk.id)
		}
		switch {
		case tk.denied:
			denied++
		case tk.acked:
			acked++
		default:
			open++
		}
	}
	if len(lines) != 0 {
		t.Errorf("effects of nobody: %v", lines)
	}
	spent, err := s.Spent(ctx, episode, "Workspace.Write", "worktree")
	if err != nil || spent != intents {
		t.Errorf("spent %d, intents %d, %v", spent, intents, err)
	}
	t.Logf("%d calls: %d acknowledged, %d denied, %d with effects unrecorded", len(tasks), acked, denied, open)
	if acked == 0 {
		t.Error("nothing was acknowledged")
	}
}

// lines counts what the effects left in the file.
func (f *fleet) lines() map[string]int {
	f.t.Helper()
	counts := map[string]int{}
	b, err := os.ReadFile(filepath.Join(f.dir, "ws", episode, shared))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if line != end {
			counts[line]++
		}
	}
	return counts
}
