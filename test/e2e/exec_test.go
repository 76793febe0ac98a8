package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// sandboxVerb is what this test binary is started with to be process 1 of a sandbox.
const sandboxVerb = "sandbox-init"

// A client of the official SDK runs a declared command, which changes the worktree and
// nothing that the policy protects; every call is an entry that names the policy.
func TestCommandsThroughTheGoSDK(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.New(policy.Config{Rules: policy.Rules{Deny: []string{"*.pem"}}})
	if err != nil {
		t.Fatal(err)
	}
	w := worldtest.Start(t, worldtest.Options{SandboxCommand: []string{exe, sandboxVerb}, Policy: set, Profiles: []exec.Profile{
		{Name: "copy", Argv: []string{"cp"}, Args: exec.Args{Max: 2, Pattern: `[a-z]+\.(txt|pem)`}},
	}})
	tree := w.Worktree("ep1", map[string]string{"a.txt": "hello\n"})
	s := connect(t, w, w.Mint("ep1", "Workspace.Exec=worktree:10"))
	call := func(name string, args map[string]any) map[string]any {
		t.Helper()
		res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, ok := res.StructuredContent.(map[string]any)
		if !ok || out["world"] == nil {
			t.Fatalf("%s: %+v", name, res)
		}
		return out
	}
	out := call("workspace-exec", map[string]any{"profile": "copy", "args": []string{"a.txt", "b.txt"}})
	if text, err := os.ReadFile(filepath.Join(tree, "b.txt")); out["ok"] != true || out["exit_code"] != 0.0 || err != nil || string(text) != "hello\n" {
		t.Errorf("%v: %q %v", out, text, err)
	}
	out = call("workspace-exec", map[string]any{"profile": "copy", "args": []string{"a.txt", "key.pem"}})
	if _, err := os.Lstat(filepath.Join(tree, "key.pem")); err == nil || len(out["removed"].([]any)) != 1 {
		t.Errorf("%v", out)
	}
	digest, err := hashref.Parse("sha256:" + out["policy_digest"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := w.Core.Store.Object(context.Background(), digest); err != nil || o.SemanticID != world.SemPolicy || !strings.Contains(string(o.Payload), "*.pem") {
		t.Errorf("the policy %s: %+v %v", digest, o, err)
	}
	out = call("workspace-exec", map[string]any{"profile": "copy", "args": []string{"../a.txt", "b.txt"}})
	if refused, _ := out["refused"].(string); out["ok"] != false || !strings.Contains(refused, "does not match") {
		t.Errorf("%v", out)
	}
	out = call("workspace-job", map[string]any{"job": strings.Repeat("0", 32)})
	if refused, _ := out["refused"].(string); out["ok"] != false || !strings.Contains(refused, "no such job") {
		t.Errorf("%v", out)
	}
}
