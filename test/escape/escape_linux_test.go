package escape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

const verb = "sandbox-init"

// escaped is the exit code of an attempt that got somewhere.
const escaped = 10

// TestMain makes the test binary process 1 of a sandbox, or an attempt.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == verb:
		if err := sandbox.Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 4 && os.Args[1] == "attempt":
		os.Exit(attempt(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

func attempt(name, text string) int {
	var t targets
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		fmt.Println(err)
		return 1
	}
	if do := doomed[name]; do != nil {
		do(t)
		return 0
	}
	got := attempts[name](t)
	fmt.Print(got)
	if got != "" {
		return escaped
	}
	return 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is a worktree with all round it that an attempt may reach for.
type rig struct {
	t       *testing.T
	h       *exec.Handler
	exe     string
	targets targets
	heard   atomic.Int32 // how often somebody reached a listener
}

func newRig(t *testing.T) *rig {
	t.Helper()
	top := t.TempDir()
	exe, err := os.Executable()
	must(t, err)
	r := &rig{t: t, exe: exe}
	r.targets = targets{Tree: filepath.Join(top, "ws", "ep"), Outside: filepath.Join(top, "outside"), Hidden: filepath.Join(top, "ro", "hidden"),
		Secret: "secret-" + filepath.Base(filepath.Dir(top)), Unix: filepath.Base(filepath.Dir(top))}
	r.files(top)
	r.listeners()
	r.victim()
	r.surroundings()
	set, err := policy.New(policy.Config{Rules: policy.Rules{Deny: []string{"*.pem"}}})
	must(t, err)
	profile := func(name string, change func(*exec.Limits)) exec.Profile {
		p := exec.Profile{Name: name, Argv: []string{exe, "attempt"}, Args: exec.Args{Max: 2, Pattern: `(?s).*`},
			ReadOnly: []string{exe, filepath.Join(top, "ro")}, Limits: exec.Limits{Memory: 256 << 20, Processes: 64, FileSize: 32 << 20, Output: 4 << 20, Temp: 128 << 20}}
		change(&p.Limits)
		return p
	}
	r.h, err = exec.New(t.Context(), exec.Config{
		Root: filepath.Join(top, "ws"), Policy: set, Hide: []string{r.targets.Hidden}, Slots: capsule.NewSlots(8), Logf: t.Logf,
		Sandbox: sandbox.New(sandbox.Config{Command: []string{exe, verb}, Logf: t.Logf}),
		Profiles: []exec.Profile{profile("any", func(*exec.Limits) {}), profile("brief", func(l *exec.Limits) { l.Timeout = time.Second }),
			profile("cpu", func(l *exec.Limits) { l.CPU = time.Second })},
	})
	must(t, err)
	t.Cleanup(func() { must(t, r.h.Close(context.Background())) })
	return r
}

func (r *rig) files(top string) {
	tree, out := r.targets.Tree, r.targets.Outside
	for path, text := range map[string]string{
		out + "/secret": r.targets.Secret, out + "/.git/config": "outside", out + "/.github/x": "outside", filepath.Dir(tree) + "/other/secret": r.targets.Secret,
		r.targets.Hidden + "/secret": r.targets.Secret, top + "/ro/shown": "shown",
		tree + "/.git/config": "config", tree + "/.git/hooks/x": "hook", tree + "/sub/.git/config": "config", tree + "/linked/.git": "gitdir: /elsewhere\n",
		tree + "/a.txt": "a",
	} {
		must(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(r.t, os.WriteFile(path, []byte(text), 0o644))
	}
	must(r.t, os.Symlink("a.txt", filepath.Join(tree, "link.pem")))
	must(r.t, unix.Mkfifo(filepath.Join(tree, "pipe"), 0o600))
}

// listeners wait outside for whoever gets there.
func (r *rig) listeners() {
	accept := func(network, address string) string {
		l, err := net.Listen(network, address)
		must(r.t, err)
		r.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				r.heard.Add(1)
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	r.targets.TCP = accept("tcp", "127.0.0.1:0")
	accept("unix", "@"+r.targets.Unix)
	accept("unix", filepath.Join(r.targets.Tree, "sock"))
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(r.t, err)
	r.targets.UDP = u.LocalAddr().String()
	r.t.Cleanup(func() { u.Close() })
	pipe, err := os.OpenFile(filepath.Join(r.targets.Tree, "pipe"), os.O_RDWR, 0) // so that it never ends
	must(r.t, err)
	r.t.Cleanup(func() { pipe.Close() })
}

// victim is a process outside.
func (r *rig) victim() {
	cmd := osexec.Command("sleep", "1000")
	cmd.Env, cmd.Dir = []string{"VICTIM=" + r.targets.Secret}, r.targets.Outside
	must(r.t, cmd.Start())
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r.targets.Victim = cmd.Process.Pid
	r.targets.ShmKey = 0x5ec7e7 + cmd.Process.Pid
	id, err := unix.SysvShmGet(r.targets.ShmKey, 4096, unix.IPC_CREAT|0o600)
	must(r.t, err)
	r.t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
}

// surroundings are what a daemon may have been started with.
func (r *rig) surroundings() {
	fd, err := unix.Open(r.targets.secret(), unix.O_RDONLY, 0) // inherited by whatever is started
	must(r.t, err)
	r.t.Cleanup(func() { unix.Close(fd) })
	r.t.Setenv("LD_PRELOAD", "/nonexistent.so")
	r.t.Setenv("GIT_CONFIG_GLOBAL", "/nonexistent")
	r.t.Setenv("SECRET_OF_DAEMON", r.targets.Secret)
}

// answer is what the handler told.
type answer struct {
	OK       bool     `json:"ok"`
	ExitCode int      `json:"exit_code"`
	Signal   string   `json:"signal"`
	Stdout   string   `json:"stdout"`
	Stderr   string   `json:"stderr"`
	Limit    string   `json:"limit"`
	Refused  string   `json:"refused"`
	Removed  []string `json:"removed"`
}

func (r *rig) inside(profile, name string) answer {
	r.t.Helper()
	a, err := r.try(profile, name)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	return a
}

func (r *rig) try(profile, name string) (answer, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), broker.HandlerTimeout)
	defer cancel()
	out, err := r.h.Perform(ctx, broker.Request{Episode: "ep", EffectID: "e1", Need: world.Need{Effect: exec.Effect, Scope: exec.Scope, Cost: 1},
		Payload: hashref.MustMarshal(map[string]any{"profile": profile, "args": []string{name, string(hashref.MustMarshal(r.targets))}})})
	var a answer
	if err == nil {
		err = json.Unmarshal(out, &a)
	}
	if err == nil && a.Refused != "" {
		err = errors.New(a.Refused)
	}
	return a, err
}

// outside tries the same without a sandbox.
func (r *rig) outside(name string) (string, error) {
	cmd := osexec.Command(r.exe, "attempt", name, string(hashref.MustMarshal(r.targets)))
	cmd.Dir = r.targets.Tree
	out, err := cmd.Output()
	return string(out), err
}

// unsafeOutside are attempts that would do harm where nothing holds them, and mean nothing
// there. rootOnly are those that lead nowhere for an ordinary user.
var (
	unsafeOutside = []string{"unmount git", "remount", "write system", "raise limits"}
	rootOnly      = []string{"device node", "chroot", "file handle", "setns"}
)

func (r *rig) control(name string) string {
	switch {
	case slices.Contains(unsafeOutside, name):
		return "not tried"
	case slices.Contains(rootOnly, name) && os.Getuid() != 0:
		return "for root alone"
	}
	out, err := r.outside(name)
	var exit *osexec.ExitError
	if name == "32-bit calls" && out == "" {
		return "no such calls here"
	}
	if ok := asExit(err, &exit); !ok || exit.ExitCode() != escaped {
		r.t.Errorf("%s: outside it leads nowhere, so the test shows nothing: %v %q", name, err, out)
	}
	return out
}

func asExit(err error, to **osexec.ExitError) bool {
	e, ok := err.(*osexec.ExitError)
	*to = e
	return ok
}

// TestEscape tries every way out.
func TestEscape(t *testing.T) {
	r := newRig(t)
	tried, out := 0, 0
	for _, name := range slices.Sorted(maps.Keys(attempts)) {
		before := r.state()
		heard := r.heard.Load()
		a := r.inside("any", name)
		tried++
		held := a.ExitCode == 0 && a.Stdout == ""
		if name == "32-bit calls" { // a kernel that has none faults whoever tries
			held = held || a.Signal == "SIGSYS" || a.Stdout == "" && strings.Contains(a.Stderr, "SIGSEGV")
		}
		if !held || r.heard.Load() != heard || r.state() != before || len(a.Removed) > 0 {
			out++
			t.Errorf("ESCAPED: %s: %+v", name, a)
		}
		t.Logf("held  %-32s outside: %s", name, r.control(name))
	}
	for _, c := range limitsTried {
		tried++
		if !r.limited(c.profile, c.name, c.limits) {
			out++
		}
	}
	for _, try := range []func() bool{r.planted, r.raced} {
		tried++
		if !try() {
			out++
		}
	}
	t.Logf("as uid %d: %d tried, %d escaped", os.Getuid(), tried, out)
}

// state is what must not change: all that is outside, and all that is protected.
func (r *rig) state() string {
	r.t.Helper()
	var b strings.Builder
	for _, top := range []string{r.targets.Outside, r.targets.Tree + "/.git", r.targets.Tree + "/sub/.git", r.targets.Tree + "/linked", filepath.Dir(r.targets.Tree) + "/other"} {
		must(r.t, filepath.Walk(top, func(p string, fi os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			text := []byte{}
			if fi.Mode().IsRegular() {
				if text, err = os.ReadFile(p); err != nil {
					return err
				}
			}
			fmt.Fprintf(&b, "%s %v %d %q\n", p, fi.Mode(), fi.Sys().(*syscall.Stat_t).Nlink, text)
			return nil
		}))
	}
	return b.String()
}

var limitsTried = []struct {
	profile, name string
	limits        []string
}{
	{"any", "fork bomb", []string{"processes", "memory"}}, // whichever its processes meet first
	{"any", "memory bomb", []string{"memory"}},
	{"any", "memory bomb in /tmp", []string{"memory"}},
	{"any", "shared memory bomb", []string{"memory"}},
	{"any", "output flood", []string{"output"}},
	{"any", "big file", []string{"file_size"}},
	{"cpu", "busy", []string{"cpu"}},
	{"brief", "deaf", []string{"timeout"}},
	{"any", "daemon", []string{""}},
}

// limited demands that a program was ended by a limit, and that nothing of it is left.
func (r *rig) limited(profile, name string, limits []string) bool {
	before := r.state()
	a := r.inside(profile, name)
	ok := true
	if !slices.Contains(limits, a.Limit) || r.state() != before {
		ok = false
		r.t.Errorf("ESCAPED: %s: %+v", name, a)
	}
	// What is left of it would show: it writes all the time, or is in a list of processes.
	beat := filepath.Join(r.targets.Tree, "beat")
	was, _ := os.ReadFile(beat)
	left := r.left()
	now, _ := os.ReadFile(beat)
	if string(was) != string(now) || len(left) > 0 {
		ok = false
		r.t.Errorf("ESCAPED: %s goes on: %v", name, left)
	}
	if fi, err := os.Stat(filepath.Join(r.targets.Tree, "big")); err == nil && fi.Size() > 32<<20 {
		ok = false
		r.t.Errorf("ESCAPED: a file of %d bytes", fi.Size())
	}
	r.t.Logf("ended %-32s limit: %s", name, a.Limit)
	return ok
}

// left are the attempts among all processes.
func (r *rig) left() []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var all []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		args := strings.Split(string(text), "\x00")
		if err == nil && len(args) > 2 && args[1] == "attempt" && filepath.Base(args[0]) != "" {
			all = append(all, strings.Join(args, " "))
		}
	}
	return all
}

// planted demands that protected names in every spelling are gone, and told.
func (r *rig) planted() bool {
	before := r.state()
	a := r.inside("any", "plant")
	ok := r.state() == before && len(a.Removed) == len(planted)+2
	for _, p := range append(slices.Clone(planted), ".gitmodule\u017f", "a\nb/.git") {
		if _, err := os.Lstat(filepath.Join(r.targets.Tree, p)); err == nil {
			ok = false
			r.t.Errorf("ESCAPED: %q is there", p)
		}
	}
	if target, err := os.Readlink(filepath.Join(r.targets.Tree, "link.pem")); err != nil || target != "a.txt" {
		ok = false
		r.t.Errorf("ESCAPED: the protected link is now %q: %v", target, err)
	}
	if !ok {
		r.t.Errorf("ESCAPED: planted: %+v", a)
	}
	return ok
}

// raced lets one program flip names while others are started, and demands that nothing
// outside was touched by whoever puts the tree in order.
func (r *rig) raced() bool {
	before := r.state()
	done := make(chan error, 1)
	go func() {
		_, err := r.try("any", "race")
		done <- err
	}()
	var err error
	for racing := true; racing; {
		select {
		case err = <-done:
			racing = false
		default:
		}
		// A tree that changes all the time may be a reason to run nothing, and is told as one.
		a, err := r.try("any", "absolute path")
		if err != nil && !strings.Contains(err.Error(), "the worktree changes") || a.ExitCode != 0 {
			r.t.Errorf("beside the race: %+v %v", a, err)
		}
	}
	must(r.t, err)
	_, err = os.Lstat(filepath.Join(r.targets.Tree, ".github"))
	ok := r.state() == before && err != nil
	if !ok {
		r.t.Errorf("ESCAPED: the race changed something: %v\nwas\n%s\nis\n%s", err, before, r.state())
	}
	return ok
}

// TestEscapeAsOrdinaryUser tries it all again as a user without any rights.
func TestEscapeAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("TestEscape was that: this is an ordinary user")
	}
	exe, err := os.Executable()
	must(t, err)
	dir, err := os.MkdirTemp("", "escape")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	text, err := os.ReadFile(exe)
	must(t, err)
	own := filepath.Join(dir, "escape.test")
	must(t, os.WriteFile(own, text, 0o755))
	must(t, os.Chmod(dir, 0o755))
	temp := filepath.Join(dir, "tmp")
	must(t, os.Mkdir(temp, 0o700))
	const nobody = 65534
	must(t, os.Chown(temp, nobody, nobody))
	cmd := osexec.Command(own, "-test.run=^TestEscape$", "-test.v")
	cmd.Dir, cmd.Env = temp, []string{"TMPDIR=" + temp, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("as uid %d:", nobody)) || !strings.Contains(string(out), " 0 escaped") {
		t.Errorf("%v", err)
	}
}
