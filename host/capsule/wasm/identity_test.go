package wasm

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

var update = flag.Bool("update", false, "rewrite what the golden vectors expect: only together with a new Dialect")

func testMachine(t testing.TB, compile int) *machine {
	t.Helper()
	m, err := newMachine(compile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestVectors holds both ways of running a module, compiled and interpreted, to the golden
// vectors. A failure after an upgrade of wazero means that the upgrade cannot run under
// this identity.
func TestVectors(t *testing.T) {
	all, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	for name, compile := range map[string]int{"compiled": capsule.MaxSource, "interpreted": 0} {
		t.Run(name, func(t *testing.T) {
			m := testMachine(t, compile)
			for i, v := range all {
				if v.File == spinning && compile == 0 {
					continue // ten seconds; TestBothWaysCountAlike has it with fewer steps
				}
				got, err := m.reproduce(v)
				if err != nil {
					t.Fatal(err)
				}
				if *update {
					all[i] = got
				} else if diff := cmp.Diff(v, got, cmp.Comparer(func(x, y world.Ref) bool { return x == y })); diff != "" {
					t.Errorf("%s: -want +got:\n%s", v.Name, diff)
				}
			}
		})
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
	if err := os.WriteFile(vectorList, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
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
	list, err := vectorFiles.ReadFile(vectorList)
	if err != nil {
		t.Fatal(err)
	}
	if obj.Vectors != hashref.Sum(list) || obj.Limits.Steps != StepLimit || obj.Dialect != Dialect {
		t.Errorf("engine object: %s", id.Object.Payload)
	}
}

// TestVectorsNameTheirModules: the list, which the identity hashes, holds each module's
// hash, and every module beside it is run by one.
func TestVectorsNameTheirModules(t *testing.T) {
	all, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{vectorList: true}
	for _, v := range all {
		used["vectors/"+v.File] = true
		text, err := vectorFiles.ReadFile("vectors/" + v.File)
		if err != nil || hashref.Sum(text) != v.Module {
			t.Errorf("%s: %s is not %v: %v", v.Name, v.File, v.Module, err)
		}
	}
	files, err := vectorFiles.ReadDir("vectors")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !used["vectors/"+f.Name()] {
			t.Errorf("no vector runs %s", f.Name())
		}
	}
}

// TestProveVectors: an engine that gives other bytes, or takes another number of steps,
// does not start.
func TestProveVectors(t *testing.T) {
	if err := proveVectors(); err != nil {
		t.Fatal(err)
	}
	all, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	m := testMachine(t, compileBytes)
	for name, change := range map[string]func(*vector){
		"output": func(v *vector) { v.Output += " " }, "steps": func(v *vector) { v.Steps++ },
		"error": func(v *vector) { v.Error = "execution" }, "module": func(v *vector) { v.Module = hashref.SumString("x") },
	} {
		t.Run(name, func(t *testing.T) {
			v := all[0]
			change(&v)
			if err := m.prove([]vector{v}); err == nil {
				t.Errorf("%+v was taken as proof", v)
			}
		})
	}
}
