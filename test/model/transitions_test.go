package model

import "fmt"

// transition is one published transition as the model knows it, with its source.
type transition struct {
	access grant
	pure   bool
	gated  bool   // its effect needs an approval
	files  bool   // its handler is the workspace's
	msg    string // how its plan phase fails
	needs  string // declaredEffects, as JSON
	text   string // with %d for the version
	// run is what a pure one gives, or how it fails.
	run func(a args, version int) (out map[string]any, msg string)
	// plan is what an effectful one plans.
	plan func(a args) (rounds [][]deed, finish bool)
}

const (
	testNeeds = `[{"effect":"Test.Do","scope":"s","cost":0},{"effect":"Test.Do","scope":"s","cost":1},{"effect":"Test.Do","scope":"s","cost":3},` +
		`{"effect":"Test.Do","scope":"t","cost":1},{"effect":"Test.Other","scope":"s","cost":1}]`
	helpers = `
VERSION = %d

def effects(a, i):
    n = a.get("n", 0)
    return [std.effect(e["id"], e["effect"], e["scope"], e["cost"], {"how": e["how"], "n": n}) for e in a["rounds"][i]]

def end(call):
    how = call["args"].get("end", "")
    if how == "fail":
        fail("as it was asked to")
    if how == "list":
        return "[]"
    if how == "world":
        return json.encode({"world": 1})
    seen = [[r["id"], r["status"], r.get("denial", ""), r["output"]] for r in call["results"]]
    return json.encode({"seen": seen, "version": VERSION})
`
)

var testAccess = grant{"Test.Do", "s", 1}

func asAsked(a args) ([][]deed, bool) { return a.Rounds, false }

var transitions = map[string]*transition{
	"echo": {access: testAccess, pure: true, needs: "[]",
		text: "def main(text):\n    return json.encode({\"echo\": json.decode(text), \"version\": %d})\n",
		run: func(a args, version int) (map[string]any, string) {
			return map[string]any{"echo": a, "version": version}, ""
		}},
	"fails": {access: testAccess, pure: true, needs: "[]", text: "def main(text):\n    fail(\"version %d\")\n",
		run: func(args, int) (map[string]any, string) { return nil, msgExecution }},
	"list": {access: testAccess, pure: true, needs: "[]", text: "def main(text):\n    return \"[%d]\"\n",
		run: func(args, int) (map[string]any, string) { return nil, msgOutput }},
	"plain": {access: testAccess, needs: testNeeds, plan: asAsked, text: helpers + `
def main(text):
    a = json.decode(text)["args"]
    e = effects(a, 0)[0]
    return std.plan(e["effect"], e["scope"], e["cost"], e["payload"], id = e["id"])
`},
	"told": {access: testAccess, needs: testNeeds, plan: func(a args) ([][]deed, bool) { return a.Rounds, true }, text: helpers + `
def main(text):
    call = json.decode(text)
    if call["phase"] == "finish":
        return end(call)
    e = effects(call["args"], 0)[0]
    return std.plan(e["effect"], e["scope"], e["cost"], e["payload"], id = e["id"], finish = True)
`},
	"many": {access: testAccess, needs: testNeeds, plan: func(a args) ([][]deed, bool) { return a.Rounds, a.Finish }, text: helpers + `
def main(text):
    call = json.decode(text)
    a = call["args"]
    i = call.get("round", 0)
    if i < len(a["rounds"]):
        return std.plans(effects(a, i), finish = a.get("finish", False))
    return end(call)
`},
	"refuses": {access: testAccess, needs: testNeeds, plan: func(args) ([][]deed, bool) { return nil, false },
		text: "# version %d\ndef main(text):\n    return std.refuse(\"by the plan\")\n"},
	"breaks": {access: testAccess, needs: testNeeds, msg: msgConvention, plan: func(args) ([][]deed, bool) { return nil, false },
		text: "# version %d\ndef main(text):\n    return json.encode({\"plan\": \"world/effect-plan/v9\"})\n"},
	"gated": {access: testAccess, gated: true, needs: `[{"effect":"Test.Do","scope":"s","cost":0,"approval":true},{"effect":"Test.Do","scope":"s","cost":1,"approval":true}]`,
		plan: func(a args) ([][]deed, bool) {
			return [][]deed{{{ID: "e1", Effect: "Test.Do", Scope: "s", Cost: int64(min(a.N, 1)), How: "ok"}}}, false
		},
		text: "# version %d\ndef main(text):\n    n = json.decode(text)[\"args\"].get(\"n\", 0)\n    return std.plan(\"Test.Do\", \"s\", min(n, 1), {\"how\": \"ok\", \"n\": n})\n"},
	"workspace-edit":  {access: grant{"Workspace.Write", "worktree", 1}, files: true, plan: writes},
	"workspace-write": {access: grant{"Workspace.Write", "worktree", 1}, files: true, plan: writes},
}

func writes(args) ([][]deed, bool) {
	return [][]deed{{{ID: "e1", Effect: "Workspace.Write", Scope: "worktree", Cost: 1}}}, false
}

// source is the text of a version.
func (t *transition) source(version int) string {
	if t.files {
		return t.text // it ships
	}
	return fmt.Sprintf(t.text, version)
}

// declares tells whether a round keeps the laws: what it plans is declared, and its ids were
// not used before.
func (t *transition) declares(rounds [][]deed, round int) bool {
	if round >= len(rounds) {
		return true
	}
	used := map[string]bool{}
	for _, r := range rounds[:round] {
		for _, d := range r {
			used[d.ID] = true
		}
	}
	for _, d := range rounds[round] {
		if d.Effect == "Test.Strange" || used[d.ID] {
			return false
		}
		used[d.ID] = true
	}
	return true
}
