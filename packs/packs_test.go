package packs_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
	"ailang.dev/world/packs/packtest"
)

func TestLoad(t *testing.T) {
	var names []string
	trusted := packs.Trusted()
	for _, p := range packs.All() {
		names = append(names, p.Name)
		loaded, err := packs.Load(p.Name)
		packtest.Must(t, err)
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
	if slices.Contains(names, "examples") || slices.Contains(names, "demo") || slices.Contains(names, "magisterium") {
		t.Error("what is published only by name is among what is always published")
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
	for pack, ids := range map[string][]string{
		"workspace": {"workspace-read", "workspace-write", "workspace-edit", "workspace-apply", "workspace-list", "workspace-glob", "workspace-grep",
			"workspace-status", "workspace-diff", "workspace-log", "workspace-show", "workspace-commit", "workspace-exec", "workspace-job"},
		"se-tools": {"ailang-read", "ailang-write", "ailang-edit", "ailang-check", "ailang-run", "builtins-search", "examples-search",
			"ailang-cli"},
		"human":       {"approval-request", "approval-poll"},
		"examples":    {"tools.echo"},
		"demo":        {"demo.answer", "demo.fail", "demo.slow"},
		"magisterium": {"catholic_qa", "document_search", "document_fetch", "liturgical_readings", "saints_of_the_day"},
	} {
		p, err := packs.Load(pack)
		packtest.Must(t, err)
		b := packtest.New(t, pack)
		var got, files []string
		for _, tl := range b.Tools {
			got, files = append(got, tl.ID), append(files, tl.File)
			packtest.Must(t, b.Engine.Check(t.Context(), tl.Source))
			checkTool(t, tl)
			if pack == "magisterium" {
				checkSkill(t, tl)
			} else if !tl.Pure() {
				checkEffectful(t, tl)
			}
		}
		if d := cmp.Diff(ids, got); d != "" {
			t.Errorf("%s: %s", pack, d)
		}
		if d := cmp.Diff(slices.Sorted(maps.Keys(p.Files)), slices.Sorted(slices.Values(files))); d != "" {
			t.Errorf("%s: the files and those that the manifest names differ: %s", pack, d)
		}
	}
}

func checkTool(t *testing.T, tl packtest.Tool) {
	t.Helper()
	if tl.Title == "" || len(tl.Description) < 80 || tl.Annotations == nil || tl.Annotations.OpenWorldHint == nil ||
		*tl.Annotations.OpenWorldHint != slices.ContainsFunc(tl.DeclaredEffects, func(n world.Need) bool { return n.Effect == "Model.Infer" }) {
		t.Errorf("%s: title, description or annotations are wanting", tl.ID)
	}
	packtest.Must(t, tl.Access.Check())
	var out struct {
		Type     string   `json:"type"`
		Schema   string   `json:"$schema"` // clients refuse a dialect that they do not know
		Required []string `json:"required"`
	}
	packtest.Must(t, json.Unmarshal(tl.OutputSchema, &out))
	if out.Type != "object" || out.Schema != "" || slices.Contains(out.Required, "world") {
		t.Errorf("%s: output schema: %+v", tl.ID, out)
	}
}

// looking are effects that change nothing, though calls with them run alone in their episode.
var looking = []string{"Ailang.Check", "Ailang.Discover", "Ailang.CLI"}

func checkEffectful(t *testing.T, tl packtest.Tool) {
	t.Helper()
	if d := cmp.Diff([]world.Need{tl.Access}, tl.DeclaredEffects); d != "" || tl.Access.Scope != scopeOf(tl.Access.Effect) || tl.Access.Cost != 1 {
		t.Errorf("%s: access is not its one effect: %s", tl.ID, d)
	}
	if *tl.Annotations.ReadOnlyHint != (world.EffectReads(tl.Access.Effect) || slices.Contains(looking, tl.Access.Effect)) {
		t.Errorf("%s: readOnlyHint does not fit %s", tl.ID, tl.Access.Effect)
	}
	checkInputs(t, tl)
}

// checkSkill: skills are for every user, and plan what each default plan grants.
func checkSkill(t *testing.T, tl packtest.Tool) {
	t.Helper()
	if want := (world.Need{Effect: "Skills.Use", Scope: "public"}); tl.Access != want || !*tl.Annotations.ReadOnlyHint || tl.TextArgument == "" {
		t.Errorf("%s: access %v, annotations %+v, text argument %q", tl.ID, tl.Access, tl.Annotations, tl.TextArgument)
	}
	if want := map[bool]string{true: "expensive", false: "default"}[tl.ID == "catholic_qa"]; tl.RateClass != want {
		t.Errorf("%s: rate class %q", tl.ID, tl.RateClass)
	}
	for _, n := range tl.DeclaredEffects {
		granted := slices.ContainsFunc(authority.DefaultPlans()["pro"].Grants, func(g authority.PlanGrant) bool {
			return g.Effect == n.Effect && g.Scope == n.Scope
		})
		if !granted || n.Cost != 1 {
			t.Errorf("%s: %v is not in the default plans", tl.ID, n)
		}
	}
	checkInputs(t, tl)
}

func checkInputs(t *testing.T, tl packtest.Tool) {
	t.Helper()
	var in struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
		Additional *bool `json:"additionalProperties"`
	}
	packtest.Must(t, json.Unmarshal(tl.InputSchema, &in))
	if in.Additional == nil || *in.Additional {
		t.Errorf("%s: the input schema admits more than its arguments", tl.ID)
	}
	for name, p := range in.Properties {
		if p.Description == "" {
			t.Errorf("%s: argument %q is not described", tl.ID, name)
		}
	}
}

// The output schemas admit what the daemon itself answers, and not just anything.
func TestOutputSchemas(t *testing.T) {
	const w = `"world":{"plan":"sha256:00","effects":[{"id":"e1","status":"denied","record":null}]}`
	for _, pack := range []string{"workspace", "se-tools", "magisterium"} {
		for _, tl := range packtest.New(t, pack).Tools {
			for _, good := range []string{`{"ok":false,"refused":"denied:budget",` + w + `}`,
				`{"ok":false,"refused":"effect failed: no space left in the worktree; nothing was changed",` + w + `}`} {
				if err := packtest.Valid(tl.Out, good); err != nil {
					t.Errorf("%s: %s: %v", tl.ID, good, err)
				}
			}
			for _, bad := range []string{`{}`, `{"ok":true}`, `{"ok":false}`, `{"ok":"true","refused":"x"}`, `{"ok":false,"refused":1}`, `{"refused":"x"}`} {
				if packtest.Valid(tl.Out, bad) == nil {
					t.Errorf("%s: the output schema admits %s", tl.ID, bad)
				}
			}
		}
	}
}

// scopeOf is the scope of each effect that ships.
func scopeOf(effect string) string {
	if strings.HasPrefix(effect, "Human.") {
		return "operator"
	}
	return "worktree"
}
