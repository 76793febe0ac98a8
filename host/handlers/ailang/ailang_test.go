package ailang

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/archive"
	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

const (
	episode = "ep"
	verb    = "sandbox-init"
)

// standin is a program that speaks the toolchain's command line.
var standin string

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == verb {
		if err := sandbox.Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			leave(1)
		}
		leave(0)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "standin-")
		if err == nil {
			defer os.RemoveAll(dir)
			standin, err = ailangtest.Build(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type obj = map[string]any

// rig is a handler over one worktree.
type rig struct {
	t    *testing.T
	h    *Handler
	cfg  Config
	tree string
}

func config(t *testing.T, binary string) Config {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	top := t.TempDir()
	c := Config{Root: filepath.Join(top, "ws"), Archive: filepath.Join(top, "store", "tools"), Binary: binary, Hide: []string{filepath.Join(top, "store")},
		Sandbox: sandbox.New(sandbox.Config{Command: []string{exe, verb}, Logf: t.Logf}), Slots: capsule.NewSlots(2), Logf: t.Logf}
	must(t, os.MkdirAll(filepath.Join(c.Root, episode), 0o755))
	return c
}

func newRig(t *testing.T, change func(c *Config)) *rig {
	t.Helper()
	c := config(t, standin)
	if change != nil {
		change(&c)
	}
	h, err := New(t.Context(), c)
	must(t, err)
	t.Cleanup(func() { must(t, h.Close(context.Background())) })
	return &rig{t: t, h: h, cfg: c, tree: filepath.Join(h.root, episode)}
}

// faulty is a rig over a release with a fault.
func faulty(t *testing.T, fault string) *rig {
	t.Helper()
	return newRig(t, func(c *Config) { c.Binary = ailangtest.Release(t, standin, "v1", fault) })
}

func (r *rig) put(name, text string) {
	r.t.Helper()
	at := filepath.Join(r.tree, name)
	must(r.t, os.MkdirAll(filepath.Dir(at), 0o755))
	must(r.t, os.WriteFile(at, []byte(text), 0o644))
}

// program puts a source whose main takes nothing and is one statement.
func (r *rig) program(path, statement string) {
	r.t.Helper()
	r.put(path, ailangtest.Program(path, "", statement))
}

func (r *rig) raw(ctx context.Context, effect string, payload any) ([]byte, error) {
	r.t.Helper()
	must(r.t, r.h.Ready(ctx, episode, effect, Scope))
	ctx, cancel := context.WithTimeout(ctx, broker.HandlerTimeout)
	defer cancel()
	return r.h.Perform(ctx, broker.Request{Episode: episode, EffectID: "e1", Payload: hashref.MustMarshal(payload), Need: world.Need{Effect: effect, Scope: Scope, Cost: 1}})
}

// call performs an effect and gives its answer without what every one has.
func (r *rig) call(effect string, payload any) obj {
	r.t.Helper()
	out, err := r.raw(r.t.Context(), effect, payload)
	if err != nil {
		r.t.Fatalf("%s %v: %v", effect, payload, err)
	}
	if again, err := hashref.Canonical(out); err != nil || string(again) != string(out) {
		r.t.Fatalf("answer is not canonical (%v): %.300s", err, out)
	}
	var v obj
	must(r.t, json.Unmarshal(out, &v))
	known := map[string]bool{}
	for _, o := range r.h.Objects() {
		known[o.Hash.String()], known[o.Hash.Hex()] = true, true
	}
	for _, key := range []string{"tool", "policy_digest"} {
		if s, _ := v[key].(string); !known[s] {
			r.t.Errorf("%s is no object of the handler: %.300s", key, out)
		}
		delete(v, key)
	}
	for _, key := range []string{"duration_ms", "cpu_ms"} {
		if n, ok := v[key].(float64); ok && n >= 0 {
			delete(v, key)
		}
	}
	return v
}

func (r *rig) want(effect string, payload, want obj) {
	r.t.Helper()
	if d := cmp.Diff(want, r.call(effect, payload)); d != "" {
		r.t.Errorf("%s %.300v (-want +got):\n%s", effect, payload, d)
	}
}

// refused demands a refusal.
func (r *rig) refused(effect string, payload obj, text string) {
	r.t.Helper()
	r.want(effect, payload, obj{"ok": false, "refused": text})
}

// ran is the answer of a run, with what differs from a silent end.
func ran(members obj) obj {
	all := obj{"ok": true, "exit_code": 0.0, "signal": "", "stdout": "", "stderr": "", "truncated": false, "limit": ""}
	for k, v := range members {
		all[k] = v
	}
	return all
}

// failed is the answer of a run that ended with code 1 and this on stderr.
func failed(stderr string) obj {
	return ran(obj{"ok": false, "exit_code": 1.0, "stderr": "Error: " + stderr + "\n"})
}

func TestCheck(t *testing.T) {
	r := newRig(t, nil)
	r.program("src/main.ail", "say hi")
	r.program("bad.ail", "nonsense")
	r.want(EffectCheck, obj{"path": "src/main.ail"}, ran(nil))
	r.want(EffectCheck, obj{"path": "bad.ail"}, failed(`bad.ail:4:3: undefined name "nonsense"`))
}

func TestRun(t *testing.T) {
	r := newRig(t, nil)
	r.program("src/main.ail", "say hi")
	r.put("j.ail", ailangtest.Program("j.ail", "json", "echo"))
	r.put("s.ail", ailangtest.Program("s.ail", "string", "echo"))
	r.program("fail.ail", "fail on purpose")
	r.want(EffectRun, obj{"path": "src/main.ail"}, ran(obj{"stdout": "hi\n"}))
	r.want(EffectRun, obj{"path": "j.ail", "args_json": ` {"a":[1, 2]}`}, ran(obj{"stdout": " {\"a\":[1, 2]}\n"}))
	r.want(EffectRun, obj{"path": "s.ail", "args_json": `"é\n"`}, ran(obj{"stdout": "é\n\n"}))
	r.want(EffectRun, obj{"path": "fail.ail"}, failed("fail: on purpose"))
	r.want(EffectRun, obj{"path": "src/main.ail", "args_json": "1"}, failed("main takes no argument"))
}

// TestRunIsGiven: what a program is given arrives byte for byte, nothing of the daemon does,
// and flags among its arguments are its own.
func TestRunIsGiven(t *testing.T) {
	t.Setenv("SECRET", "x")
	r := newRig(t, nil)
	r.program("t.ail", "tell")
	stdin := "one\n\x00two\n" + strings.Repeat("é", 100)
	argv := []string{"", "--caps", "Net", "-x", "--", "a b\nc", "é", "../..", "$(id)"}
	got := r.call(EffectRun, obj{"path": "t.ail", "stdin": stdin, "argv": argv, "caps": []string{"IO", "Clock"}})
	var told struct {
		Input, Stdin, Dir string
		Caps, Argv, Env   []string
	}
	must(t, json.Unmarshal([]byte(got["stdout"].(string)), &told))
	want := told
	want.Input, want.Stdin, want.Dir, want.Caps, want.Argv, want.Env = "", stdin, r.tree, []string{"Clock", "IO"}, argv, environment()
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	most := obj{"path": "t.ail", "stdin": strings.Repeat("x", MaxStdin), "argv": []string{}}
	for range MaxArgv {
		most["argv"] = append(most["argv"].([]string), strings.Repeat("y", MaxArg))
	}
	if got := r.call(EffectRun, most); got["ok"] != true || got["truncated"] != true {
		t.Errorf("the most that is allowed: %.300v", got)
	}
}

// TestWorktreeIsReadOnly: nothing changes the worktree but a program that was given FS, and
// that not where the policy protects it.
func TestWorktreeIsReadOnly(t *testing.T) {
	r := newRig(t, nil)
	r.program("w.ail", "write out.txt")
	r.program("f.ail", "force out.txt")
	r.program("g.ail", "force .github")
	gone := func(name string) {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(r.tree, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	r.want(EffectRun, obj{"path": "w.ail"}, failed("write: effect FS needs a capability"))
	for _, given := range [][]string{{}, {"IO", "Env"}} {
		r.want(EffectRun, obj{"path": "f.ail", "caps": given}, failed("force: open out.txt: read-only file system"))
		gone("out.txt")
	}
	r.want(EffectRun, obj{"path": "w.ail", "caps": []string{"FS"}}, ran(obj{"stdout": "out.txt\n"}))
	if b, err := os.ReadFile(filepath.Join(r.tree, "out.txt")); err != nil || string(b) != "made" {
		t.Errorf("%q, %v", b, err)
	}
	r.want(EffectRun, obj{"path": "g.ail", "caps": []string{"FS"}}, ran(obj{"stdout": ".github\n", "removed": []any{".github"}}))
	gone(".github")
}

func TestBuiltins(t *testing.T) {
	r := newRig(t, nil)
	const length, slice = "_str_len : string -> int", "_str_slice : (string, int, int) -> string"
	found := func(total float64, truncated bool, lines ...any) obj {
		return obj{"ok": true, "builtins": append([]any{}, lines...), "total": total, "truncated": truncated}
	}
	search := func(query string) obj { return obj{"op": "builtins", "query": query} }
	r.want(EffectDiscover, search("_STR int"), found(2, false, length, slice))
	r.want(EffectDiscover, search("  slice\n"), found(1, false, slice))
	r.want(EffectDiscover, search("{io}"), found(1, false, "_io_print : string -> () ! {IO}"))
	r.want(EffectDiscover, search("nothing like it"), found(0, false))
	r.want(EffectDiscover, obj{"op": "builtins", "query": "STRING", "limit": 1}, found(4, true, "_io_print : string -> () ! {IO}"))
}

func TestExamples(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b/http.ail": "module b/http\n", "a.ail": "-- HTTP client\n", "long.ail": "-- long\n" + strings.Repeat("é", MaxExampleText),
		"note.md": "http", "bin.ail": "http \xff", "z.ail": "module z\n"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	must(t, os.Symlink("/etc", filepath.Join(dir, "etc")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "p.ail")))
	r := newRig(t, func(c *Config) { c.Examples = dir })
	must(t, os.RemoveAll(filepath.Join(dir, "b"))) // they are as they were at the start
	one := func(path, text string, cut bool) obj { return obj{"path": path, "text": text, "truncated": cut} }
	found := func(total float64, truncated bool, all ...any) obj {
		return obj{"ok": true, "examples": append([]any{}, all...), "total": total, "truncated": truncated}
	}
	search := func(query string) obj { return obj{"op": "examples", "query": query} }
	r.want(EffectDiscover, search("Http"), found(2, false, one("b/http.ail", "module b/http\n", false), one("a.ail", "-- HTTP client\n", false)))
	r.want(EffectDiscover, obj{"op": "examples", "query": "http", "limit": 1}, found(2, true, one("b/http.ail", "module b/http\n", false)))
	r.want(EffectDiscover, search("client http"), found(1, false, one("a.ail", "-- HTTP client\n", false)))
	r.want(EffectDiscover, search("long"), found(1, false, one("long.ail", "-- long\n"+strings.Repeat("é", MaxExampleText/2-4), true)))
	r.want(EffectDiscover, search("root"), found(0, false))
	r.refused(EffectDiscover, obj{"op": "examples", "query": "x", "limit": MaxExamples + 1}, "limit is 21; at most 20")
	none := newRig(t, nil)
	none.refused(EffectDiscover, search("x"), "this daemon has no examples: its operator names a folder of them with --examples-dir")
	if a, b := r.h.tool, none.h.tool; a == b {
		t.Error("the tool object does not name the examples")
	}
}

func TestExamplesThatCannotBeUsed(t *testing.T) {
	empty, many, large := t.TempDir(), t.TempDir(), t.TempDir()
	for i := range MaxExampleFiles + 1 {
		must(t, os.WriteFile(filepath.Join(many, fmt.Sprintf("%d.ail", i)), []byte("x"), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(large, "a.ail"), make([]byte, MaxExampleBytes), 0o644))
	must(t, os.WriteFile(filepath.Join(large, "b.ail"), []byte("x"), 0o644))
	for dir, text := range map[string]string{empty: "it holds no .ail file", many: "more than 2000 sources", large: "more than 16777216 bytes", "/none": "no such file or directory"} {
		c := config(t, standin)
		c.Examples = dir
		if _, err := New(t.Context(), c); world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCLI(t *testing.T) {
	r := newRig(t, nil)
	r.program("m.ail", "say hi")
	for _, c := range []struct {
		payload obj
		stdout  string
	}{
		{obj{"operation": "version"}, "AILANG v0.0.0-standin\nCommit: 0000000\n"},
		{obj{"operation": "help"}, "usage: ailang VERB\n"},
		{obj{"operation": "prompt"}, "How to write AILANG.\n"},
		{obj{"operation": "doctor"}, "all is well\n"},
		{obj{"operation": "iface", "path": "m.ail"}, "main : string -> string\n"},
	} {
		r.want(EffectCLI, c.payload, ran(obj{"stdout": c.stdout}))
	}
	if got := r.call(EffectCLI, obj{"operation": "builtins"}); got["ok"] != true || !strings.HasPrefix(got["stdout"].(string), "_str_len : ") {
		t.Errorf("%v", got)
	}
	const all = "builtins, doctor, help, iface, prompt, version"
	for payload, text := range map[string]string{
		`{"operation":"run"}`:                           `there is no operation "run"; there are: ` + all,
		`{"operation":"--version"}`:                     `there is no operation "--version"; there are: ` + all,
		`{"operation":"version\u0000"}`:                 `there is no operation "version\x00"; there are: ` + all,
		`{"operation":"version","path":"m.ail"}`:        "operation version takes no path",
		`{"operation":"iface"}`:                         "operation iface needs the path of a source",
		`{"operation":"iface","path":"../../x.ail"}`:    `path "../../x.ail" refused: it must be relative and non-empty, with no ".." segment and no leading "-"`,
		`{"operation":"iface","path":"--output=x.ail"}`: `path "--output=x.ail" refused: it must be relative and non-empty, with no ".." segment and no leading "-"`,
	} {
		r.refused(EffectCLI, obj(decoded(t, payload)), text)
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	must(t, json.Unmarshal([]byte(text), &v))
	return v
}

func TestReady(t *testing.T) {
	r := newRig(t, nil)
	must(t, os.Symlink(r.tree, filepath.Join(r.h.root, "linked")))
	for _, c := range []struct {
		episode, effect, scope string
		kind                   world.Kind
	}{
		{episode, EffectRun, "other", world.KindNoHandler}, {episode, "Ailang.Other", Scope, world.KindNoHandler},
		{"none", EffectRun, Scope, world.KindNotFound}, {"linked", EffectRun, Scope, world.KindNotFound}, {"../ep", EffectRun, Scope, world.KindNotFound},
	} {
		if err := r.h.Ready(t.Context(), c.episode, c.effect, c.scope); world.KindOf(err) != c.kind {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestToolchainThatChanged: what is not what was archived is not run, and the daemon knows it
// before anything is spent. The file that the operator named does not matter any more.
func TestToolchainThatChanged(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"gone":     os.Remove,
		"longer":   func(p string) error { return appendTo(p, "x") },
		"replaced": func(p string) error { return os.Rename(copyOf(t, "/bin/true"), p) },
		"a link":   func(p string) error { return firstOf(os.Remove(p), os.Symlink(standin, p)) },
	} {
		t.Run(name, func(t *testing.T) {
			named := ailangtest.Release(t, standin, "v1", "")
			r := newRig(t, func(c *Config) { c.Binary = named })
			r.program("m.ail", "say hi")
			must(t, os.Remove(named))
			r.want(EffectRun, obj{"path": "m.ail"}, ran(obj{"stdout": "hi\n"}))
			path := archive.Path(r.cfg.Archive, r.h.ref)
			must(t, os.Chmod(path, 0o700))
			must(t, change(path))
			for _, effect := range r.h.Effects() {
				err := r.h.Ready(t.Context(), episode, effect, Scope)
				if world.KindOf(err) != world.KindNoHandler || !strings.Contains(world.Message(err), "the archived AILANG toolchain is not what it was") {
					t.Errorf("%s: %v", effect, err)
				}
			}
			out, err := r.h.Perform(t.Context(), broker.Request{Episode: episode, Need: world.Need{Effect: EffectRun, Scope: Scope}, Payload: []byte(`{"path":"m.ail"}`)})
			if world.KindOf(err) != world.KindNoHandler || out != nil {
				t.Errorf("it ran: %s, %v", out, err)
			}
		})
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return firstOf(err, f.Close())
}

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func copyOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	to := filepath.Join(t.TempDir(), "copy")
	must(t, os.WriteFile(to, text, 0o755))
	return to
}

// TestNoToolchain: what is no toolchain is refused at the start, in words for the operator,
// and does not stay in the archive.
func TestNoToolchain(t *testing.T) {
	file := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "f")
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	for text, binary := range map[string]string{
		"no such file":                    "/none",
		"is a folder":                     t.TempDir(),
		"is empty":                        file("", 0o755),
		"is not executable":               file("x", 0o644),
		"is a script":                     file("#!/bin/sh\necho v1\n", 0o755),
		"exec format error":               file("no program", 0o755),
		"--version takes longer than 5s":  ailangtest.Release(t, standin, "v1", "version hangs"),
		"--version met the limit output":  ailangtest.Release(t, standin, "v1", "version floods"),
		"exit code 1: Error: no version ": ailangtest.Release(t, standin, "v1", "version fails"),
		"says nothing that is text":       ailangtest.Release(t, standin, "v1", "version says nothing"),
		"nothing that is text":            ailangtest.Release(t, standin, "v1", "version is no text"),
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c := config(t, binary)
			h, err := New(t.Context(), c)
			if h != nil || world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), text) || !strings.Contains(world.Message(err), binary) {
				t.Errorf("%v", err)
			}
			if left, err := os.ReadDir(c.Archive); err == nil && len(left) != 0 {
				t.Errorf("the archive holds %v", left)
			}
		})
	}
}

// TestToolsThatMisbehave: hanging, flooding, failing and nonsense are told, within their
// bounds.
func TestToolsThatMisbehave(t *testing.T) {
	killed := ran(obj{"ok": false, "exit_code": -1.0, "signal": "SIGKILL"})
	search := obj{"op": "builtins", "query": "str"}
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		r := faulty(t, "tool hangs")
		began := time.Now()
		killed := ran(killed)
		killed["limit"] = "timeout"
		r.want(EffectCLI, obj{"operation": "prompt"}, killed)
		if took := time.Since(began); took < MaxTime/2 {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("search hangs", func(t *testing.T) {
		t.Parallel()
		faulty(t, "tool hangs").refused(EffectDiscover, search, "the toolchain could not list its builtins: it met the limit timeout")
	})
	t.Run("floods", func(t *testing.T) {
		t.Parallel()
		r := faulty(t, "tool floods")
		got := r.call(EffectCLI, obj{"operation": "prompt"})
		if out := got["stdout"].(string); got["limit"] != "output" || got["truncated"] != true || len(out) < MaxKeep || len(out) > MaxKeep+100 || !strings.Contains(out, "bytes left out") {
			t.Errorf("%d bytes: %.300v", len(out), got)
		}
		r.refused(EffectDiscover, search, "the toolchain could not list its builtins: it met the limit output")
	})
	t.Run("fails", func(t *testing.T) {
		t.Parallel()
		r := faulty(t, "tool fails")
		r.want(EffectCLI, obj{"operation": "doctor"}, failed("no such luck"))
		r.refused(EffectDiscover, search, "the toolchain could not list its builtins: exit code 1: Error: no such luck")
	})
	t.Run("says much", func(t *testing.T) {
		t.Parallel()
		got := faulty(t, "tool says much").call(EffectDiscover, obj{"op": "builtins", "query": "_many_", "limit": MaxLimit})
		lines := got["builtins"].([]any)
		total := int(got["total"].(float64))
		if len(lines) != MaxLimit || got["truncated"] != true || total < 4000 || total > 20_000 {
			t.Errorf("%d of %d lines, truncated %v", len(lines), total, got["truncated"])
		}
		for i, l := range lines { // those that the cut went through are not among them
			if want := fmt.Sprintf("_many_%05d : %s", i, strings.TrimRight(strings.Repeat("string -> ", 8), " ")); l != want {
				t.Fatalf("%q, want %q", l, want)
			}
		}
	})
	t.Run("says nothing", func(t *testing.T) {
		t.Parallel()
		faulty(t, "tool says nothing").refused(EffectDiscover, search, "the toolchain lists no builtins")
	})
	t.Run("says no text", func(t *testing.T) {
		t.Parallel()
		faulty(t, "tool says no text").want(EffectDiscover, search, obj{"ok": true, "total": 2.0, "truncated": false, "builtins": []any{"_str\ufffd_bad", "\ufffd\ufffd[31m_str_red"}})
	})
	t.Run("run says nonsense", func(t *testing.T) {
		t.Parallel()
		r := faulty(t, "run says nonsense")
		r.program("m.ail", "say hi")
		r.want(EffectRun, obj{"path": "m.ail"}, ran(obj{"stdout": "=> done in 3 ms\n"}))
	})
}

// TestPayloadContract: what a plan of ours never sends is an error, not an answer.
func TestPayloadContract(t *testing.T) {
	r := newRig(t, nil)
	for _, c := range []struct{ effect, payload string }{
		{EffectCheck, `{}`}, {EffectCheck, `{"path":null}`}, {EffectCheck, `{"path":1}`}, {EffectCheck, `{"path":"a.ail","x":1}`},
		{EffectRun, `{"argv":[]}`}, {EffectRun, `{"path":"a.ail","argv":"x"}`}, {EffectRun, `{"path":"a.ail","args_json":{}}`}, {EffectRun, `{"path":"a.ail","caps":[1]}`},
		{EffectDiscover, `{"query":"x"}`}, {EffectDiscover, `{"op":"builtins"}`}, {EffectDiscover, `{"op":"other","query":"x"}`}, {EffectDiscover, `{"op":"builtins","query":"x","limit":0}`},
		{EffectCLI, `{"path":"x.ail"}`}, {EffectCLI, `[]`},
	} {
		_, err := r.h.Perform(t.Context(), broker.Request{Episode: episode, Need: world.Need{Effect: c.effect, Scope: Scope}, Payload: []byte(c.payload)})
		if world.KindOf(err) != world.KindBadRequest || !strings.HasPrefix(world.Message(err), "ailang payload: ") {
			t.Errorf("%s %s: %v", c.effect, c.payload, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.h.Perform(ctx, broker.Request{Episode: episode, Need: world.Need{Effect: EffectCLI, Scope: Scope}, Payload: []byte(`{"operation":"help"}`)}); world.KindOf(err) != world.KindCanceled {
		t.Errorf("%v", err)
	}
}

// TestHostThatCannotConfineTheToolchain: nothing is run that cannot be confined, not even to
// ask for its version.
func TestHostThatCannotConfineTheToolchain(t *testing.T) {
	c := config(t, standin)
	c.Sandbox = sandbox.New(sandbox.Config{Command: []string{"/bin/false"}, Logf: t.Logf})
	h, err := New(t.Context(), c)
	if h != nil || world.KindOf(err) != world.KindNoHandler || !strings.Contains(world.Message(err), "this host cannot confine the AILANG toolchain") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(c.Archive); err == nil {
		t.Errorf("the archive holds %v", left)
	}
}
