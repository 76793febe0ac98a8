package ailang

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/world"
)

// TestPathsThatLeadOut: no path that an agent names makes the toolchain look outside the
// worktree, or is taken for a flag, and nothing is started for one.
func TestPathsThatLeadOut(t *testing.T) {
	r := newRig(t, nil)
	r.program("m.ail", "say hi")
	outside := filepath.Join(t.TempDir(), "out.ail")
	must(t, os.WriteFile(outside, []byte(ailangtest.Program("out.ail", "", "say out")), 0o644))
	must(t, os.Symlink(outside, filepath.Join(r.tree, "link.ail")))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(r.tree, "dir")))
	must(t, os.Symlink("m.ail", filepath.Join(r.tree, "in.ail")))
	must(t, os.Symlink("loop.ail", filepath.Join(r.tree, "loop.ail")))
	must(t, os.Mkdir(filepath.Join(r.tree, "d.ail"), 0o755))
	must(t, unix.Mkfifo(filepath.Join(r.tree, "fifo.ail"), 0o644))
	r.put("n.txt", "x")
	const shape = `refused: it must be relative and non-empty, with no ".." segment and no leading "-"`
	cases := []struct{ path, why string }{
		{"", shape}, {"-x.ail", shape}, {"--caps=Net", shape}, {"/etc/passwd", shape}, {outside, shape}, {"..", shape}, {"../x.ail", shape}, {"a/../../x.ail", shape},
		{"m.ail/..", shape}, {"m\x00.ail", "holds characters that do not print"}, {"m\n.ail", "holds characters that do not print"}, {"a\x1b[2J.ail", "holds characters that do not print"},
		{"link.ail", "escapes the worktree"}, {"dir/out.ail", "escapes the worktree"}, {"loop.ail", "cannot be opened"}, {"none.ail", "does not exist"}, {"d.ail", "is not a regular file"},
		{"fifo.ail", "is not a regular file"}, {"n.txt", "is no AILANG source: its name must end in .ail"}, {strings.Repeat("a/", 3000) + "m.ail", "is too long: 6005 bytes, at most 4096"},
	}
	tried := 0
	for _, c := range cases {
		for effect, payload := range map[string]obj{EffectCheck: {"path": c.path}, EffectRun: {"path": c.path, "caps": []string{"FS"}}, EffectCLI: {"operation": "iface", "path": c.path}} {
			if effect == EffectCLI && c.path == "" {
				continue
			}
			got := r.call(effect, payload)
			if text, _ := got["refused"].(string); got["ok"] != false || !strings.Contains(text, c.why) || len(text) > 1000 {
				t.Errorf("%s %.100q: %v", effect, c.path, got)
			}
			tried++
		}
	}
	t.Logf("%d tried, 0 escaped", tried)
	if got := r.call(EffectRun, obj{"path": "in.ail"}); strings.Contains(fmt.Sprint(got["refused"]), "path") {
		t.Errorf("a link that stays inside: %v", got)
	}
}

// TestRunIsBounded: the bounds hold whatever a plan let through.
func TestRunIsBounded(t *testing.T) {
	r := newRig(t, nil)
	r.program("m.ail", "say hi")
	for text, more := range map[string]obj{
		"stdin has 65537 bytes; at most 65536":                               {"stdin": strings.Repeat("x", MaxStdin+1)},
		"args_json has 65537 bytes; at most 65536":                           {"args_json": strings.Repeat("1", MaxArgsJSON+1)},
		"args_json is not JSON":                                              {"args_json": "--caps"},
		"argv holds 33 arguments; at most 32":                                {"argv": make([]string, MaxArgv+1)},
		"argument 2 of argv is 1025 bytes long; at most 1024":                {"argv": []string{"", strings.Repeat("x", MaxArg+1)}},
		"argument 1 of argv holds a NUL":                                     {"argv": []string{"\x00"}},
		`caps: "IO,Net" is no name of a capability`:                          {"caps": []string{"IO,Net"}},
		`caps: "" is no name of a capability`:                                {"caps": []string{""}},
		`caps: "--quiet" is no name of a capability`:                         {"caps": []string{"--quiet"}},
		"capability Net cannot be given: there are Clock, Env, FS, IO, Rand": {"caps": []string{"Net"}},
		"capability IO is named twice":                                       {"caps": []string{"IO", "IO"}},
		"caps holds 6 names; there are Clock, Env, FS, IO, Rand":             {"caps": make([]string, 6)},
	} {
		more["path"] = "m.ail"
		r.refused(EffectRun, more, text)
	}
}

// TestSearchIsBounded likewise.
func TestSearchIsBounded(t *testing.T) {
	r := newRig(t, nil)
	for _, op := range []string{"builtins", "examples"} {
		for text, more := range map[string]obj{
			"query has 257 bytes; at most 256":                           {"query": strings.Repeat("x", MaxQuery+1)},
			"query is empty: name one or more words that all must occur": {"query": " \t\n"},
			"query has 17 words; at most 16":                             {"query": strings.Repeat("x ", MaxWords+1)},
		} {
			more["op"] = op
			r.refused(EffectDiscover, more, text)
		}
	}
	r.refused(EffectDiscover, obj{"op": "builtins", "query": "x", "limit": MaxLimit + 1}, "limit is 501; at most 500")
}

// bare runs the stand-in outside any sandbox: the control of what is tried inside.
func (r *rig) bare(path string) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), broker.HandlerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, standin, "run", "--quiet", "--caps", "", "--entry", "main", path)
	cmd.Dir = r.tree
	return cmd.Run()
}

// TestToolchainIsConfined: a toolchain that heeds no capability, as one that a program has
// broken out of, reaches nothing but the worktree; each of these succeeds without the
// sandbox.
func TestToolchainIsConfined(t *testing.T) {
	r := newRig(t, nil)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o644))
	other := filepath.Join(r.h.root, "other")
	must(t, os.Mkdir(other, 0o755))
	must(t, os.WriteFile(filepath.Join(other, "secret"), []byte("secret"), 0o644))
	must(t, os.WriteFile(filepath.Join(filepath.Dir(r.cfg.Archive), "world.db"), []byte("secret"), 0o644))
	must(t, os.Link(secret, filepath.Join(t.TempDir(), "x"))) // outside links do not matter
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer tcp.Close()
	sock, err := net.Listen("unix", filepath.Join(r.tree, "sock"))
	must(t, err)
	defer sock.Close()
	abstract, err := net.Listen("unix", "@"+filepath.Base(t.TempDir())+fmt.Sprint(os.Getpid()))
	must(t, err)
	defer abstract.Close()
	must(t, os.Symlink(secret, filepath.Join(r.tree, "out")))
	for name, statement := range map[string]string{
		"file":            "read " + secret,
		"link":            "read out",
		"other worktree":  "read ../other/secret",
		"store":           "read " + filepath.Join(filepath.Dir(r.cfg.Archive), "world.db"),
		"archive":         "read " + filepath.Join(r.cfg.Archive, r.h.ref.Hex()),
		"root of parent":  fmt.Sprintf("read /proc/%d/root%s", os.Getpid(), secret),
		"environment":     fmt.Sprintf("read /proc/%d/environ", os.Getpid()),
		"write outside":   "force " + secret + ".new",
		"write worktree":  "force new",
		"write git":       "force .git",
		"loopback":        "dial tcp " + tcp.Addr().String(),
		"socket in tree":  "dial unix sock",
		"abstract socket": "dial unix " + abstract.Addr().String(),
	} {
		path := strings.ReplaceAll(name, " ", "_") + ".ail"
		r.program(path, statement)
		// Only FS shows the worktree so that it can be changed, and even then nothing else.
		for _, given := range [][]string{{}, {"FS"}} {
			if len(given) > 0 && strings.HasPrefix(name, "write ") && name != "write outside" {
				continue
			}
			if got := r.call(EffectRun, obj{"path": path, "caps": given}); got["ok"] != false || got["exit_code"] != 1.0 {
				t.Errorf("%s with %v: it is reached: %v", name, given, got)
			}
		}
		if err := r.bare(path); err != nil {
			t.Errorf("%s: the control cannot be done outside: %v", name, err)
		}
	}
}

// TestNothingOutlivesARun: what a program starts ends with the call, and a bomb of processes
// ends within its bounds.
func TestNothingOutlivesARun(t *testing.T) {
	r := newRig(t, nil)
	token := "orphan" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	r.program("l.ail", "leave "+token)
	r.program("g.ail", "grow")
	r.program("m.ail", "take 4096")
	if got := r.call(EffectRun, obj{"path": "l.ail"}); got["ok"] != true {
		t.Errorf("%v", got)
	}
	if got := r.call(EffectRun, obj{"path": "m.ail"}); got["ok"] != false || got["limit"] != "memory" {
		t.Errorf("memory: %.300v", got)
	}
	// Without control groups the bomb is told that there are no more, and ends by itself.
	if got := r.call(EffectRun, obj{"path": "g.ail"}); got["ok"] != false || got["limit"] != "processes" && !strings.Contains(got["stderr"].(string), "resource temporarily unavailable") {
		t.Errorf("processes: %.300v", got)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, l := range lines {
		if text, err := os.ReadFile(l); err == nil && (strings.Contains(string(text), token) || strings.Contains(string(text), "orphan\x00grown")) {
			t.Errorf("%s lives on: %q", l, text)
		}
	}
}

// TestEndOfCallAndDaemon: the end of a call, and of the handler, ends what runs.
func TestEndOfCallAndDaemon(t *testing.T) {
	r := newRig(t, nil)
	r.program("s.ail", "sleep")
	perform := func(ctx context.Context) error {
		_, err := r.h.Perform(ctx, broker.Request{Episode: episode, Need: world.Need{Effect: EffectRun, Scope: Scope}, Payload: []byte(`{"path":"s.ail"}`)})
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := perform(ctx); world.KindOf(err) != world.KindCanceled {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), callMargin)
	defer cancel()
	if err := perform(ctx); world.KindOf(err) != world.KindDeadline || !strings.Contains(world.Message(err), "nothing was run") {
		t.Errorf("%v", err)
	}
	ended, running := make(chan error), make(chan struct{})
	r.h.running = func() { close(running) }
	go func() { ended <- perform(t.Context()) }()
	<-running
	must(t, r.h.Close(t.Context()))
	if err := <-ended; world.KindOf(err) != world.KindCanceled {
		t.Errorf("%v", err)
	}
	if err := perform(t.Context()); world.KindOf(err) != world.KindCanceled {
		t.Errorf("after the end: %v", err)
	}
}
