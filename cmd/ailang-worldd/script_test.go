package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/cli/shell"
	"ailang.dev/world/host/hashref"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ailang-worldd": main})
}

// TestScripts runs the real program as the scripts say, and sees that nothing that it ever
// printed holds the credential of a session, but for mint's own answer.
func TestScripts(t *testing.T) {
	packs, err := filepath.Abs("../../packs")
	if err != nil {
		t.Fatal(err)
	}
	tally, err := filepath.Abs("../../host/capsule/wasm/testdata/tally")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(tally, "tally.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	standin, err := ailangtest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	found := &credentials{of: map[string]map[string]int{}}
	testscript.RunT(leakT{T: t, found: found}, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("PACKS", packs)
			e.Setenv("AILANG", standin)
			e.Setenv("TALLY", tally)
			e.Setenv("TALLY_REF", hashref.Sum(module).String())
			for _, kv := range []string{"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A",
				"GIT_COMMITTER_EMAIL=a@example.org", "GIT_CONFIG_NOSYSTEM=1", "XDG_RUNTIME_DIR=",
				"TMPDIR=" + filepath.Join(e.WorkDir, ".tmp"),
				"GORACE=atexit_sleep_ms=0", // else each command of a race build ends a second later
			} {
				k, v, _ := strings.Cut(kv, "=")
				e.Setenv(k, v)
			}
			d := &daemons{running: map[string]*process{}}
			e.Values["daemons"] = d
			e.Defer(func() {
				d.killAll()
				found.collect(e.T(), e.WorkDir)
			})
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": cmdCode, "start": cmdStart, "halt": cmdHalt, "token": cmdToken, "mode": cmdMode, "repo": cmdRepo, "tty": cmdTTY,
			"grab": cmdGrab, "alter": cmdAlter,
		},
	})
}

// credentials are those that scripts left in files: by script, how often each may be
// shown.
type credentials struct {
	mu sync.Mutex
	of map[string]map[string]int
}

var credentialText = regexp.MustCompile(`\A[0-9a-f]{64}\n?\z`)

// collect finds session files. What only its user can read was written by --out and may
// never be shown; what a script copied from stdout may be shown that once.
func (c *credentials) collect(t testscript.T, dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tokens := map[string]int{}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, ".id") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !credentialText.Match(text) {
			return nil
		}
		token, times := strings.TrimSpace(string(text)), 0
		if st, err := d.Info(); err == nil && st.Mode().Perm()&0o077 != 0 {
			times = 1
		}
		tokens[token] = max(tokens[token], times)
		return nil
	})
	c.of[t.(leakT).Name()] = tokens
}

// leakT keeps a script's whole log and looks for credentials in it.
type leakT struct {
	*testing.T
	found *credentials
	log   *strings.Builder
}

func (t leakT) Verbose() bool { return true } // else the log of what went well is cut
func (t leakT) Log(args ...any) {
	fmt.Fprintln(t.log, args...)
}

func (t leakT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(sub *testing.T) {
		in := leakT{T: sub, found: t.found, log: &strings.Builder{}}
		sub.Cleanup(func() {
			t.found.mu.Lock()
			defer t.found.mu.Unlock()
			for token, times := range t.found.of[sub.Name()] {
				if n := strings.Count(in.log.String(), token); n > times {
					sub.Errorf("a credential was shown %d times, want at most %d", n, times)
				}
			}
			if sub.Failed() || testing.Verbose() {
				sub.Log(in.log.String())
			}
		})
		f(in)
	})
}

// cmdAlter changes rows of a store behind everybody's back: alter data/w.db SQL.
func cmdAlter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: alter FILE SQL")
	}
	c, err := sqlite.OpenConn(ts.MkAbs(args[0]), sqlite.OpenReadWrite)
	ts.Check(err)
	defer c.Close()
	ts.Check(sqlitex.ExecuteTransient(c, args[1], nil))
}

// cmdGrab puts what a pattern's group matches in the last command's stdout into the
// environment: grab ID '"id":"(.*?)"'.
func cmdGrab(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: grab NAME PATTERN")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("%s is not in stdout, or has no group", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// cmdCode runs the program and demands an exit code: code 2 serve --db x.
func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("ailang-worldd", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// process is a daemon of a script.
type process struct {
	cmd    *exec.Cmd
	mu     sync.Mutex
	stdout strings.Builder
	stderr strings.Builder
	read   chan struct{} // closed when stdout ended
}

type daemons struct{ running map[string]*process }

func (d *daemons) killAll() {
	for _, p := range d.running {
		p.cmd.Process.Kill()
		<-p.read
		p.cmd.Wait()
	}
}

// patience is how long a daemon may take to listen or to end.
const patience = 30 * time.Second

var listening = regexp.MustCompile(`(?m)^ailang-worldd listening on (http://\S+)$`)

// cmdStart starts a daemon, waits until it listens, and sets WORLD_ADDR: start NAME ARG….
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME ARG…")
	}
	p := &process{read: make(chan struct{})}
	bin, err := exec.LookPath("ailang-worldd")
	ts.Check(err)
	p.cmd = exec.Command(bin, args[1:]...)
	p.cmd.Dir = ts.MkAbs(".")
	for _, kv := range []string{"PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "TMPDIR", "GIT_CONFIG_NOSYSTEM"} {
		p.cmd.Env = append(p.cmd.Env, kv+"="+ts.Getenv(kv))
	}
	p.cmd.Env = append(p.cmd.Env, "GIT_DIR=/nowhere") // what the caller's git is at must not matter
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	ts.Value("daemons").(*daemons).running[args[0]] = p
	url := make(chan string, 1)
	go func() {
		defer close(p.read)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			p.mu.Lock()
			p.stdout.WriteString(line)
			p.mu.Unlock()
			if m := listening.FindStringSubmatch(line); m != nil {
				url <- m[1]
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case u := <-url:
		ts.Setenv("WORLD_ADDR", u)
	case <-p.read:
		p.cmd.Wait()
		ts.Fatalf("it ended before it listened: %s%s", p.stdout.String(), p.stderr.String())
	case <-time.After(patience):
		ts.Fatalf("it does not listen")
	}
}

// cmdHalt ends a daemon with SIGTERM, demands exit code 0, and hands over what it printed:
// halt NAME.
func cmdHalt(ts *testscript.TestScript, neg bool, args []string) {
	all := ts.Value("daemons").(*daemons)
	if neg || len(args) != 1 || all.running[args[0]] == nil {
		ts.Fatalf("usage: halt NAME")
	}
	p := all.running[args[0]]
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.read:
	case <-time.After(patience):
		ts.Fatalf("it does not end")
	}
	err := p.cmd.Wait()
	delete(all.running, args[0])
	io.WriteString(ts.Stdout(), p.stdout.String())
	io.WriteString(ts.Stderr(), p.stderr.String())
	ts.Check(err)
}

// cmdToken puts the credential in a file into an environment variable: token FILE NAME.
func cmdToken(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: token FILE NAME")
	}
	ts.Setenv(args[1], strings.TrimSpace(ts.ReadFile(args[0])))
}

// cmdMode demands the permissions of files: mode 600 FILE….
func cmdMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mode OCTAL FILE…")
	}
	for _, f := range args[1:] {
		st, err := os.Stat(ts.MkAbs(f))
		ts.Check(err)
		if got := strconv.FormatUint(uint64(st.Mode().Perm()), 8); got != args[0] {
			ts.Fatalf("%s has mode %s, want %s", f, got, args[0])
		}
	}
}

// cmdRepo makes git repositories with one commit: repo FOLDER….
func cmdRepo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: repo FOLDER…")
	}
	for _, dir := range args {
		ts.Check(os.MkdirAll(ts.MkAbs(dir), 0o755))
		ts.Check(os.WriteFile(ts.MkAbs(filepath.Join(dir, "README.md")), []byte("# Hello\n"), 0o644))
		for _, line := range []string{"init -q -b main", "add .", "commit -q -m first"} {
			ts.Check(ts.Exec("git", append([]string{"-C", ts.MkAbs(dir)}, strings.Fields(line)...)...))
		}
	}
}

// cmdTTY runs the program with a terminal as its stdout, by script(1), and hands over what
// the terminal got: tty ARG….
func cmdTTY(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: tty ARG…")
	}
	ts.Check(ts.Exec("script", "-qec", shell.Line(append([]string{"ailang-worldd"}, args...)...), "/dev/null"))
}

// TestSpecNamesItsScripts keeps spec/11-cli.md and the scripts together: each statement has
// a row of tests, each script that a row names is there, and each script is named.
func TestSpecNamesItsScripts(t *testing.T) {
	page, err := os.ReadFile("../../spec/11-cli.md")
	if err != nil {
		t.Fatal(err)
	}
	statements := submatches(regexp.MustCompile(`(?m)^- \*\*(11\.\d+)\*\* `), page)
	rows := submatches(regexp.MustCompile(`(?m)^\| (11\.\d+) \| Test`), page)
	if len(statements) == 0 || !slices.Equal(statements, rows) {
		t.Errorf("statements %q\nrows       %q", statements, rows)
	}
	entries, err := os.ReadDir("testdata/script")
	if err != nil {
		t.Fatal(err)
	}
	named := submatches(regexp.MustCompile(`\bTestScripts/([a-z_]+)`), page)
	slices.Sort(named)
	var there []string
	for _, e := range entries {
		there = append(there, strings.TrimSuffix(e.Name(), ".txtar"))
	}
	if named = slices.Compact(named); !slices.Equal(named, there) {
		t.Errorf("the spec names %q\nthere are      %q", named, there)
	}
}

func submatches(re *regexp.Regexp, page []byte) []string {
	var all []string
	for _, m := range re.FindAllSubmatch(page, -1) {
		all = append(all, string(m[1]))
	}
	return all
}
