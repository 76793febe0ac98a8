// Package packtest runs the transitions of a pack as the daemon would: their sources under
// the real engine, what they plan under the real handlers on real files, and what
// comes back against their schemas. It is for tests alone, and publishes nothing. Answers
// spec/12-workspace.md.
package packtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/starlark"
	"ailang.dev/world/host/handlers/git"
	"ailang.dev/world/host/handlers/workspace"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// Bench is a pack on trial: its tools, an engine, and a worktree.
type Bench struct {
	T      testing.TB
	Engine capsule.Engine
	Tools  []Tool
	// Tree is the worktree of the one episode; it is empty at first.
	Tree     string
	handlers map[string]broker.Handler
}

// Tool is one transition of the manifest with its source and schemas.
type Tool struct {
	world.Descriptor
	File    string
	Source  capsule.Source
	In, Out *jsonschema.Schema
}

const episode = "ep"

// New puts a pack on trial. What cannot be read fails the test.
func New(t testing.TB, pack string) *Bench {
	t.Helper()
	trusted := packs.Trusted()
	engine, err := starlark.New(starlark.Config{Trusted: func(r world.Ref) bool { return trusted[r] }})
	Must(t, err)
	t.Cleanup(func() { engine.Close() })
	root := t.TempDir()
	b := &Bench{T: t, Engine: engine, Tools: readTools(t, pack), Tree: filepath.Join(root, episode)}
	Must(t, os.Mkdir(b.Tree, 0o755))
	ws, err := workspace.New(workspace.Config{Root: root})
	Must(t, err)
	bin, err := exec.LookPath("git")
	Must(t, err)
	gt, err := git.New(t.Context(), git.Config{Root: root, Git: bin, Scratch: t.TempDir(), Store: "s", Now: func() time.Time { return time.Unix(0, 0) },
		LogEnd: func(context.Context) (int64, error) { return 9, nil }})
	Must(t, err)
	b.handlers, err = broker.Serve(ws, gt)
	Must(t, err)
	return b
}

// Must fails the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// item is a manifest element: a descriptor whose source is a file.
type item struct {
	world.Descriptor
	File string `json:"transitionFnFile"`
}

func readTools(t testing.TB, pack string) []Tool {
	t.Helper()
	p, err := packs.Load(pack)
	Must(t, err)
	var items []item
	Must(t, hashref.Decode(p.Manifest, &items))
	var all []Tool
	for _, it := range items {
		text, ok := p.Files[it.File]
		if !ok {
			t.Fatalf("%s: no file %q in the pack", it.ID, it.File)
		}
		all = append(all, Tool{Descriptor: it.Descriptor, File: it.File, Source: capsule.NewSource(text),
			In: compile(t, it.InputSchema), Out: compile(t, it.OutputSchema)})
	}
	return all
}

func compile(t testing.TB, raw []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	Must(t, err)
	c := jsonschema.NewCompiler()
	Must(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	Must(t, err)
	return s
}

// Tool is the tool of an id.
func (b *Bench) Tool(id string) Tool {
	b.T.Helper()
	for _, tl := range b.Tools {
		if tl.ID == id {
			return tl
		}
	}
	b.T.Fatalf("the pack has no tool %q", id)
	return Tool{}
}

// Put makes a file of the worktree.
func (b *Bench) Put(name, content string) {
	b.T.Helper()
	at := filepath.Join(b.Tree, name)
	Must(b.T, os.MkdirAll(filepath.Dir(at), 0o755))
	Must(b.T, os.WriteFile(at, []byte(content), 0o644))
}

// Repository makes the worktree, as it is, the first commit of a repository on the
// episode's branch.
func (b *Bench) Repository() {
	b.T.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", git.BranchOf(episode)}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		cmd := exec.CommandContext(b.T.Context(), "git", append([]string{"-C", b.Tree, "-c", "user.name=t", "-c", "user.email=t@t.invalid"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.T.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
}

// Run gives main an input, and returns its output, canonical.
func (b *Bench) Run(id, input string) string {
	b.T.Helper()
	out, err := capsule.RunObject(b.T.Context(), b.Engine, b.Tool(id).Source, []byte(input))
	if err != nil {
		b.T.Fatalf("%s %.300s: %v", id, input, err)
	}
	return string(out)
}

// Plan is what a tool plans for arguments.
func (b *Bench) Plan(id, args string) string {
	b.T.Helper()
	return b.Run(id, `{"args":`+args+`,"phase":"plan"}`)
}

// Planned is the text of a plan of one effect at the cost of 1.
func Planned(effect, payload string) string {
	return `{"effects":[{"cost":1,"effect":"` + effect + `","id":"e1","payload":` + payload +
		`,"scope":"worktree"}],"finish":false,"plan":"world/effect-plan/v1","result":null}`
}

// Refusal is the text of a plan that refuses.
func Refusal(text string) string {
	return string(hashref.MustMarshal(map[string]any{"plan": "world/effect-plan/v1", "effects": []any{}, "finish": false,
		"result": map[string]any{"ok": false, "refused": text}}))
}

// Valid tells what is wrong with a JSON text by a schema.
func Valid(s *jsonschema.Schema, text string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// planned is what Call reads of a plan.
type planned struct {
	Effects []struct {
		world.Need
		ID      string          `json:"id"`
		Payload json.RawMessage `json:"payload"`
	} `json:"effects"`
	Finish bool            `json:"finish"`
	Result json.RawMessage `json:"result"`
}

// Call plans and performs, round by round, demands that the tool declared the effects and
// that its schema admits the output, and returns the output without tool and policy_digest.
func (b *Bench) Call(id, args string) map[string]any {
	b.T.Helper()
	tl := b.Tool(id)
	out := b.rounds(tl, args)
	if err := Valid(tl.Out, out); err != nil {
		b.T.Errorf("%s: %.300s: %v", id, out, err)
	}
	var v map[string]any
	Must(b.T, json.Unmarshal([]byte(out), &v))
	for _, own := range []string{"tool", "policy_digest"} {
		if v[own] == "" || v[own] == nil {
			b.T.Errorf("%s: the output lacks %s", id, own)
		}
		delete(v, own)
	}
	return v
}

// rounds is the output of a call, as the coordinator makes it out of effects that all end ok.
func (b *Bench) rounds(tl Tool, args string) string {
	b.T.Helper()
	type result struct {
		ID     string          `json:"id"`
		Status string          `json:"status"`
		Output json.RawMessage `json:"output"`
	}
	results := []result{}
	text := b.Plan(tl.ID, args)
	for round := 1; ; round++ {
		var p planned
		Must(b.T, json.Unmarshal([]byte(text), &p))
		if len(p.Effects) == 0 {
			b.T.Fatalf("%s %s: plans %s", tl.ID, args, text)
		}
		for _, e := range p.Effects {
			if !tl.Declares(e.Need) {
				b.T.Fatalf("%s %s: plans %+v, which it did not declare", tl.ID, args, e)
			}
			out, err := b.handlers[e.Effect].Perform(b.T.Context(), broker.Request{Episode: episode, EffectID: e.ID, Need: e.Need, Payload: e.Payload})
			Must(b.T, err)
			results = append(results, result{e.ID, "ok", out})
		}
		if !p.Finish {
			return string(results[len(results)-1].Output)
		}
		in := map[string]any{"phase": "finish", "args": json.RawMessage(args), "results": results, "round": round}
		text = b.Run(tl.ID, string(hashref.MustMarshal(in)))
		if !strings.Contains(text, `"plan":"`+world.SemPlanV2+`"`) {
			return text
		}
	}
}

// Want demands an output on real files. The size of a directory is the file system's own
// affair, and taken as 0.
func (b *Bench) Want(id, args, want string) {
	b.T.Helper()
	got := b.Call(id, args)
	entries, _ := got["entries"].([]any)
	for _, e := range entries {
		if e := e.(map[string]any); e["type"] == "directory" {
			e["size"] = 0.0
		}
	}
	var v map[string]any
	Must(b.T, json.Unmarshal([]byte(want), &v))
	if d := cmp.Diff(v, got); d != "" {
		b.T.Errorf("%s %s (-want +got):\n%s", id, args, d)
	}
}
