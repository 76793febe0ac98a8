package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

var _ broker.Handler = (*Handler)(nil)

const episode = "ep"

// rig is a handler over a real worktree, with a folder beside it that nothing may touch.
type rig struct {
	t       testing.TB
	h       *Handler
	tree    string // the worktree
	outside string
}

func newRig(t testing.TB, protected ...string) *rig {
	t.Helper()
	set, err := policy.New(policy.Config{Rules: policy.Rules{Deny: protected}})
	must(t, err)
	return newRigFor(t, set)
}

func newRigFor(t testing.TB, set *policy.Set) *rig {
	t.Helper()
	top := t.TempDir()
	r := &rig{t: t, tree: filepath.Join(top, "ws", episode), outside: filepath.Join(top, "outside")}
	for _, dir := range []string{r.tree, r.outside} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(r.outside, "secret"), []byte("secret\n"), 0o644))
	h, err := New(Config{Root: filepath.Dir(r.tree), Policy: set})
	must(t, err)
	r.h = h
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put makes files, and the folders above them.
func (r *rig) put(files map[string]string) {
	r.t.Helper()
	for name, content := range files {
		at := filepath.Join(r.tree, name)
		must(r.t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(r.t, os.WriteFile(at, []byte(content), 0o644))
	}
}

func (r *rig) link(target, name string) {
	r.t.Helper()
	must(r.t, os.Symlink(target, filepath.Join(r.tree, name)))
}

func (r *rig) content(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.tree, name))
	must(r.t, err)
	return string(b)
}

type obj = map[string]any

// perform does a payload, and holds what comes back to the laws of all answers.
func (r *rig) perform(payload obj) (obj, error) {
	r.t.Helper()
	effect := EffectRead
	if op := payload["op"]; op == "write" || op == "edit" {
		effect = EffectWrite
	}
	return r.raw(r.t.Context(), effect, string(hashref.MustMarshal(payload)))
}

func (r *rig) raw(ctx context.Context, effect, payload string) (obj, error) {
	r.t.Helper()
	out, err := r.h.Perform(ctx, broker.Request{Episode: episode, EffectID: "e1",
		Need: world.Need{Effect: effect, Scope: Scope, Cost: 1}, Payload: []byte(payload)})
	if err != nil {
		return nil, err
	}
	if again, err := hashref.CanonicalObject(out); err != nil || string(again) != string(out) {
		r.t.Fatalf("answer is not canonical (%v): %s", err, out)
	}
	var v obj
	must(r.t, json.Unmarshal(out, &v))
	if v["tool"] != r.h.objects[0].Hash.String() || v["policy_digest"] != r.h.objects[1].Hash.Hex() {
		r.t.Fatalf("answer lacks its tool or policy: %s", out)
	}
	delete(v, "tool")
	delete(v, "policy_digest")
	return v, nil
}

// want demands an answer, apart from tool and policy_digest.
func (r *rig) want(payload, answer obj) {
	r.t.Helper()
	got, err := r.perform(payload)
	must(r.t, err)
	var plain obj
	must(r.t, json.Unmarshal(hashref.MustMarshal(answer), &plain))
	if d := cmp.Diff(plain, got); d != "" {
		r.t.Errorf("%v (-want +got):\n%s", payload, d)
	}
}

// refused demands a refusal with exactly this text.
func (r *rig) refused(payload obj, text string) {
	r.t.Helper()
	r.want(payload, obj{"ok": false, "refused": text})
}

// tidy demands that no temporary file is anywhere, and that outside is as it was.
func (r *rig) tidy() {
	r.t.Helper()
	must(r.t, filepath.WalkDir(r.tree, func(p string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(p), tempPrefix) {
			r.t.Errorf("left behind: %s", p)
		}
		return err
	}))
	names, err := os.ReadDir(r.outside)
	must(r.t, err)
	b, err := os.ReadFile(filepath.Join(r.outside, "secret"))
	must(r.t, err)
	if len(names) != 1 || string(b) != "secret\n" {
		r.t.Errorf("outside was touched: %v %q", names, b)
	}
}

func read(p string) obj     { return obj{"op": "read", "path": p} }
func list(p string) obj     { return obj{"op": "list", "path": p} }
func write(p, c string) obj { return obj{"op": "write", "path": p, "content": c} }
func edit(p, old, nw string) obj {
	return obj{"op": "edit", "path": p, "old_text": old, "new_text": nw}
}

func TestNewRefusesBadConfig(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]Config{
		"missing root": {Root: filepath.Join(dir, "no")},
	} {
		if h, err := New(c); err == nil || h != nil || world.KindOf(err) != world.KindBadRequest || world.Message(err) == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestObjects(t *testing.T) {
	r := newRig(t, "deploy/", "*.pem")
	objs := r.h.Objects()
	if len(objs) != 2 || objs[0].SemanticID != world.SemTool || objs[1].SemanticID != world.SemPolicy {
		t.Fatalf("objects: %v", objs)
	}
	for _, o := range objs {
		if o.Hash != hashref.Sum(o.Payload) {
			t.Errorf("%s: hash is not that of the payload", o.SemanticID)
		}
		if c, err := hashref.Canonical(o.Payload); err != nil || string(c) != string(o.Payload) {
			t.Errorf("%s is not canonical: %s", o.SemanticID, o.Payload)
		}
	}
	if !strings.Contains(string(objs[1].Payload), `"*.pem"`) {
		t.Errorf("the policy does not name the operator's patterns: %s", objs[1].Payload)
	}
	plain := newRig(t)
	if plain.h.objects[1].Hash == r.h.objects[1].Hash {
		t.Error("another policy has the same digest")
	}
	if plain.h.tool != r.h.tool {
		t.Error("the tool depends on the policy")
	}
}

func TestReady(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	ws := filepath.Dir(r.tree)
	must(t, os.Symlink(r.tree, filepath.Join(ws, "link")))
	must(t, os.WriteFile(filepath.Join(ws, "file"), nil, 0o644))
	for _, e := range r.h.Effects() {
		must(t, r.h.Ready(ctx, episode, e, Scope))
	}
	for _, c := range []struct{ episode, effect, scope, want string }{
		{"link", EffectRead, Scope, `the worktree of episode "link" is not a real directory`},
		{"file", EffectRead, Scope, `the worktree of episode "file" is not a real directory`},
		{"gone", EffectWrite, Scope, `episode "gone" has no worktree`},
		{"..", EffectRead, Scope, `episode ".." must be`},
		{"a/b", EffectRead, Scope, `episode "a/b" must be`},
		{episode, EffectRead, "other", `has the scope "worktree" only`},
		{episode, "Git.Read", Scope, `does not perform Git.Read`},
	} {
		if err := r.h.Ready(ctx, c.episode, c.effect, c.scope); !strings.Contains(world.Message(err), c.want) {
			t.Errorf("%v: got %v", c, err)
		}
	}
}

// The worktree may be replaced between calls, and is judged anew at each.
func TestWorktreeReplaced(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"a": "one"})
	r.want(read("a"), obj{"ok": true, "content": "one"})
	must(t, os.Rename(r.tree, r.tree+"-old"))
	if _, err := r.perform(read("a")); world.KindOf(err) != world.KindNotFound {
		t.Errorf("missing worktree: %v", err)
	}
	must(t, os.Symlink(r.tree+"-old", r.tree))
	if _, err := r.perform(read("a")); world.KindOf(err) != world.KindNotFound {
		t.Errorf("worktree is a link: %v", err)
	}
	must(t, os.Remove(r.tree))
	r.put(map[string]string{"a": "two"})
	r.want(read("a"), obj{"ok": true, "content": "two"})
}

func TestPayloadContract(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"a": "x"})
	for _, c := range []struct{ effect, payload, want string }{
		{EffectRead, `{"op":"read","path":"a","x":1}`, "x"},
		{EffectRead, `{"op":"read"}`, `lacks the member "path"`},
		{EffectRead, `{"op":"read","path":1}`, "path"},
		{EffectRead, `{"op":"read","path":"a","from":"1"}`, "from"},
		{EffectRead, `{"op":"read","path":"a","from":1.5}`, "from"},
		{EffectRead, `{"op":"read","path":"a","from":null}`, `"from" must not be null`},
		{EffectRead, `{"op":"read","path":"a","path":"b"}`, `"path"`},
		{EffectRead, `{"path":"a"}`, `"op" must be a string`},
		{EffectRead, `{"op":7,"path":"a"}`, `"op" must be a string`},
		{EffectRead, `{"op":"write","path":"a","content":"x"}`, `has no operation "write"`},
		{EffectWrite, `{"op":"read","path":"a"}`, `has no operation "read"`},
		{EffectWrite, `{"op":"remove","path":"a"}`, `has no operation "remove"`},
		{EffectWrite, `{"op":"write","path":"a"}`, `lacks the member "content"`},
		{EffectWrite, `{"op":"edit","path":"a","old_text":"x"}`, `lacks the member "new_text"`},
		{EffectRead, `{"op":"glob"}`, `lacks the member "pattern"`},
		{EffectRead, `{"op":"grep","pattern":"a","ignore_case":"yes"}`, "ignore_case"},
		{EffectRead, `{"op":"list"}`, `lacks the member "path"`},
		{EffectRead, `[]`, "not a JSON object"},
		{EffectRead, `{`, "not valid JSON"},
	} {
		_, err := r.raw(t.Context(), c.effect, c.payload)
		if world.KindOf(err) != world.KindBadRequest || !strings.Contains(world.Message(err), c.want) {
			t.Errorf("%s %s: got %v", c.effect, c.payload, err)
		}
	}
	if r.content("a") != "x" {
		t.Error("a bad payload changed a file")
	}
}

func TestContextEnds(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"a": "x", "d/b": "y"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, p := range []string{`{"op":"glob","pattern":"**"}`, `{"op":"grep","pattern":"x"}`, `{"op":"read","path":"a"}`} {
		if _, err := r.raw(ctx, EffectRead, p); world.KindOf(err) != world.KindCanceled || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", p, err)
		}
	}
	late, stop := context.WithCancel(t.Context())
	r.h.hooks.resolved = stop // it ends once the path is resolved
	for _, p := range []string{`{"op":"glob","pattern":"**"}`, `{"op":"grep","pattern":"x"}`, `{"op":"read","path":"a","from":1}`, `{"op":"list","path":"."}`} {
		if _, err := r.raw(late, EffectRead, p); world.KindOf(err) != world.KindCanceled {
			t.Errorf("%s: got %v", p, err)
		}
	}
	ctx, stop = context.WithCancel(t.Context())
	r.h.hooks = hooks{written: stop}
	if _, err := r.raw(ctx, EffectWrite, `{"op":"write","path":"n/m/a","content":"z"}`); world.KindOf(err) != world.KindCanceled {
		t.Errorf("write: got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(r.tree, "n")); !os.IsNotExist(err) {
		t.Errorf("folders of a write that did not happen stay: %v", err)
	}
	r.tidy()
}

// A search that runs out of time answers with what it has.
func TestTimeIsShort(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"a": "x", "b": strings.Repeat("x\n", 5000)})
	for _, p := range []string{`{"op":"glob","pattern":"**"}`, `{"op":"grep","pattern":"x"}`, `{"op":"grep","pattern":"nothing","path":"b"}`} {
		ctx, cancel := context.WithTimeout(t.Context(), answerGrace-time.Millisecond)
		got, err := r.raw(ctx, EffectRead, p)
		cancel()
		if err != nil || got["ok"] != true || got["truncated"] != true {
			t.Errorf("%s: %v %v", p, got, err)
		}
	}
}
