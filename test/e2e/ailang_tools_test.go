package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/worldtest"
)

// TestAilangTools: every tool of the toolchain over /mcp/ by a stock client, and what R8
// says of a daemon whose toolchain is gone or was never there.
func TestAilangTools(t *testing.T) {
	standin, err := ailangtest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	examples := t.TempDir()
	if err := os.WriteFile(filepath.Join(examples, "hello.ail"), []byte("module hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := worldtest.Start(t, worldtest.Options{ToolAilangBin: standin, ExamplesDir: examples, SandboxCommand: []string{exe, sandboxVerb}})
	w.Worktree("ep1", map[string]string{"src/m.ail": ailangtest.Program("src/m.ail", "json", "echo"), "bad.ail": ailangtest.Program("bad.ail", "", "nonsense")})
	var grants []string
	for _, e := range []string{"Check", "Run", "Discover", "CLI"} {
		grants = append(grants, "Ailang."+e+"=worktree:3")
	}
	token := w.Mint("ep1", grants...)
	s := connect(t, w, token)
	ctx := context.Background()
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if d := cmp.Diff([]string{"ailang-check", "ailang-cli", "ailang-run", "builtins-search", "examples-search"}, names); d != "" {
		t.Fatal(d)
	}
	call := func(name string, args map[string]any) map[string]any {
		t.Helper()
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, ok := res.StructuredContent.(map[string]any)
		if !ok || out["world"] == nil {
			t.Fatalf("%s: %+v", name, res)
		}
		return out
	}
	tool := ""
	for _, c := range []struct {
		name string
		args map[string]any
		want map[string]any
	}{
		{"ailang-check", map[string]any{"path": "src/m.ail"}, map[string]any{"ok": true, "exit_code": 0.0}},
		{"ailang-check", map[string]any{"path": "bad.ail"}, map[string]any{"ok": false, "stderr": "Error: bad.ail:4:3: undefined name \"nonsense\"\n"}},
		{"ailang-run", map[string]any{"path": "src/m.ail", "args_json": `{"n":3}`, "caps": []string{"IO"}}, map[string]any{"ok": true, "stdout": "{\"n\":3}\n"}},
		{"builtins-search", map[string]any{"query": "slice"}, map[string]any{"ok": true, "builtins": []any{"_str_slice : (string, int, int) -> string"}}},
		{"examples-search", map[string]any{"query": "hello"}, map[string]any{"ok": true, "total": 1.0}},
		{"ailang-cli", map[string]any{"operation": "version"}, map[string]any{"ok": true, "stdout": "AILANG v0.0.0-standin\nCommit: 0000000\n"}},
	} {
		out := call(c.name, c.args)
		for k, v := range c.want {
			if d := cmp.Diff(v, out[k]); d != "" {
				t.Errorf("%s: %s: %s", c.name, k, d)
			}
		}
		if tool == "" {
			tool, _ = out["tool"].(string)
		}
		if out["tool"] != tool {
			t.Errorf("%s: done by %v, not %s", c.name, out["tool"], tool)
		}
	}
	ref, err := hashref.Parse(tool)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := w.Core.Store.Object(ctx, ref); err != nil || !strings.Contains(string(o.Payload), `"version":"AILANG v0.0.0-standin`) {
		t.Errorf("%s, %v", o.Payload, err)
	}
	// A refusal of the plan spends nothing; four checks are one more than the budget.
	if out := call("ailang-check", map[string]any{"path": "/etc/passwd"}); out["ok"] != false || len(out["world"].(map[string]any)["effects"].([]any)) != 0 {
		t.Errorf("%v", out)
	}
	call("ailang-check", map[string]any{"path": "src/m.ail"})
	if out := call("ailang-check", map[string]any{"path": "src/m.ail"}); out["refused"] != "denied:budget" {
		t.Errorf("%v", out)
	}
	head, err := w.Core.Store.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(cause string) {
		t.Helper()
		a := &actor{t, w, token}
		for _, skill := range []string{"ailang-run", "builtins-search"} {
			args := map[string]any{"path": "src/m.ail"}
			if skill != "ailang-run" {
				args = map[string]any{"query": "x"}
			}
			if tk := a.send("t-"+skill, skill, args); tk.Error == nil || tk.Error.Code != -32603 || tk.Error.Message != "transition declares an effect this daemon has no handler for" {
				t.Errorf("%s: %+v", skill, tk)
			}
		}
		if !strings.Contains(w.Stderr(), cause) {
			t.Errorf("the cause is not told:\n%s", w.Stderr())
		}
		if now, err := w.Core.Store.Head(ctx); err != nil || now.Next != head.Next {
			t.Errorf("something was committed: %+v, %v", now, err)
		}
	}
	kept, err := filepath.Glob(w.DB + ".archive/tools/*")
	if err != nil || len(kept) != 2 {
		t.Fatalf("%v, %v", kept, err)
	}
	for _, path := range kept {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	refused("the archived AILANG toolchain is not what it was")
	w.RestartWithoutTools()
	refused("Ailang.Run in episode ep1: no handler of this daemon performs it")
}
