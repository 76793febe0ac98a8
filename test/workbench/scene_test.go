package workbench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/worldtest"
	"ailang.dev/world/packs/packtest"
)

func TestMain(m *testing.M) { packtest.Main(m) }

// scene is a world in which an agent worked on a small repository, and what of it the
// pages are about.
type scene struct {
	*worldtest.World
	t       testing.TB
	token   string
	entries map[string]int64 // by task
}

// call has the agent call a tool, and gives its output.
func (s *scene) call(task, tool string, args map[string]any) map[string]any {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": map[string]any{
		"id": task, "metadata": map[string]any{"skill_id": tool},
		"message": map[string]any{"role": "user", "parts": []any{map[string]any{"type": "data", "data": args}}}}})
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+"/a2a/", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var got struct {
		Result struct {
			Artifacts []struct {
				Parts []struct {
					Data map[string]any `json:"data"`
				} `json:"parts"`
			} `json:"artifacts"`
			Metadata struct {
				Entry int64 `json:"entry_index"`
			} `json:"metadata"`
		} `json:"result"`
	}
	if err := json.Unmarshal(text, &got); err != nil || len(got.Result.Artifacts) == 0 {
		s.t.Fatalf("%s: %v: %s", tool, err, text)
	}
	s.entries[task] = got.Result.Metadata.Entry
	return got.Result.Artifacts[0].Parts[0].Data
}

const parser = `package parse

import "strings"

// Fields splits a line at commas.
func Fields(line string) []string {
	fields := strings.Split(line, ",")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields
}
`

const parserTest = `package parse

import "testing"

func TestFields(t *testing.T) {
	got := Fields("a, b,, c")
	if len(got) != 3 {
		t.Fatalf("%q: empty fields are to be left out", got)
	}
}
`

// play makes the world.
func play(t testing.TB) *scene {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cat", "grep"} {
		if _, err := osexec.LookPath(name); err != nil {
			t.Fatal(err)
		}
	}
	s := &scene{t: t, entries: map[string]int64{}}
	s.World = worldtest.Start(t, worldtest.Options{
		SandboxCommand: []string{exe, "sandbox-init"},
		Profiles: []exec.Profile{{Name: "check", Description: "Looks for a text in the tree.", Argv: []string{"grep", "-n", "--color=always"},
			Args: exec.Args{Max: 4}}},
	})
	s.PublishPack("human")
	manifest, source := pure()
	s.Publish(manifest, source)
	s.Worktree("fix-fields", map[string]string{"parse/parse.go": parser, "parse/parse_test.go": parserTest, "README.md": "# parse\n\nSplits lines.\n",
		"notes.txt": hostile})
	s.token = s.Mint("fix-fields", "Workspace.Read=worktree:40", "Workspace.Write=worktree:4", "Git.Read=worktree:40", "Git.Commit=worktree:5",
		"Workspace.Exec=worktree:20", "Human.Approve=operator:3", "Human.PollApproval=operator:9", "Tools.Echo=demo:0")
	s.Mint("other-work", "Workspace.Read=worktree:1000")
	s.work()
	return s
}

// hostile is a file's text that tries to be more than text.
var hostile = "<script>alert(1)</script> \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202egnp.exe\u202c <img src=x onerror=alert(2)> " +
	strings.Repeat("long ", 60) + "\n"

func (s *scene) work() {
	s.call("look", "workspace-list", map[string]any{"path": "."})
	s.call("read", "workspace-read", map[string]any{"path": "parse/parse.go"})
	s.call("grep", "workspace-grep", map[string]any{"pattern": "Fields", "path": "."})
	s.call("notes", "workspace-read", map[string]any{"path": "notes.txt"})
	s.call("escape", "workspace-read", map[string]any{"path": "../../etc/passwd"})
	s.call("edit", "workspace-edit", map[string]any{"path": "parse/parse.go",
		"old_text": "\tfor i := range fields {\n\t\tfields[i] = strings.TrimSpace(fields[i])\n\t}\n\treturn fields\n",
		"new_text": "\tkept := fields[:0]\n\tfor _, f := range fields {\n\t\tif f = strings.TrimSpace(f); f != \"\" {\n\t\t\tkept = append(kept, f)\n\t\t}\n\t}\n\treturn kept\n"})
	s.call("unfit", "workspace-edit", map[string]any{"path": "README.md", "old_text": "nothing like it", "new_text": "x"})
	s.call("run", "workspace-exec", map[string]any{"profile": "check", "args": []any{"kept", "parse/parse.go"}})
	s.call("run-fails", "workspace-exec", map[string]any{"profile": "check", "args": []any{"absent", "parse/parse.go", "parse/no.go"}})
	s.call("diff", "workspace-diff", map[string]any{})
	s.call("write", "workspace-write", map[string]any{"path": "CHANGES.md", "content": "# Changes\n\n- Empty fields are left out.\n"})
	s.call("commit", "workspace-commit", map[string]any{"message": "parse: leave out empty fields\n\nA line such as \"a,,b\" has two fields."})
	s.call("several", "workspace-apply", map[string]any{"edits": []any{
		map[string]any{"path": "README.md", "old_text": "Splits lines.", "new_text": "Splits lines at commas."},
	}})
	s.call("ask", "approval-request", map[string]any{"question": "May I push the branch world/fix-fields?", "details": "One commit, two files."})
	s.call("ask-again", "approval-request", map[string]any{"question": "May I rewrite the history of main?"})
	s.call("echo", "tools.echo", map[string]any{"text": "a pure call", "ref": "sha256:" + strings.Repeat("0a", 32)})
	s.call("spend", "workspace-write", map[string]any{"path": "a.txt", "content": "a\n"})
	s.call("denied", "workspace-write", map[string]any{"path": "b.txt", "content": "b\n"})
	all, err := s.Core.Book.List(context.Background())
	if err != nil || len(all) != 2 {
		s.t.Fatalf("%d approvals, %v", len(all), err)
	}
	if _, err := s.Core.Book.Decide(context.Background(), all[1].ID, approvals.Decision{By: "ann", Note: "main is shared"}); err != nil {
		s.t.Fatal(err)
	}
}

// pure is the manifest and the source of the example that plans no effect.
func pure() (string, map[string][]byte) {
	dir := filepath.Join("..", "..", "packs", "examples")
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		panic(err)
	}
	source, err := os.ReadFile(filepath.Join(dir, "echo.star"))
	if err != nil {
		panic(err)
	}
	return string(manifest), map[string][]byte{"echo.star": source}
}
