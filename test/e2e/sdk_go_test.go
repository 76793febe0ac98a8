package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ailang.dev/world/host/worldtest"
)

// bearer adds a session to every request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens a session of the official Go SDK.
func connect(t *testing.T, w *worldtest.World, token string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "world-test-go", Version: "1.0.0"}, nil)
	s, err := client.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: w.URL + "/mcp/", HTTPClient: &http.Client{Transport: bearer{token}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestOfficialGoSDK(t *testing.T) {
	w := worldtest.Start(t, worldtest.Options{})
	w.Worktree("ep1", map[string]string{"hello.txt": "hello, world\n"})
	ctx := context.Background()
	s := connect(t, w, w.Mint("ep1", worldtest.Coding(100)...))

	if info := s.InitializeResult(); info.ServerInfo.Name != "ailang-worldd" {
		t.Fatalf("%+v", info.ServerInfo)
	}
	if err := s.Ping(ctx, nil); err != nil {
		t.Fatal(err)
	}
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Title == "" || tool.Annotations == nil || tool.InputSchema == nil {
			t.Errorf("%s: title %q, annotations %v", tool.Name, tool.Title, tool.Annotations)
		}
	}
	want := []string{"ailang-edit", "ailang-read", "ailang-write", "workspace-apply", "workspace-commit", "workspace-diff", "workspace-edit", "workspace-glob", "workspace-grep",
		"workspace-list", "workspace-log", "workspace-read", "workspace-show", "workspace-status", "workspace-write"}
	if !slices.Equal(names, want) {
		t.Fatalf("tools %v, want %v", names, want)
	}
	call := func(name string, args map[string]any) map[string]any {
		t.Helper()
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, ok := res.StructuredContent.(map[string]any)
		if !ok || res.IsError || len(res.Content) != 1 {
			t.Fatalf("%s: %+v", name, res)
		}
		return out
	}
	if out := call("workspace-read", map[string]any{"path": "hello.txt"}); out["content"] != "hello, world\n" {
		t.Fatalf("%v", out)
	}
	if out := call("ailang-edit", map[string]any{"path": "hello.txt", "old_text": "hello", "new_text": "goodbye"}); out["ok"] != true {
		t.Fatalf("%v", out)
	}
	if out := call("workspace-grep", map[string]any{"pattern": "good.ye"}); len(out["matches"].([]any)) != 1 {
		t.Fatalf("%v", out)
	}
	if out := call("workspace-read", map[string]any{"path": "gone.txt"}); out["ok"] != false || out["world"] == nil {
		t.Fatalf("%v", out)
	}
	if out := call("workspace-status", nil); len(out["changes"].([]any)) != 1 || out["branch"] != "world/ep1" {
		t.Fatalf("%v", out)
	}
	if out := call("workspace-diff", map[string]any{"path": "hello.txt"}); !strings.Contains(out["diff"].(string), "+goodbye, world\n") {
		t.Fatalf("%v", out)
	}
	// Genesis and six calls; this one is no entry yet.
	if out := call("workspace-commit", map[string]any{"message": "say goodbye"}); out["ok"] != true || !strings.HasSuffix(out["provenance"].(string), " episode=ep1 entries=0-6") {
		t.Fatalf("%v", out)
	}
	if out := call("workspace-log", map[string]any{"limit": 1}); out["more"] != true {
		t.Fatalf("%v", out)
	}
	if out := call("workspace-show", map[string]any{"rev": "HEAD~1", "path": "hello.txt"}); out["content"] != "hello, world\n" {
		t.Fatalf("%v", out)
	}
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "no-such-tool"}); err == nil {
		t.Fatal("an unknown tool was called")
	}
	reader := connect(t, w, w.Mint("ep1", "Workspace.Read=worktree:5"))
	if _, err := reader.CallTool(ctx, &mcp.CallToolParams{Name: "workspace-write", Arguments: map[string]any{"path": "x", "content": "y"}}); err == nil {
		t.Fatal("a tool without a grant was called")
	}
	if head, err := w.Core.Store.Head(ctx); err != nil || head.Next != 10 {
		t.Fatalf("%+v, %v: want genesis and nine calls", head, err)
	}
}
