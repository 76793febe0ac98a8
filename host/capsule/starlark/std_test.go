package starlark

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/hashref"
)

const argsMain = `
SPECS = [
    std.path("path"),
    std.string("text", default = "none"),
    std.int("limit", required = False, min = 1, max = 10),
    std.bool("deep", default = False),
    std.list("tags", default = []),
    std.object("extra", required = False),
]
def main(text):
    got = std.args("read", json.decode(text), SPECS)
    return json.encode({"ok": got.ok, "values": got.values, "refused": got.refused})
`

func TestStdArgs(t *testing.T) {
	refused := func(text string) string {
		return string(hashref.MustMarshal(map[string]any{"ok": false, "values": struct{}{}, "refused": text}))
	}
	const pathRule = ` refused: it must be relative and non-empty, with no ".." segment and no leading "-"`
	tests := []struct{ args, want string }{
		{`{"path":"a/b.txt"}`, `{"ok":true,"refused":null,"values":{"deep":false,"extra":null,"limit":null,"path":"a/b.txt","tags":[],"text":"none"}}`},
		{`{"path":"é/..b","text":"","limit":10,"deep":true,"tags":[1],"extra":{"a":{}}}`,
			`{"ok":true,"refused":null,"values":{"deep":true,"extra":{"a":{}},"limit":10,"path":"é/..b","tags":[1],"text":""}}`},
		{`{"path":"a","limit":3.0}`, `{"ok":true,"refused":null,"values":{"deep":false,"extra":null,"limit":3,"path":"a","tags":[],"text":"none"}}`},
		{`{}`, refused(`missing required argument "path"`)},
		{`{"z":1,"b":1}`, refused(`unknown argument "b"; read admits only: path, text, limit, deep, tags, extra`)},
		{`{"path":1,"q\"":1}`, refused(`unknown argument "q\""; read admits only: path, text, limit, deep, tags, extra`)},
		{`{"path":null}`, refused(`argument "path" must be a string`)},
		{`{"path":"a","text":1}`, refused(`argument "text" must be a string`)},
		{`{"path":"a","limit":true}`, refused(`argument "limit" must be an integer`)},
		{`{"path":"a","limit":1.5}`, refused(`argument "limit" must be an integer`)},
		{`{"path":"a","limit":"1"}`, refused(`argument "limit" must be an integer`)},
		{`{"path":"a","limit":0}`, refused(`argument "limit" must be from 1 to 10`)},
		{`{"path":"a","limit":11}`, refused(`argument "limit" must be from 1 to 10`)},
		{`{"path":"a","deep":1}`, refused(`argument "deep" must be a boolean`)},
		{`{"path":"a","tags":{}}`, refused(`argument "tags" must be a list`)},
		{`{"path":"a","extra":[]}`, refused(`argument "extra" must be an object`)},
		{`{"path":""}`, refused(`path ""` + pathRule)},
		{`{"path":"/etc/passwd"}`, refused(`path "/etc/passwd"` + pathRule)},
		{`{"path":"a/../b"}`, refused(`path "a/../b"` + pathRule)},
		{`{"path":".."}`, refused(`path ".."` + pathRule)},
		{`{"path":"-rf"}`, refused(`path "-rf"` + pathRule)},
		{`{"path":"a\u0000b"}`, refused(`path "a\u0000b"` + pathRule)},
		{`[]`, refused(`the arguments of read must be an object`)},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, runObject(t, argsMain, tt.args)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestStdNoSpecsAndHalfRanges(t *testing.T) {
	const src = `
def main(text):
    a = json.decode(text)
    return json.encode({
        "none": std.args("now", {"x": 1}, []).refused,
        "low": std.args("t", a, [std.int("n", min = 5)]).refused,
        "high": std.args("t", a, [std.int("n", max = 3)]).refused,
        "zero": std.args("t", {}, [std.int("n", default = 0)]).values,
    })
`
	want := `{"high":"argument \"n\" must be at most 3","low":"argument \"n\" must be at least 5",` +
		`"none":"unknown argument \"x\"; now admits no arguments","zero":{"n":0}}`
	if diff := cmp.Diff(want, runObject(t, src, `{"n":4}`)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// toolMain is the usual transition with one effect: two lines.
const toolMain = `
def plan(v):
    if v["path"] == "secret":
        return std.refuse("no")
    return std.plan("Workspace.Read", "worktree", 1, {"op": "read", "path": v["path"]})

def main(text):
    return std.tool(text, "read", [std.path("path")], plan)
`

const finishMain = `
def plan(v):
    return std.plan("Git.Read", "worktree", 2, {"op": "log"}, id = "log", finish = True)

def shape(v, results):
    return {"n": v["n"], "status": results[0]["status"], "output": results[0]["output"]}

def main(text):
    return std.finish(text, "log", [std.int("n", default = 3)], plan, shape)
`

func TestStdPlans(t *testing.T) {
	tests := []struct{ name, source, input, want string }{
		{"tool plans", toolMain, `{"phase":"plan","args":{"path":"a"}}`,
			`{"effects":[{"cost":1,"effect":"Workspace.Read","id":"e1","payload":{"op":"read","path":"a"},"scope":"worktree"}],"finish":false,"plan":"world/effect-plan/v1","result":null}`},
		{"tool refuses arguments", toolMain, `{"phase":"plan","args":{}}`,
			`{"effects":[],"finish":false,"plan":"world/effect-plan/v1","result":{"ok":false,"refused":"missing required argument \"path\""}}`},
		{"plan refuses", toolMain, `{"phase":"plan","args":{"path":"secret"}}`,
			`{"effects":[],"finish":false,"plan":"world/effect-plan/v1","result":{"ok":false,"refused":"no"}}`},
		{"finish plans", finishMain, `{"phase":"plan","args":{}}`,
			`{"effects":[{"cost":2,"effect":"Git.Read","id":"log","payload":{"op":"log"},"scope":"worktree"}],"finish":true,"plan":"world/effect-plan/v1","result":null}`},
		{"finish shapes", finishMain, `{"phase":"finish","args":{"n":4},"results":[{"id":"log","effect":"Git.Read","status":"ok","record":"sha256:0","output":{"a":1}}]}`,
			`{"n":4,"output":{"a":1},"status":"ok"}`},
		{"finish refuses arguments", finishMain, `{"phase":"plan","args":{"m":1}}`,
			`{"effects":[],"finish":false,"plan":"world/effect-plan/v1","result":{"ok":false,"refused":"unknown argument \"m\"; log admits only: n"}}`},
		{"pure", pureMain, `{"a":2,"b":3}`, `{"sum":5}`},
		{"pure refuses", pureMain, `{"a":2}`, `{"ok":false,"refused":"missing required argument \"b\""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, runObject(t, tt.source, tt.input)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

const pureMain = `
def main(text):
    return std.pure(text, "add", [std.int("a"), std.int("b")], lambda v: {"sum": v["a"] + v["b"]})
`

func TestStdRefusesWrongPhase(t *testing.T) {
	for _, input := range []string{`{"phase":"finish","args":{}}`, `[]`, `{}`} {
		res := testMachine(t).run(context.Background(), capsule.NewSource([]byte(toolMain)), []byte(input))
		if res.Status != worker.Execution || !strings.Contains(res.Cause, "no phase that this transition has") {
			t.Errorf("input %s: status %d, cause %q", input, res.Status, res.Cause)
		}
	}
}

func testMachine(t testing.TB) *machine {
	t.Helper()
	m, err := newMachine()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// runObject runs a source in this process and canonicalises its output.
func runObject(t *testing.T, source, input string) string {
	t.Helper()
	res := testMachine(t).run(context.Background(), capsule.NewSource([]byte(source)), []byte(input))
	if res.Status != worker.OK {
		t.Fatalf("status %d: %s%s", res.Status, res.Msg, res.Cause)
	}
	out, err := hashref.CanonicalObject(res.Out)
	if err != nil {
		t.Fatalf("%v: %s", err, res.Out)
	}
	return string(out)
}
