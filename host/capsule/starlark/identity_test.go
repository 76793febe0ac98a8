package starlark

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	star "go.starlark.net/starlark"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

var update = flag.Bool("update", false, "rewrite what the golden vectors expect: only together with a new Dialect")

// TestVectors holds the interpreter to its golden vectors. A failure after an upgrade of
// go.starlark.net means that the upgrade cannot run under this identity.
func TestVectors(t *testing.T) {
	all, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d vectors", len(all))
	}
	m := testMachine(t)
	for i, v := range all {
		got := m.reproduce(v)
		if *update {
			all[i] = got
			continue
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", v.Name, diff)
		}
	}
	if *update {
		writeVectors(t, all)
	}
}

func writeVectors(t *testing.T, all []vector) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("vectors.json", b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestVectorsCoverEveryBuiltin keeps a builtin that nobody pinned out of the dialect.
func TestVectorsCoverEveryBuiltin(t *testing.T) {
	all, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, v := range all {
		text.WriteString(v.Source)
	}
	for name := range star.Universe {
		if !strings.Contains(text.String(), name) {
			t.Errorf("no vector uses the builtin %s", name)
		}
	}
}

// TestUniverse pins the names a source can see.
func TestUniverse(t *testing.T) {
	var got []string
	for name := range star.Universe {
		got = append(got, name)
	}
	for name := range testMachine(t).predeclared {
		if name != "print" {
			got = append(got, name)
		}
	}
	sort.Strings(got)
	want := "False None True abs all any bool bytes chr dict dir enumerate fail float getattr hasattr hash int json len list max min ord " +
		"print range repr reversed set sorted std str tuple type zip"
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestIdentity(t *testing.T) {
	id := newIdentity()
	if id.Ref != id.Object.Hash || id.Ref != hashref.Sum(id.Object.Payload) || id.Object.SemanticID != world.SemInterpreter {
		t.Errorf("identity does not address its object: %+v", id)
	}
	var obj engineObject
	if err := hashref.Decode(id.Object.Payload, &obj); err != nil {
		t.Fatal(err)
	}
	if obj.Std != hashref.Sum(stdSource) || obj.Vectors != hashref.Sum(vectorsFile) || obj.Limits.Steps != StepLimit || obj.Dialect != Dialect {
		t.Errorf("engine object: %s", id.Object.Payload)
	}
	if canonical, err := hashref.Canonical(id.Object.Payload); err != nil || !bytes.Equal(canonical, id.Object.Payload) {
		t.Errorf("the engine object is not canonical: %v", err)
	}
}

// TestProveVectors shows that an engine that behaves otherwise is not made.
func TestProveVectors(t *testing.T) {
	m := testMachine(t)
	if err := m.proveVectors(); err != nil {
		t.Fatal(err)
	}
	m.predeclared = star.StringDict{"json": m.predeclared["json"], "std": m.predeclared["json"], "print": m.predeclared["print"]}
	m.loaded = newCache()
	if err := m.proveVectors(); err == nil {
		t.Error("another std reproduces the vectors")
	}
}
