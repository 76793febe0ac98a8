package starlark

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/capsuletest"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// fuzzDeadline bounds one run of a fuzzed source.
const fuzzDeadline = time.Second

// FuzzSource states: whatever the source, a worker ends its run within the deadline with an
// output or an error of the contract; it loads if and only if Check says so; and if no limit
// of the process ended it, the interpreter in this process gives the same bytes or the
// same error, and does not panic.
func FuzzSource(f *testing.F) {
	vectors, err := loadVectors()
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range vectors {
		if !v.Slow {
			f.Add(v.Source)
		}
	}
	for _, source := range language().Broken {
		f.Add(string(source))
	}
	remote, local := newEngine(f, nil), newEngine(f, trustAll)
	f.Cleanup(func() { remote.Close(); local.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		src, input := capsule.NewSource([]byte(text)), []byte(`{"phase":"plan","args":{"path":"a"}}`)
		checkErr := remote.Check(t.Context(), src)
		got, gotErr := runWithin(t, remote, src, input)
		if world.KindOf(gotErr) == world.KindDeadline || diedOf(gotErr) || diedOf(checkErr) {
			return // the process would be ours next
		}
		if (checkErr != nil) != (world.KindOf(gotErr) == world.KindConvention && gotErr != nil) {
			t.Errorf("Check says %v, Run says %v", checkErr, gotErr)
		}
		same, sameErr := runWithin(t, local, src, input)
		if world.KindOf(sameErr) == world.KindDeadline {
			return // the same run, on a busier machine
		}
		if !bytes.Equal(got, same) || fmt.Sprint(gotErr) != fmt.Sprint(sameErr) {
			t.Errorf("worker: %q, %v\nhere: %q, %v", got, gotErr, same, sameErr)
		}
		if sameErr != nil && strings.Contains(sameErr.Error(), "panicked") {
			t.Error(sameErr)
		}
	})
}

func diedOf(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "the worker ended") || strings.Contains(err.Error(), "takes longer than"))
}

func runWithin(t *testing.T, e *Engine, src capsule.Source, input []byte) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fuzzDeadline)
	defer cancel()
	begun := time.Now()
	out, err := e.Run(ctx, src, input)
	if took := time.Since(begun); took > fuzzDeadline+capsuletest.Prompt {
		t.Errorf("took %v", took)
	}
	var e2 *world.Error
	if err != nil && !errors.As(err, &e2) {
		t.Errorf("not an error of the contract: %v", err)
	}
	switch world.KindOf(err) {
	case world.KindConvention, world.KindExecution, world.KindBadOutput, world.KindDeadline:
	default:
		if err != nil {
			t.Errorf("not a kind of the contract: %v", err)
		}
	}
	return out, err
}

const roundTripMain = `
def main(text):
    return json.encode(json.decode(text))
`

// FuzzInput states two properties for every input text. A canonical JSON value comes out of
// json.decode and json.encode unharmed. And std.tool answers every plan phase with a plan
// that keeps the law's form: an effect with exactly the path that was asked for if that
// path is sound, and otherwise a refusal; what is no plan phase fails.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`{"phase":"plan","args":{"path":"a/b"}}`, `{"phase":"plan","args":{"path":"../b"}}`, `{"phase":"plan","args":{"path":"a\u0000é"}}`,
		`{"phase":"plan","args":{"path":1,"q":[]}}`, `{"phase":"plan","args":[]}`, `{"phase":"finish"}`, `[1,-0.0,1e-7,9007199254740991,"😀\ud83d\ude00"]`,
		`{"a":1,"a":2}`, `"\ud800"`, `[[[[[]]]]]`, "\"\x7f\u2028\"", `1e400`, `{"phase":"plan","args":{"path":"-x"}}`, `{"phase":"plan","args":{"path":"x/..y"}}`,
	} {
		f.Add(seed)
	}
	e := newEngine(f, trustAll)
	f.Cleanup(func() { e.Close() })
	trip, tool := capsule.NewSource([]byte(roundTripMain)), capsule.NewSource([]byte(toolMain))
	f.Fuzz(func(t *testing.T, text string) {
		checkRoundTrip(t, e, trip, text)
		checkTool(t, e, tool, text)
	})
}

func checkRoundTrip(t *testing.T, e *Engine, trip capsule.Source, text string) {
	t.Helper()
	want, err := hashref.Canonical([]byte(text))
	if err != nil {
		return // json may know more than canonical JSON, but need not
	}
	out, err := runWithin(t, e, trip, []byte(text))
	if err != nil {
		t.Errorf("canonical JSON fails: %v", err)
		return
	}
	if got, err := hashref.Canonical(out); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s came back as %s: %v", want, out, err)
	}
}

// planForm is the form of a plan, its keys to the letter.
type planForm struct {
	Plan    string       `json:"plan"`
	Effects []effectForm `json:"effects"`
	Finish  bool         `json:"finish"`
	Result  *struct {
		OK      bool   `json:"ok"`
		Refused string `json:"refused"`
	} `json:"result"`
}

type effectForm struct {
	ID      string `json:"id"`
	Effect  string `json:"effect"`
	Scope   string `json:"scope"`
	Cost    int64  `json:"cost"`
	Payload struct {
		Op   string `json:"op"`
		Path string `json:"path"`
	} `json:"payload"`
}

func checkTool(t *testing.T, e *Engine, tool capsule.Source, text string) {
	t.Helper()
	var call struct {
		Phase string         `json:"phase"`
		Args  map[string]any `json:"args"`
	}
	canonical, err := hashref.CanonicalObject([]byte(text))
	planned := err == nil && hashref.DecodeKnown(canonical, &call) == nil && call.Phase == "plan"
	out, err := runWithin(t, e, tool, []byte(text))
	if err != nil {
		if planned {
			t.Errorf("a plan phase fails: %v", err)
		}
		return
	}
	var plan planForm
	if err := hashref.Decode(out, &plan); err != nil || plan.Plan != world.SemPlanV1 || plan.Finish {
		t.Fatalf("no plan: %v: %s", err, out)
	}
	if (len(plan.Effects) == 0) != (plan.Result != nil) {
		t.Fatalf("neither an effect nor a refusal, or both: %s", out)
	}
	if !planned {
		return
	}
	path, ok := call.Args["path"].(string)
	if sound := ok && len(call.Args) == 1 && soundPath(path) && path != "secret"; sound != (plan.Result == nil) {
		t.Errorf("path %q, sound: %v, plan %s", path, sound, out)
	} else if sound && plan.Effects[0].Payload.Path != path {
		t.Errorf("asked for %q, planned %q", path, plan.Effects[0].Payload.Path)
	}
}

// soundPath says the same as std.path in other words.
func soundPath(p string) bool {
	padded := "/" + p + "/"
	return p != "" && !strings.HasPrefix(padded, "//") && !strings.HasPrefix(p, "-") &&
		!strings.ContainsRune(p, 0) && !strings.Contains(padded, "/../")
}
