package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// archived puts a program of this text into an archive.
func archived(t testing.TB, dir, text string) world.Ref {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	ref, _, err := Add(dir, path)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestAdd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(t.TempDir(), "program")
	put := func(text string, mode os.FileMode) {
		t.Helper()
		_ = os.Remove(path)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("one", 0o755)
	ref, fresh, err := Add(dir, path)
	if err != nil || !fresh || ref != hashref.SumString("one") {
		t.Fatalf("%v, %v, %v", ref, fresh, err)
	}
	if again, fresh, err := Add(dir, path); err != nil || fresh || again != ref {
		t.Errorf("again: %v, %v, %v", again, fresh, err)
	}
	if named, err := RefOf(path); err != nil || named != ref {
		t.Errorf("%v, %v", named, err)
	}
	if err := WriteVersion(dir, ref, "v1"); err != nil || ReadVersion(dir, ref) != "v1" {
		t.Errorf("%v, %q", err, ReadVersion(dir, ref))
	}
	two := archived(t, dir, "two")
	for _, name := range []string{"README", Unfinished + "1", strings.ToUpper(ref.Hex())} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refs, err := Refs(dir, 100)
	if d := cmp.Diff(map[world.Ref]bool{ref: true, two: true}, map[world.Ref]bool{refs[0]: true, refs[1]: true}); err != nil || d != "" || len(refs) != 2 {
		t.Errorf("%v, %v: %s", refs, err, d)
	}
	Sweep(dir)
	if _, err := os.Stat(filepath.Join(dir, Unfinished+"1")); !os.IsNotExist(err) {
		t.Errorf("half a file stays: %v", err)
	}
	for name, change := range map[string]func(){
		"is not executable": func() { put("x", 0o644) },
		"is a script":       func() { put("#!/bin/sh\n", 0o755) },
		"is empty":          func() { put("", 0o755) },
		"no such file":      func() { _ = os.Remove(path) },
		"is a folder":       func() { _ = os.Mkdir(path, 0o755) },
	} {
		put("sound", 0o755)
		_ = os.Remove(path)
		change()
		if _, _, err := Add(dir, path); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Forget(dir, two, false); err != nil || New(dir, two, "test", t.Logf).Prove() != nil {
		t.Errorf("what was there before is gone: %v", err)
	}
	if err := Forget(dir, two, true); err != nil || New(dir, two, "test", t.Logf).Prove() == nil {
		t.Errorf("what is forgotten is there: %v", err)
	}
}
