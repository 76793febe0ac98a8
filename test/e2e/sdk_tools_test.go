package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/worldtest"
	"ailang.dev/world/packs"
)

// toolCall is one call, and what its answer must hold. In args "${TOOL.MEMBER}" stands for
// a member of the last answer of a tool that was ok.
type toolCall struct {
	tool, args string
	ok         bool
	holds      string // a part of the answer as JSON
}

// toolCalls are a good and a refused call, at least, of each tool that ships, in an order
// in which they make sense.
var toolCalls = []toolCall{
	{"workspace-read", `{"path":"hello.txt"}`, true, `"content":"hello, world\n"`},
	{"workspace-read", `{"path":"gone.txt"}`, false, `"refused":"path \"gone.txt\" does not exist"`},
	{"workspace-list", `{}`, true, `"name":"hello.txt"`},
	{"workspace-list", `{"path":"hello.txt"}`, false, `hello.txt`},
	{"workspace-glob", `{"pattern":"*.txt"}`, true, `hello.txt`},
	{"workspace-glob", `{"pattern":"[a"}`, false, `[a`},
	{"workspace-grep", `{"pattern":"w.rld"}`, true, `"line":1`},
	{"workspace-grep", `{"pattern":"("}`, false, `"refused":`},
	{"workspace-write", `{"path":"new.txt","content":"new\n"}`, true, `"created":true`},
	{"workspace-write", `{"path":".git/x","content":""}`, false, `.git`},
	{"workspace-edit", `{"path":"new.txt","old_text":"new","new_text":"newer"}`, true, `"replaced":1`},
	{"workspace-edit", `{"path":"new.txt","old_text":"old","new_text":"x"}`, false, `"refused":`},
	{"workspace-apply", `{"edits":[{"path":"new.txt","old_text":"newer","new_text":"newest"},{"path":"two.txt","content":"two\n"}]}`, true, `"applied":2`},
	{"workspace-apply", `{"edits":[{"path":"new.txt","content":"last\n"},{"path":"gone.txt","old_text":"a","new_text":"b"}]}`, false, `"applied":1`},
	{"ailang-write", `{"path":"a.ail","content":"module a\n"}`, true, `"created":true`},
	{"ailang-write", `{"path":"/a.ail","content":""}`, false, `must be relative`},
	{"ailang-read", `{"path":"a.ail"}`, true, `"content":"module a\n"`},
	{"ailang-read", `{"path":"b.ail"}`, false, `does not exist`},
	{"ailang-edit", `{"path":"a.ail","old_text":"a\n","new_text":"b\n"}`, true, `"ok":true`},
	{"ailang-edit", `{"path":"a.ail","old_text":"c","new_text":"d"}`, false, `"refused":`},
	{"ailang-check", `{"path":"m.ail"}`, true, `"exit_code":0`},
	{"ailang-check", `{"path":"gone.ail"}`, false, `does not exist`},
	{"ailang-run", `{"path":"m.ail","args_json":"{\"n\":3}","caps":["IO"]}`, true, `"stdout":"{\"n\":3}\n"`},
	{"ailang-run", `{"path":"m.ail","caps":["Net"]}`, false, `cannot be given`},
	{"builtins-search", `{"query":"slice"}`, true, `_str_slice`},
	{"builtins-search", `{"query":" "}`, false, `query is empty`},
	{"examples-search", `{"query":"hello"}`, true, `"path":"hello.ail"`},
	{"examples-search", `{"query":"a","limit":0}`, false, `"refused":`},
	{"ailang-cli", `{"operation":"prompt"}`, true, `"exit_code":0`},
	{"ailang-cli", `{"operation":"run"}`, false, `there is no operation`},
	{"workspace-status", `{}`, true, `"path":"new.txt"`},
	{"workspace-status", `{"path":"../x"}`, false, `must be relative`},
	{"workspace-diff", `{"path":"new.txt"}`, true, `+last`},
	{"workspace-diff", `{"from":"--output=x"}`, false, `"refused":`},
	{"workspace-commit", `{"message":"what is new"}`, true, `"provenance":"store=`},
	{"workspace-commit", `{"message":"again"}`, false, `nothing to commit`},
	{"workspace-log", `{"limit":1}`, true, `what is new`},
	{"workspace-log", `{"rev":"nowhere"}`, false, `names no commit`},
	{"workspace-show", `{"path":"new.txt"}`, true, `"content":"last\n"`},
	{"workspace-show", `{"rev":"HEAD~9"}`, false, `"refused":`},
	{"workspace-exec", `{"profile":"cat","args":["hello.txt"]}`, true, `"stdout":"hello, world\n"`},
	{"workspace-exec", `{"profile":"cat","args":["gone.txt"]}`, false, `"exit_code":1`},
	{"workspace-exec", `{"profile":"cat","args":["-n"]}`, false, `takes no flags`},
	{"workspace-exec", `{"profile":"long"}`, true, `"running":true`},
	{"workspace-job", `{"job":"${workspace-exec.job}"}`, true, `"running":true`},
	{"workspace-job", `{"job":"${workspace-exec.job}","action":"cancel"}`, false, `"canceled":true`},
	{"workspace-job", `{"job":"0123456789abcdef0123456789abcdef"}`, false, `no such job`},
	{"approval-request", `{"question":"May I?"}`, true, `"state":"pending"`},
	{"approval-request", `{"question":""}`, false, `must not be empty`},
	{"approval-poll", `{"approval":"${approval-request.approval}"}`, true, `"state":"pending"`},
	{"approval-poll", `{"approval":"0123456789abcdef"}`, false, `no approval`},
}

// shipped is every tool that is meant to be published.
func shipped(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, p := range packs.All() {
		var tools []struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(p.Manifest, &tools); err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			all = append(all, tool.ID)
		}
	}
	slices.Sort(all)
	return all
}

// TestEveryToolHasItsCalls: what ships is called by the official clients, once with good
// arguments and once with such as are refused.
func TestEveryToolHasItsCalls(t *testing.T) {
	good, refused := map[string]bool{}, map[string]bool{}
	for _, c := range toolCalls {
		if c.ok {
			good[c.tool] = true
		} else {
			refused[c.tool] = true
		}
	}
	want := shipped(t)
	for kind, have := range map[string]map[string]bool{"a good call": good, "a refused call": refused} {
		for _, tool := range want {
			if !have[tool] {
				t.Errorf("%s has not %s in toolCalls", tool, kind)
			}
		}
		for tool := range have {
			if !slices.Contains(want, tool) {
				t.Errorf("%s does not ship", tool)
			}
		}
	}
}

// toolWorld serves all that ships, and gives a session that may use it.
func toolWorld(t *testing.T) (w *worldtest.World, token string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	toolchain, err := ailangtest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	examples := t.TempDir()
	if err := os.WriteFile(filepath.Join(examples, "hello.ail"), []byte("module hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w = worldtest.Start(t, worldtest.Options{SandboxCommand: []string{self, sandboxVerb}, NoPacks: true, ToolAilangBin: toolchain, ExamplesDir: examples, Profiles: []exec.Profile{
		{Name: "cat", Argv: []string{"cat"}, Args: exec.Args{Max: 3}},
		{Name: "long", Argv: []string{"sleep", "300"}, Job: true},
	}})
	needs := map[string]bool{}
	for _, p := range packs.All() {
		w.PublishPack(p.Name)
		var tools []struct {
			Access struct{ Effect, Scope string }
		}
		if err := json.Unmarshal(p.Manifest, &tools); err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			needs[tool.Access.Effect+"="+tool.Access.Scope+":1000"] = true
		}
	}
	w.Worktree("ep1", map[string]string{"hello.txt": "hello, world\n", "m.ail": ailangtest.Program("m.ail", "json", "echo")})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon said:\n%s", w.Stderr())
		}
	})
	return w, w.Mint("ep1", slices.Sorted(maps.Keys(needs))...)
}

// check holds an answer against what was to come.
func (c toolCall) check(t *testing.T, answer map[string]any) {
	t.Helper()
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text))
	if answer["ok"] != c.ok || !strings.Contains(plain, c.holds) {
		t.Errorf("%s %s: ok is not %v, or there is no %s:\n%s", c.tool, c.args, c.ok, c.holds, plain)
	}
}

var placeholder = regexp.MustCompile(`\$\{([\w-]+)\.(\w+)\}`)

// TestEveryToolByTheGoSDK holds each answer against the schema that the client was told.
func TestEveryToolByTheGoSDK(t *testing.T) {
	t.Parallel()
	w, token := toolWorld(t)
	s := connect(t, w, token)
	ctx := context.Background()
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]*jsonschema.Schema{}
	for _, tool := range list.Tools {
		schemas[tool.Name] = compileSchema(t, tool.OutputSchema)
	}
	if got := slices.Sorted(maps.Keys(schemas)); !slices.Equal(got, shipped(t)) {
		t.Fatalf("listed are %v, and %v ship", got, shipped(t))
	}
	last := map[string]map[string]any{}
	for _, c := range toolCalls {
		args := placeholder.ReplaceAllStringFunc(c.args, func(p string) string {
			m := placeholder.FindStringSubmatch(p)
			v, _ := last[m[1]][m[2]].(string)
			return v
		})
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: c.tool, Arguments: json.RawMessage(args)})
		if err != nil {
			t.Errorf("%s %s: %v", c.tool, args, err)
			continue
		}
		out, _ := res.StructuredContent.(map[string]any)
		if err := schemas[c.tool].Validate(out); err != nil || res.IsError {
			t.Errorf("%s %s: its answer is not what its schema says: %v\n%v", c.tool, args, err, out)
		}
		if c.check(t, out); out["ok"] == true {
			last[c.tool] = out
		}
	}
}

func compileSchema(t *testing.T, schema any) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEveryToolByTheTypeScriptSDKs: these clients hold answers against the schemas by
// themselves.
func TestEveryToolByTheTypeScriptSDKs(t *testing.T) {
	dir := typescript(t)
	var lines []string
	for _, c := range toolCalls {
		lines = append(lines, `{"name":"`+c.tool+`","arguments":`+c.args+`}`)
	}
	for _, script := range []string{"sdk1.mjs", "sdk2.mjs"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			w, token := toolWorld(t)
			got := drive(t, dir, script, w.URL+"/mcp/", token, lines...)
			if len(got.Tools) != len(shipped(t)) || len(got.Calls) != len(toolCalls) {
				t.Fatalf("%d tools, %d calls", len(got.Tools), len(got.Calls))
			}
			for i, c := range toolCalls {
				if e := got.Calls[i].Error; e != nil {
					t.Errorf("%s %s: %+v", c.tool, c.args, *e)
					continue
				}
				c.check(t, got.Calls[i].Result.StructuredContent)
			}
		})
	}
}
