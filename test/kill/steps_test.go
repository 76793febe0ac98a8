package kill

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// stepVerb makes the test binary a daemon that kills itself at a step of a call.
const stepVerb = "world-kill-at"

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == stepVerb {
		if err := serveUntil(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveUntil serves a store, and ends by SIGKILL when a call reaches the step.
func serveUntil(step, db, root string) error {
	ctx := context.Background()
	logf := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	core, err := daemon.OpenCore(ctx, daemon.CoreConfig{DB: db, Logf: logf, Pause: func(at string) {
		if at == step {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		return err
	}
	d, err := daemon.New(ctx, core, daemon.Config{Bind: "127.0.0.1:0", WorkspaceRoot: root, RuntimeDir: filepath.Dir(db), Plans: killPlans()})
	if err != nil {
		return err
	}
	return d.Run(ctx, func(url string) { fmt.Println("ailang-worldd listening on " + url) })
}

// outcome is what a kill at a step must leave.
type outcome struct {
	effect        bool // the call plans one
	rounds        bool // and a finish phase after it
	done          int  // times the effect is done, after a resend too
	indeterminate bool // the next start tells an intent without an outcome
	resend        string
}

const (
	runs       = "it runs"
	replays    = "the committed result"
	unrecorded = "effects unrecorded"
)

// outcomes are the steps by their names at the pause points, after the kind of call.
var outcomes = map[string]outcome{
	"call.admitted":      {effect: true, done: 1, resend: runs},
	"call.planned":       {effect: true, done: 1, resend: runs},
	"effect.intended":    {effect: true, done: 0, indeterminate: true, resend: unrecorded},
	"effect.performed":   {effect: true, done: 1, indeterminate: true, resend: unrecorded},
	"call.finished":      {effect: true, done: 1, indeterminate: true, resend: unrecorded},
	"call.before-commit": {effect: true, done: 1, indeterminate: true, resend: unrecorded},
	"call.committed":     {effect: true, done: 1, resend: replays},

	"rounds call.admitted":      {effect: true, rounds: true, done: 1, resend: runs},
	"rounds call.planned":       {effect: true, rounds: true, done: 1, resend: runs},
	"rounds effect.intended":    {effect: true, rounds: true, done: 0, indeterminate: true, resend: unrecorded},
	"rounds effect.performed":   {effect: true, rounds: true, done: 1, indeterminate: true, resend: unrecorded},
	"rounds effect.recorded":    {effect: true, rounds: true, done: 1, resend: unrecorded},
	"rounds call.finished":      {effect: true, rounds: true, done: 1, resend: unrecorded},
	"rounds call.before-commit": {effect: true, rounds: true, done: 1, resend: unrecorded},
	"rounds call.committed":     {effect: true, rounds: true, done: 1, resend: replays},

	"pure call.admitted":      {resend: runs},
	"pure call.finished":      {resend: runs},
	"pure call.before-commit": {resend: runs},
	"pure call.committed":     {resend: replays},
}

// pauses finds the pause points of the code.
func pauses(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", "..", "host"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`Pause\("([^"]+)"\)`).FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%d pause points, %v", len(found), err)
	}
	return found
}

// TestEveryStepIsKilledAt: each pause point of the code is one of outcomes for calls with effects,
// and of those none is missing in the code.
func TestEveryStepIsKilledAt(t *testing.T) {
	there := pauses(t)
	killed := map[string]bool{}
	for step := range outcomes {
		_, at, alone := strings.Cut(step, " ")
		if !alone {
			at = step
		}
		killed[at] = true
		if !there[at] {
			t.Errorf("the code has no step %s", at)
		}
	}
	for at := range there {
		if !killed[at] {
			t.Errorf("no call is killed at %s", at)
		}
	}
}

func TestKilledAtEachStep(t *testing.T) {
	s := newSite(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for step, want := range outcomes {
		n++
		tk := &task{id: fmt.Sprintf("step-%d", n), effect: want.effect, rounds: want.rounds}
		t.Run(step, func(t *testing.T) {
			s.t = t
			s.launch(self, stepVerb, step[strings.LastIndexByte(step, ' ')+1:], s.db, filepath.Join(s.dir, "ws"))
			if err := s.send(tk); err == nil {
				t.Fatalf("the call was answered: %+v", tk)
			}
			s.cmd.Wait()
			s.start()
			s.entries = s.logLength()
			if err := s.send(tk); err != nil {
				t.Fatal(err)
			}
			s.kill()
			// Only now is all of stderr read: the listening line comes by another pipe.
			told := strings.Contains(s.stderr.String(), "indeterminate effect e1 of a2a:ep:"+tk.id)
			if told != want.indeterminate {
				t.Errorf("indeterminate is %v, want %v: %s", told, want.indeterminate, s.stderr.String())
			}
			s.check(t, tk, want)
		})
	}
}

// check compares the answer of the resend, the store and the disk with what must be.
func (s *site) check(t *testing.T, tk *task, want outcome) {
	t.Helper()
	if tk.acked == (want.resend == unrecorded) || !tk.acked && !strings.HasPrefix(tk.answered, "effects were requested but") {
		t.Errorf("the resend was acknowledged: %v, answered %q; want %s", tk.acked, tk.answered, want.resend)
	}
	// A call that had been committed is the entry that stood there before the resend.
	if replayed := tk.entry < s.entries; tk.acked && replayed != (want.resend == replays) {
		t.Errorf("the resend is entry %d of %d, want %s", tk.entry, s.entries, want.resend)
	}
	if done := s.lines()[tk.id]; done != want.done {
		t.Errorf("its effect was done %d times, want %d", done, want.done)
	}
	ctx := context.Background()
	db, err := sqlite.Open(ctx, sqlite.Options{Path: s.db, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	worldtest.CheckAll(t, db)
	inv, err := db.Invocation(ctx, world.AgentInvocation(episode, tk.id))
	if err != nil {
		t.Fatal(err)
	}
	if committed := inv.State == store.StateCommitted; committed != tk.acked || committed && inv.EntryIndex != tk.entry {
		t.Errorf("the store says %+v, the resend entry %d", inv, tk.entry)
	}
	if want.resend != unrecorded {
		return
	}
	// What the resend named can be read: a record, or the request while there is none.
	ref, kind := inv.Effects[0].Record, world.SemEffect
	if want.indeterminate {
		ref, kind = inv.Effects[0].Request, world.SemRequest
	}
	o, err := db.Object(ctx, ref)
	if err != nil || o.SemanticID != kind || !strings.HasSuffix(tk.answered, " "+ref.String()) {
		t.Errorf("%q names %s, which is %q, %v", tk.answered, ref, o.SemanticID, err)
	}
}

// logLength is how many entries the log has now.
func (s *site) logLength() int64 {
	s.t.Helper()
	for n := int64(0); ; n++ {
		resp, err := http.Get(fmt.Sprintf("%s/v1/log/%d", s.url, n))
		if err != nil {
			s.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			return n
		}
	}
}
