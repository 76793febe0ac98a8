package setools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/packs/packtest"
)

func TestMain(m *testing.M) { packtest.Main(m) }

const check, run, discover, cli = "Ailang.Check", "Ailang.Run", "Ailang.Discover", "Ailang.CLI"

func TestAilangPlans(t *testing.T) {
	b := packtest.New(t, "se-tools")
	for _, c := range []struct{ id, args, effect, payload string }{
		{"ailang-check", `{"path":"a.ail"}`, check, `{"path":"a.ail"}`},
		{"ailang-run", `{"path":"a.ail"}`, run, `{"path":"a.ail"}`},
		{"ailang-run", `{"path":"a.ail","args_json":"","stdin":"","argv":[],"caps":[]}`, run, `{"args_json":"","argv":[],"caps":[],"path":"a.ail","stdin":""}`},
		{"ailang-run", `{"path":"a.ail","args_json":"{}","stdin":"x","argv":["-a","b c"],"caps":["IO","FS"]}`, run,
			`{"args_json":"{}","argv":["-a","b c"],"caps":["IO","FS"],"path":"a.ail","stdin":"x"}`},
		{"builtins-search", `{"query":"str len"}`, discover, `{"op":"builtins","query":"str len"}`},
		{"builtins-search", `{"query":"x","limit":500}`, discover, `{"limit":500,"op":"builtins","query":"x"}`},
		{"examples-search", `{"query":"x","limit":20}`, discover, `{"limit":20,"op":"examples","query":"x"}`},
		{"ailang-cli", `{"operation":"version"}`, cli, `{"operation":"version"}`},
		{"ailang-cli", `{"operation":"iface","path":"a.ail"}`, cli, `{"operation":"iface","path":"a.ail"}`},
	} {
		if got, want := b.Plan(c.id, c.args), packtest.Planned(c.effect, c.payload); got != want {
			t.Errorf("%s %s:\n got  %s\n want %s", c.id, c.args, got, want)
		}
		packtest.Must(t, packtest.Valid(b.Tool(c.id).In, c.args))
	}
}

func TestAilangBounds(t *testing.T) {
	b := packtest.New(t, "se-tools")
	type args = map[string]any
	long := strings.Repeat("x", 65537)
	argv := func(n int, arg string) (all []string) {
		for range n {
			all = append(all, arg)
		}
		return all
	}
	for _, c := range []struct {
		id      string
		args    args
		refused string
	}{
		{"ailang-run", args{"stdin": long}, "stdin has 65537 bytes; at most 65536"},
		{"ailang-run", args{"stdin": strings.Repeat("é", 32769)}, "stdin has 65538 bytes; at most 65536"},
		{"ailang-run", args{"args_json": long}, "args_json has 65537 bytes; at most 65536"},
		{"ailang-run", args{"argv": argv(33, "a")}, "argv holds 33 arguments; at most 32"},
		{"ailang-run", args{"argv": []string{"a", long[:1025]}}, "argument 2 of argv is 1025 bytes long; at most 1024"},
		{"ailang-run", args{"argv": []string{"a\x00b"}}, "argument 1 of argv holds a NUL"},
		{"ailang-run", args{"argv": []any{"a", 1}}, `argument "argv" must be a list of strings`},
		{"ailang-run", args{"caps": []any{1}}, `argument "caps" must be a list of strings`},
		{"ailang-run", args{"caps": []string{"Net"}}, `capability "Net" cannot be given: there are Clock, Env, FS, IO, Rand`},
		{"ailang-run", args{"caps": []string{"IO,Net"}}, `capability "IO,Net" cannot be given: there are Clock, Env, FS, IO, Rand`},
		{"ailang-run", args{"caps": []string{""}}, `capability "" cannot be given: there are Clock, Env, FS, IO, Rand`},
		{"ailang-run", args{"caps": []string{"IO", "IO"}}, "capability IO is named twice"},
		{"builtins-search", args{"query": " \n"}, "query is empty: name one or more words that all must occur"},
		{"examples-search", args{"query": long[:257]}, "query has 257 bytes; at most 256"},
		{"examples-search", args{"query": strings.Repeat("a ", 17)}, "query has 17 words; at most 16"},
		{"builtins-search", args{"query": "a", "limit": 501}, `argument "limit" must be from 1 to 500`},
		{"examples-search", args{"query": "a", "limit": 0}, `argument "limit" must be from 1 to 20`},
		{"ailang-cli", args{"operation": "run"}, `there is no operation "run"; there are: builtins, doctor, help, iface, prompt, version`},
		{"ailang-cli", args{"operation": "--help"}, `there is no operation "--help"; there are: builtins, doctor, help, iface, prompt, version`},
		{"ailang-cli", args{"operation": "iface"}, "operation iface needs the path of a source"},
		{"ailang-cli", args{"operation": "version", "path": "a.ail"}, "operation version takes no path"},
	} {
		if c.id == "ailang-run" {
			c.args["path"] = "a.ail"
		}
		if got := b.Plan(c.id, string(hashref.MustMarshal(c.args))); got != packtest.Refusal(c.refused) {
			t.Errorf("%s: got %.300s, want %s", c.id, got, c.refused)
		}
	}
	// The most that is allowed, in the dearest spelling, fits a plan.
	dear := strings.Repeat("\x01", 65536)
	most := args{"path": strings.Repeat("p/", 2000) + "a.ail", "stdin": dear, "args_json": dear, "argv": argv(32, dear[:1024]), "caps": []string{"Clock", "Env", "FS", "IO", "Rand"}}
	if got := b.Plan("ailang-run", string(hashref.MustMarshal(most))); !strings.Contains(got, `"effect":"Ailang.Run"`) || len(got) > 1<<20 {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}

func TestAilangOnRealFiles(t *testing.T) {
	standin, err := ailangtest.Build(t.TempDir())
	packtest.Must(t, err)
	examples := t.TempDir()
	packtest.Must(t, os.WriteFile(filepath.Join(examples, "hello.ail"), []byte("module hello\n"), 0o644))
	b := packtest.New(t, "se-tools")
	b.ServeAilang(standin, examples)
	b.Put("m.ail", ailangtest.Program("m.ail", "json", "echo"))
	b.Put("bad.ail", ailangtest.Program("bad.ail", "", "nonsense"))
	b.Put("w.ail", ailangtest.Program("w.ail", "", "force .github"))
	ran := func(code float64, stdout, stderr string) map[string]any {
		return map[string]any{"ok": code == 0, "exit_code": code, "signal": "", "stdout": stdout, "stderr": stderr, "truncated": false, "limit": ""}
	}
	removed := ran(0, ".github\n", "")
	removed["removed"] = []any{".github"}
	for _, c := range []struct {
		id, args string
		want     map[string]any
	}{
		{"ailang-check", `{"path":"m.ail"}`, ran(0, "", "")},
		{"ailang-check", `{"path":"bad.ail"}`, ran(1, "", "Error: bad.ail:4:3: undefined name \"nonsense\"\n")},
		{"ailang-check", `{"path":"none.ail"}`, map[string]any{"ok": false, "refused": `path "none.ail" does not exist`}},
		{"ailang-run", `{"path":"m.ail","args_json":"{\"n\":3}","caps":["IO"]}`, ran(0, "{\"n\":3}\n", "")},
		{"ailang-run", `{"path":"m.ail","args_json":"{"}`, map[string]any{"ok": false, "refused": "args_json is not JSON"}},
		{"ailang-run", `{"path":"w.ail","caps":["FS"]}`, removed},
		{"builtins-search", `{"query":"slice"}`, map[string]any{"ok": true, "builtins": []any{"_str_slice : (string, int, int) -> string"}, "total": 1.0, "truncated": false}},
		{"examples-search", `{"query":"hello"}`, map[string]any{"ok": true, "total": 1.0, "truncated": false,
			"examples": []any{map[string]any{"path": "hello.ail", "text": "module hello\n", "truncated": false}}}},
		{"ailang-cli", `{"operation":"prompt"}`, ran(0, "How to write AILANG.\n", "")},
	} {
		got := b.Call(c.id, c.args)
		delete(got, "duration_ms")
		delete(got, "cpu_ms")
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.id, c.args, d)
		}
	}
}
