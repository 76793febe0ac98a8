package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ailang.dev/world/host/worldtest"
)

// TestFirstGovernedCall is the product's main job in one piece: an agent reads and edits a
// real worktree, is refused what its grants do not cover, and every one of these calls is
// an entry that REST reads back.
func TestFirstGovernedCall(t *testing.T) {
	w := worldtest.Start(t, worldtest.Options{})
	tree := w.Worktree("ep1", map[string]string{"hello.txt": "hello, world\n", "src/a.go": "package a\n"})
	agent := &actor{t, w, w.Mint("ep1", worldtest.Coding(3)...)}

	read := agent.send("read-1", "workspace-read", map[string]any{"path": "hello.txt"})
	if out := read.output(t); out["content"] != "hello, world\n" || out["ok"] != true {
		t.Fatalf("read: %v", out)
	}
	if read.Result.Metadata.EntryIndex != 1 || read.Result.Metadata.InvocationID != "a2a:ep1:read-1" {
		t.Fatalf("%+v", read.Result.Metadata)
	}
	edit := agent.send("edit-1", "workspace-edit", map[string]any{"path": "hello.txt", "old_text": "world", "new_text": "World"})
	if out := edit.output(t); out["ok"] != true {
		t.Fatalf("edit: %v", out)
	}
	if b, err := os.ReadFile(filepath.Join(tree, "hello.txt")); err != nil || string(b) != "hello, World\n" {
		t.Fatalf("on disk: %q, %v", b, err)
	}
	if out := agent.send("bad-1", "workspace-read", map[string]any{"path": "../x"}).output(t); out["ok"] != false {
		t.Fatalf("a path that leads out: %v", out)
	}
	reader := &actor{t, w, w.Mint("ep1", "Workspace.Read=worktree:9")}
	if tk := reader.send("w-1", "workspace-write", map[string]any{"path": "x", "content": "y"}); tk.Error == nil || tk.Error.Message != "not authorized" {
		t.Fatalf("a write without a grant: %+v", tk)
	}
	for i := range 3 {
		agent.send("spend-"+string(rune('a'+i)), "workspace-read", map[string]any{"path": "hello.txt"})
	}
	out := agent.send("spent", "workspace-read", map[string]any{"path": "hello.txt"}).output(t)
	if out["refused"] != "denied:budget" {
		t.Fatalf("past the budget: %v", out)
	}
	resp, text := agent.do(http.MethodGet, "/v1/log?from=1&limit=3", nil)
	if resp.StatusCode != 200 || strings.Count(string(text), `"writtenBy":"coordinator:a2a"`) != 3 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
}
