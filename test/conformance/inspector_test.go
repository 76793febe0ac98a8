package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const inspector = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

// inspect runs the Inspector's command line against the daemon.
func (s *site) inspect(n tools, token string, args ...string) ran {
	s.t.Helper()
	return n.run(s.t, inspector, append([]string{"--cli", s.url, "--transport", "http", "--header", "Authorization: Bearer " + token}, args...)...)
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// TestInspector: the Inspector lists the tools of a session and finds no error in their schemas,
// and calls them.
func TestInspector(t *testing.T) {
	n := installed(t)
	s := serve(t)
	t.Run("list", func(t *testing.T) {
		s := &site{t: t, url: s.url, token: s.token}
		r := s.inspect(n, s.token, "--method", "tools/list", "--strict")
		if r.code != 0 {
			t.Fatalf("exit %d\n%s", r.code, r.stderr)
		}
		var list struct {
			Tools []struct{ Name, Title string }
		}
		parse(t, r.stdout, &list)
		var got []string
		for _, tool := range list.Tools {
			got = append(got, tool.Name)
		}
		want := []string{"tools_decho", "workspace-apply", "workspace-edit", "workspace-glob", "workspace-grep", "workspace-list", "workspace-read", "workspace-write"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
	for _, c := range []struct {
		name, tool string
		args       []string
		ok         bool
		member     string
		value      any
	}{
		{"write", "workspace-write", []string{"path=hello.txt", "content=hello, world"}, true, "created", true},
		{"read", "workspace-read", []string{"path=hello.txt"}, true, "content", "hello, world"},
		{"refused", "workspace-read", []string{"path=../out"}, false, "refused", `path "../out" refused: it must be relative and non-empty, with no ".." segment and no leading "-"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &site{t: t, url: s.url, token: s.token}
			args := []string{"--method", "tools/call", "--tool-name", c.tool}
			for _, a := range c.args {
				args = append(args, "--tool-arg", a)
			}
			r := s.inspect(n, s.token, args...)
			var result struct {
				Content           []struct{ Type, Text string }
				StructuredContent map[string]any
				IsError           *bool
			}
			parse(t, r.stdout, &result)
			if out := result.StructuredContent; r.code != 0 || out["ok"] != c.ok || out[c.member] != c.value || result.IsError != nil {
				t.Fatalf("exit %d: %s\n%s", r.code, r.stdout, r.stderr)
			}
			var same map[string]any
			if len(result.Content) != 1 || result.Content[0].Type != "text" {
				t.Fatalf("content: %s", r.stdout)
			}
			parse(t, result.Content[0].Text, &same)
			if d := cmp.Diff(result.StructuredContent, same); d != "" {
				t.Errorf("the text is another object: %s", d)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(s.ws, episode, "hello.txt")); err != nil || string(text) != "hello, world" {
		t.Errorf("the file is %q (%v)", text, err)
	}
	for _, c := range []struct{ name, token, tool, says string }{
		{"unknown tool", s.token, "workspace-status", `"code":"tool_not_found"`}, // there is one, which this session does not see
		{"unknown session", strings.Repeat("0", 64), "workspace-read", "unknown session credential"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &site{t: t, url: s.url}
			r := s.inspect(n, c.token, "--stored-auth-only", "--method", "tools/call", "--tool-name", c.tool)
			if r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, c.says) {
				t.Errorf("exit %d, want one that is not 0, and %q: %s%s", r.code, c.says, r.stdout, r.stderr)
			}
		})
	}
}
