package packs_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/starlark"
	"ailang.dev/world/host/handlers/workspace"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// tool is one transition of a manifest with its source and compiled schemas.
type tool struct {
	world.Descriptor
	source  capsule.Source
	in, out *jsonschema.Schema
}

// item is a manifest element; the source's file is not part of a descriptor.
type item struct {
	world.Descriptor
	File string `json:"transitionFnFile"`
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tools reads a pack.
func tools(t testing.TB, name string) []tool {
	t.Helper()
	p, err := packs.Load(name)
	must(t, err)
	var items []item
	must(t, hashref.Decode(p.Manifest, &items))
	var all []tool
	for _, it := range items {
		text, ok := p.Files[it.File]
		if !ok {
			t.Fatalf("%s: no file %q in the pack", it.ID, it.File)
		}
		all = append(all, tool{Descriptor: it.Descriptor, source: capsule.NewSource(text),
			in: compile(t, it.InputSchema), out: compile(t, it.OutputSchema)})
	}
	return all
}

func compile(t testing.TB, raw []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	must(t, err)
	return s
}

func find(t testing.TB, id string) tool {
	t.Helper()
	for _, pack := range []string{"workspace", "se-tools", "examples"} {
		for _, tl := range tools(t, pack) {
			if tl.ID == id {
				return tl
			}
		}
	}
	t.Fatalf("no tool %q", id)
	return tool{}
}

func engine(t testing.TB) capsule.Engine {
	t.Helper()
	trusted := packs.Trusted()
	e, err := starlark.New(starlark.Config{Trusted: func(r world.Ref) bool { return trusted[r] }})
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// plan runs a source's plan phase.
func plan(t testing.TB, e capsule.Engine, tl tool, args string) string {
	t.Helper()
	out, err := capsule.RunObject(t.Context(), e, tl.source, []byte(`{"phase":"plan","args":`+args+`}`))
	if err != nil {
		t.Fatalf("%s %s: %v", tl.ID, args, err)
	}
	return string(out)
}

func refusal(text string) string {
	return string(hashref.MustMarshal(map[string]any{"plan": "world/effect-plan/v1", "effects": []any{}, "finish": false,
		"result": map[string]any{"ok": false, "refused": text}}))
}

func TestLoad(t *testing.T) {
	var names []string
	trusted := packs.Trusted()
	for _, p := range packs.All() {
		names = append(names, p.Name)
		loaded, err := packs.Load(p.Name)
		must(t, err)
		if d := cmp.Diff(p, loaded); d != "" {
			t.Error(d)
		}
		for name, text := range p.Files {
			if !strings.HasSuffix(name, ".star") || !trusted[hashref.Sum(text)] {
				t.Errorf("%s/%s is no source, or not trusted", p.Name, name)
			}
		}
	}
	for _, want := range []string{"workspace", "se-tools"} {
		if !slices.Contains(names, want) {
			t.Errorf("All lacks %s: %v", want, names)
		}
	}
	if slices.Contains(names, "examples") {
		t.Error("the examples are among what is published")
	}
	for _, bad := range []string{"", ".", "..", "none", "workspace/", "workspace/manifest.json"} {
		if _, err := packs.Load(bad); world.KindOf(err) != world.KindNotFound {
			t.Errorf("Load(%q): %v", bad, err)
		}
	}
	if trusted[hashref.SumString("def main(text): return text")] {
		t.Error("a source that does not ship is trusted")
	}
}

// What a manifest promises of each tool.
func TestManifests(t *testing.T) {
	e := engine(t)
	want := map[string][]string{
		"workspace": {"workspace-read", "workspace-write", "workspace-edit", "workspace-list", "workspace-glob", "workspace-grep"},
		"se-tools":  {"ailang-read", "ailang-write", "ailang-edit"},
		"examples":  {"tools.echo"},
	}
	for pack, ids := range want {
		p, err := packs.Load(pack)
		must(t, err)
		var got, files []string
		for _, tl := range tools(t, pack) {
			got = append(got, tl.ID)
			must(t, e.Check(t.Context(), tl.source))
			checkTool(t, tl)
		}
		var items []item
		must(t, json.Unmarshal(p.Manifest, &items))
		for _, it := range items {
			files = append(files, it.File)
		}
		if d := cmp.Diff(ids, got); d != "" {
			t.Errorf("%s: %s", pack, d)
		}
		if d := cmp.Diff(slices.Sorted(maps.Keys(p.Files)), slices.Sorted(slices.Values(files))); d != "" {
			t.Errorf("%s: the files and those that the manifest names differ: %s", pack, d)
		}
	}
}

func checkTool(t *testing.T, tl tool) {
	t.Helper()
	if tl.Title == "" || len(tl.Description) < 80 || tl.Annotations == nil || tl.Annotations.OpenWorldHint == nil || *tl.Annotations.OpenWorldHint {
		t.Errorf("%s: title, description or annotations are wanting", tl.ID)
	}
	must(t, tl.Access.Check())
	var out struct {
		Type     string   `json:"type"`
		Schema   string   `json:"$schema"`
		Required []string `json:"required"`
	}
	must(t, json.Unmarshal(tl.OutputSchema, &out))
	if out.Type != "object" || out.Schema != "" || slices.Contains(out.Required, "world") {
		t.Errorf("%s: output schema: %+v", tl.ID, out)
	}
	if tl.Pure() {
		return
	}
	if d := cmp.Diff([]world.Need{tl.Access}, tl.DeclaredEffects); d != "" || tl.Access.Scope != "worktree" || tl.Access.Cost != 1 {
		t.Errorf("%s: access is not its one effect: %s", tl.ID, d)
	}
	if *tl.Annotations.ReadOnlyHint != world.EffectReads(tl.Access.Effect) {
		t.Errorf("%s: readOnlyHint does not fit %s", tl.ID, tl.Access.Effect)
	}
	var in struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
		Additional *bool    `json:"additionalProperties"`
		Required   []string `json:"required"`
	}
	must(t, json.Unmarshal(tl.InputSchema, &in))
	if in.Additional == nil || *in.Additional {
		t.Errorf("%s: the input schema admits more than its arguments", tl.ID)
	}
	for name, p := range in.Properties {
		if p.Description == "" {
			t.Errorf("%s: argument %q is not described", tl.ID, name)
		}
	}
}

func TestPlans(t *testing.T) {
	e := engine(t)
	planned := func(effect, payload string) string {
		return `{"effects":[{"cost":1,"effect":"` + effect + `","id":"e1","payload":` + payload + `,"scope":"worktree"}],"finish":false,"plan":"world/effect-plan/v1","result":null}`
	}
	const r, w = "Workspace.Read", "Workspace.Write"
	for _, c := range []struct{ id, args, want string }{
		{"workspace-read", `{"path":"a/b.txt"}`, planned(r, `{"op":"read","path":"a/b.txt"}`)},
		{"workspace-read", `{"path":"a","from":2,"to":2}`, planned(r, `{"from":2,"op":"read","path":"a","to":2}`)},
		{"workspace-read", `{"path":"a","to":3.0}`, planned(r, `{"op":"read","path":"a","to":3}`)},
		{"workspace-write", `{"path":"a","content":""}`, planned(w, `{"content":"","op":"write","path":"a"}`)},
		{"workspace-edit", `{"path":"a","old_text":"x","new_text":"é\n"}`, planned(w, `{"new_text":"é\n","old_text":"x","op":"edit","path":"a"}`)},
		{"workspace-list", `{}`, planned(r, `{"op":"list","path":"."}`)},
		{"workspace-list", `{"path":"d"}`, planned(r, `{"op":"list","path":"d"}`)},
		{"workspace-glob", `{"pattern":"**/*.go"}`, planned(r, `{"op":"glob","pattern":"**/*.go"}`)},
		{"workspace-glob", `{"pattern":"*","path":"d","limit":5}`, planned(r, `{"limit":5,"op":"glob","path":"d","pattern":"*"}`)},
		{"workspace-grep", `{"pattern":"x"}`, planned(r, `{"op":"grep","pattern":"x"}`)},
		{"workspace-grep", `{"pattern":"x","path":"d","glob":"*.go","context":0,"ignore_case":false,"limit":1}`,
			planned(r, `{"context":0,"glob":"*.go","ignore_case":false,"limit":1,"op":"grep","path":"d","pattern":"x"}`)},
		{"ailang-read", `{"path":"a"}`, planned(r, `{"op":"read","path":"a"}`)},
		{"ailang-write", `{"path":"a","content":"x"}`, planned(w, `{"content":"x","op":"write","path":"a"}`)},
		{"ailang-edit", `{"path":"a","old_text":"x","new_text":""}`, planned(w, `{"new_text":"","old_text":"x","op":"edit","path":"a"}`)},
	} {
		tl := find(t, c.id)
		if got := plan(t, e, tl, c.args); got != c.want {
			t.Errorf("%s %s:\n got  %s\n want %s", c.id, c.args, got, c.want)
		}
		validate(t, tl.in, c.id+" input", c.args)
	}
}

// Everything that needs no file is refused by the plan, in exactly these words, and each
// such refusal is an output that the schema admits.
func TestPlanRefusals(t *testing.T) {
	e := engine(t)
	const shape = ` refused: it must be relative and non-empty, with no ".." segment and no leading "-"`
	admits := map[string]string{
		"workspace-read": "path, from, to", "workspace-write": "path, content", "workspace-edit": "path, old_text, new_text", "workspace-list": "path",
		"workspace-glob": "pattern, path, limit", "workspace-grep": "pattern, path, glob, context, ignore_case, limit",
		"ailang-read": "path", "ailang-write": "path, content", "ailang-edit": "path, old_text, new_text",
	}
	sound := map[string]any{"path": "a", "content": "c", "old_text": "o", "new_text": "n", "pattern": "p"}
	for id, keys := range admits {
		tl := find(t, id)
		want := func(args map[string]any, text string) {
			t.Helper()
			if got := plan(t, e, tl, string(hashref.MustMarshal(args))); got != refusal(text) {
				t.Errorf("%s %v:\n got  %s\n want %s", id, args, got, text)
			}
			validate(t, tl.out, id, string(hashref.MustMarshal(map[string]any{"ok": false, "refused": text, "world": map[string]any{"effects": []any{}, "plan": "x"}})))
		}
		args := func(change string, value any) map[string]any {
			all := map[string]any{}
			for _, k := range strings.Split(keys, ", ") {
				if v, ok := sound[k]; ok && k != change {
					all[k] = v
				}
			}
			if value != nil {
				all[change] = value
			}
			return all
		}
		for _, bad := range []string{"mode", "Path", "world", ""} {
			want(args(bad, 1), `unknown argument "`+bad+`"; `+id+` admits only: `+keys)
		}
		var in struct {
			Required []string `json:"required"`
		}
		must(t, json.Unmarshal(tl.InputSchema, &in))
		for _, k := range in.Required {
			want(args(k, nil), `missing required argument "`+k+`"`)
		}
		for _, k := range strings.Split(keys, ", ") {
			switch k {
			case "from", "to", "limit", "context":
				want(args(k, "1"), `argument "`+k+`" must be an integer`)
			case "ignore_case":
				want(args(k, "yes"), `argument "ignore_case" must be a boolean`)
			default:
				for _, v := range []any{1, true, []any{}, map[string]any{}, json.RawMessage("null")} {
					want(args(k, v), `argument "`+k+`" must be a string`)
				}
			}
		}
		for _, p := range []string{"", "/etc/passwd", "..", "../x", "a/../b", "a/..", "-rf"} {
			want(args("path", p), `path "`+p+`"`+shape)
		}
	}
	for _, c := range []struct{ id, args, text string }{
		{"workspace-read", `{"path":"a","from":0}`, `argument "from" must be at least 1`},
		{"workspace-read", `{"path":"a","from":3,"to":2}`, `argument "to" must not be less than "from"`},
		{"workspace-glob", `{"pattern":"*","limit":0}`, `argument "limit" must be from 1 to 10000`},
		{"workspace-grep", `{"pattern":"x","context":21}`, `argument "context" must be from 0 to 20`},
		{"workspace-grep", `{"pattern":"x","limit":1001}`, `argument "limit" must be from 1 to 1000`},
	} {
		if got := plan(t, e, find(t, c.id), c.args); got != refusal(c.text) {
			t.Errorf("%s %s: got %s", c.id, c.args, got)
		}
	}
}

// What no plan could hold is refused as such, not broken off.
func TestPlanOfLargeContent(t *testing.T) {
	e := engine(t)
	const max = 1 << 20
	overhead := len(`{"content":"","op":"write","path":"a"}`)
	for _, id := range []string{"workspace-write", "ailang-write"} {
		fits := plan(t, e, find(t, id), `{"path":"a","content":"`+strings.Repeat("x", max-overhead)+`"}`)
		if !strings.Contains(fits, `"op":"write"`) {
			t.Errorf("%s: the largest content is refused: %.200s", id, fits)
		}
		for _, c := range []string{strings.Repeat("x", max-overhead+1), strings.Repeat(`\n`, max/2), strings.Repeat(`\u0001`, 500_000), strings.Repeat("é", max)} {
			got := plan(t, e, find(t, id), `{"path":"a","content":"`+c+`"}`)
			if !regexp.MustCompile(`"refused":"the call is too large: \d+ bytes as JSON, at most 1048576"`).MatchString(got) {
				t.Errorf("%s: got %.200s", id, got)
			}
		}
	}
	for _, id := range []string{"workspace-edit", "ailang-edit"} {
		got := plan(t, e, find(t, id), `{"path":"a","old_text":"x","new_text":"`+strings.Repeat("x", max)+`"}`)
		if !strings.Contains(got, "the call is too large") {
			t.Errorf("%s: got %.200s", id, got)
		}
	}
}

func validate(t testing.TB, s *jsonschema.Schema, what, text string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	must(t, err)
	if err := s.Validate(doc); err != nil {
		t.Errorf("%s: %.300s: %v", what, text, err)
	}
}

// station is a real handler over a real worktree.
type station struct {
	t    *testing.T
	e    capsule.Engine
	h    *workspace.Handler
	tree string
}

func newStation(t *testing.T) *station {
	root := t.TempDir()
	tree := filepath.Join(root, "ep")
	must(t, os.MkdirAll(filepath.Join(tree, "src"), 0o755))
	must(t, os.WriteFile(filepath.Join(tree, "src/main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(tree, "bin"), []byte{0, 1}, 0o644))
	h, err := workspace.New(workspace.Config{Root: root})
	must(t, err)
	return &station{t, engine(t), h, tree}
}

// call plans and performs as the daemon would, and holds the output to the schema.
func (s *station) call(id, args string) map[string]any {
	s.t.Helper()
	tl := find(s.t, id)
	var p struct {
		Effects []struct {
			ID      string          `json:"id"`
			Payload json.RawMessage `json:"payload"`
			world.Need
		} `json:"effects"`
		Result json.RawMessage `json:"result"`
	}
	must(s.t, json.Unmarshal([]byte(plan(s.t, s.e, tl, args)), &p))
	if len(p.Effects) != 1 || !tl.Declares(p.Effects[0].Need) {
		s.t.Fatalf("%s %s: plans %+v", id, args, p)
	}
	e := p.Effects[0]
	out, err := s.h.Perform(s.t.Context(), broker.Request{Episode: "ep", EffectID: e.ID, Need: e.Need, Payload: e.Payload})
	must(s.t, err)
	validate(s.t, tl.out, id, string(out))
	var v map[string]any
	must(s.t, json.Unmarshal(out, &v))
	delete(v, "tool")
	delete(v, "policy_digest")
	return v
}

func TestToolsOnRealFiles(t *testing.T) {
	s := newStation(t)
	for _, c := range []struct{ id, args, want string }{
		{"ailang-read", `{"path":"src/main.go"}`, `{"ok":true,"content":"package main\n\nfunc main() {}\n"}`},
		{"workspace-read", `{"path":"src/main.go"}`, `{"ok":true,"content":"package main\n\nfunc main() {}\n"}`},
		{"workspace-read", `{"path":"src/main.go","from":3}`, `{"ok":true,"content":"func main() {}\n","from":3,"to":3,"total_lines":3}`},
		{"workspace-read", `{"path":"bin"}`, `{"ok":false,"refused":"path \"bin\" is a binary file of 2 bytes; its content is not shown"}`},
		{"ailang-read", `{"path":"none"}`, `{"ok":false,"refused":"path \"none\" does not exist"}`},
		{"ailang-write", `{"path":"n/a","content":"one\ntwo\ntwo\n"}`, `{"ok":true,"created":true,"bytes":12}`},
		{"workspace-write", `{"path":"n/a","content":"one\ntwo\ntwo\n"}`, `{"ok":true,"created":false,"bytes":12}`},
		{"ailang-edit", `{"path":"n/a","old_text":"one","new_text":"1"}`, `{"ok":true,"replaced":1,"line":1,"bytes":10}`},
		{"workspace-edit", `{"path":"n/a","old_text":"1\n","new_text":""}`, `{"ok":true,"replaced":1,"line":1,"bytes":8}`},
		{"ailang-edit", `{"path":"n/a","old_text":"gone","new_text":"x"}`, `{"ok":false,"refused":"old_text not found in n/a"}`},
		{"ailang-edit", `{"path":"n/a","old_text":"two","new_text":"x"}`, `{"ok":false,"refused":"old_text occurs 2 times; include more context so it is unique"}`},
		{"ailang-edit", `{"path":"n/a","old_text":"","new_text":"x"}`, `{"ok":false,"refused":"old_text is empty; give the text to be replaced, or use write for a new file"}`},
		{"ailang-write", `{"path":".GIT/config","content":"x"}`, `{"ok":false,"refused":"path \".GIT/config\" is protected: .git is read-only"}`},
		{"workspace-write", `{"path":".Claude/x","content":"x"}`, `{"ok":false,"refused":"path \".Claude/x\" is protected: .claude/ is read-only"}`},
		{"workspace-list", `{}`, `{"ok":true,"truncated":false,"entries":[{"name":"bin","type":"file","size":2},{"name":"n","type":"directory","size":0},{"name":"src","type":"directory","size":0}]}`},
		{"workspace-list", `{"path":"bin"}`, `{"ok":false,"refused":"path \"bin\" is not a directory"}`},
		{"workspace-glob", `{"pattern":"**/*"}`, `{"ok":true,"paths":["bin","n/a","src/main.go"],"truncated":false}`},
		{"workspace-glob", `{"pattern":"**","limit":1}`, `{"ok":true,"paths":["bin"],"truncated":true}`},
		{"workspace-grep", `{"pattern":"FUNC","ignore_case":true,"context":1}`, `{"ok":true,"truncated":false,"matches":[{"path":"src/main.go","line":3,"text":"func main() {}","before":[""],"after":[]}]}`},
		{"workspace-grep", `{"pattern":"("}`, "{\"ok\":false,\"refused\":\"pattern is not a valid RE2 regular expression: missing closing ): `(`\"}"},
	} {
		got := s.call(c.id, c.args)
		if list, ok := got["entries"].([]any); ok {
			for _, e := range list { // a directory's size is the file system's affair
				if e := e.(map[string]any); e["type"] == "directory" {
					e["size"] = 0.0
				}
			}
		}
		var want map[string]any
		must(t, json.Unmarshal([]byte(c.want), &want))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.id, c.args, d)
		}
	}
	b, err := os.ReadFile(filepath.Join(s.tree, "n/a"))
	if err != nil || string(b) != "two\ntwo\n" {
		t.Errorf("n/a: %q %v", b, err)
	}
	must(t, os.Symlink("/etc", filepath.Join(s.tree, "out")))
	if got := s.call("ailang-read", `{"path":"out/passwd"}`); got["refused"] != `path "out/passwd" escapes the worktree` {
		t.Errorf("a link out: %v", got)
	}
}

// The output schemas admit what the daemon itself answers, and not just anything.
func TestOutputSchemas(t *testing.T) {
	const w = `"world":{"plan":"sha256:` + "00" + `","effects":[{"id":"e1","status":"denied","record":null}]}`
	for _, pack := range []string{"workspace", "se-tools"} {
		for _, tl := range tools(t, pack) {
			validate(t, tl.out, tl.ID, `{"ok":false,"refused":"denied:budget",`+w+`}`)
			validate(t, tl.out, tl.ID, `{"ok":false,"refused":"effect failed: no space left in the worktree; nothing was changed",`+w+`}`)
			for _, bad := range []string{`{}`, `{"ok":true}`, `{"ok":false}`, `{"ok":"true","refused":"x"}`, `{"ok":false,"refused":1}`, `{"refused":"x"}`} {
				doc, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
				must(t, err)
				if tl.out.Validate(doc) == nil {
					t.Errorf("%s: the output schema admits %s", tl.ID, bad)
				}
			}
		}
	}
}

func TestEcho(t *testing.T) {
	tl, e := find(t, "tools.echo"), engine(t)
	for _, args := range []string{`{}`, `{"a":[1,{"b":null}],"text":"é\u0001"}`} {
		out, err := capsule.RunObject(t.Context(), e, tl.source, []byte(args))
		must(t, err)
		want, err := hashref.Canonical([]byte(`{"echo":` + args + `}`))
		must(t, err)
		if string(out) != string(want) {
			t.Errorf("got %s, want %s", out, want)
		}
		validate(t, tl.out, tl.ID, string(out))
	}
}
