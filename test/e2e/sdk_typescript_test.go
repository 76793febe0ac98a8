package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/worldtest"
)

// seen is what test/clients/typescript/drive.mjs prints.
type seen struct {
	Server struct {
		Name string `json:"name"`
	} `json:"server"`
	Tools []struct {
		Name         string         `json:"name"`
		OutputSchema map[string]any `json:"outputSchema"`
	} `json:"tools"`
	Calls []struct {
		Result *struct {
			StructuredContent map[string]any `json:"structuredContent"`
		} `json:"result"`
		Error *struct {
			Code    any    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	} `json:"calls"`
}

// TestOfficialTypeScriptClients drives both generations of the official client. They
// validate every result against the tool's outputSchema, refusals and denials too.
func TestOfficialTypeScriptClients(t *testing.T) {
	dir := typescript(t)
	for _, script := range []string{"sdk1.mjs", "sdk2.mjs"} {
		t.Run(script, func(t *testing.T) {
			w := worldtest.Start(t, worldtest.Options{})
			w.Worktree("ep1", map[string]string{"hello.txt": "hello, world\n"})
			s := drive(t, dir, script, w.URL+"/mcp/", w.Mint("ep1", "Workspace.Read=worktree:2", "Workspace.Write=worktree:9"),
				`{"name":"workspace-read","arguments":{"path":"hello.txt"}}`,
				`{"name":"workspace-edit","arguments":{"path":"hello.txt","old_text":"world","new_text":"World"}}`,
				`{"name":"workspace-read","arguments":{"path":"gone.txt"}}`,
				`{"name":"workspace-read","arguments":{"pat":"hello.txt"}}`,
				`{"name":"workspace-list","arguments":{}}`,
				`{"name":"no-such-tool","arguments":{}}`,
			)
			if s.Server.Name != "ailang-worldd" || len(s.Tools) != 10 || len(s.Calls) != 6 {
				t.Fatalf("server %q, %d tools, %d calls", s.Server.Name, len(s.Tools), len(s.Calls))
			}
			for i, want := range []map[string]any{
				{"ok": true, "content": "hello, world\n"},
				{"ok": true, "replaced": float64(1)},
				{"ok": false, "refused": `path "gone.txt" does not exist`},
				{"ok": false, "refused": `unknown argument "pat"; workspace-read admits only: path, from, to`},
				{"ok": false, "refused": "denied:budget"},
			} {
				if s.Calls[i].Error != nil {
					t.Errorf("call %d: %+v", i, s.Calls[i].Error)
					continue
				}
				for k, v := range want {
					if got := s.Calls[i].Result.StructuredContent[k]; got != v {
						t.Errorf("call %d: %s is %v, want %v", i, k, got, v)
					}
				}
			}
			if e := s.Calls[5].Error; e == nil || !strings.Contains(e.Message, "no-such-tool") {
				t.Errorf("unknown tool: %+v", e)
			}
		})
	}
}

// typescript is the folder of the TypeScript clients.
func typescript(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../clients/typescript")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Skip("SKIP: the TypeScript clients are not installed; `make deps` installs them")
	}
	return dir
}

func drive(t *testing.T, dir, script, url, token string, calls ...string) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WORLD_URL="+url, "WORLD_TOKEN="+token)
	cmd.Stdin = strings.NewReader(strings.Join(calls, "\n") + "\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("node %s: %v\n%s", script, err, errs.String())
	}
	var s seen
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return s
}
