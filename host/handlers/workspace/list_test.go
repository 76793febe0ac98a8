package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"b": "12", "a/x": "", ".git/config": "c", "é": "1", "B": ""})
	r.link("b", "l")
	r.link("../../outside/secret", "out")
	r.mkfifo("pipe")
	got, err := r.perform(list("."))
	must(t, err)
	var lines []string
	for _, e := range got["entries"].([]any) {
		e := e.(obj)
		lines = append(lines, fmt.Sprint(e["name"], " ", e["type"]))
		if e["name"] == "b" && e["size"] != 2.0 {
			t.Errorf("size of b: %v", e["size"])
		}
	}
	want := ".git directory|B file|a directory|b file|l symlink|out symlink|pipe other|é file"
	if s := strings.Join(lines, "|"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	r.want(list("a"), obj{"ok": true, "entries": []any{obj{"name": "x", "type": "file", "size": 0}}, "truncated": false})
	must(t, os.Mkdir(filepath.Join(r.tree, "none"), 0o755))
	r.want(list("none/"), obj{"ok": true, "entries": []any{}, "truncated": false})
	must(t, os.WriteFile(filepath.Join(r.tree, "none", "n\xff\xc3"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(r.tree, "none", "n\n\""), nil, 0o644))
	r.want(list("none"), obj{"ok": true, "truncated": false, "entries": []any{
		obj{"name": "n\n\"", "type": "file", "size": 0}, obj{"name": `n\xff\xc3`, "type": "file", "size": 0, "escaped": true}}})
}

func TestListIsBounded(t *testing.T) {
	r := newRig(t)
	for i := range MaxListing/(200+82) + 10 {
		must(t, os.WriteFile(filepath.Join(r.tree, fmt.Sprintf("%0200d", i)), nil, 0o644))
	}
	got, err := r.perform(list("."))
	must(t, err)
	n := len(got["entries"].([]any))
	if got["truncated"] != true || n < 3000 || n > MaxListing/(200+82) {
		t.Errorf("truncated %v after %d", got["truncated"], n)
	}
}

func TestGlob(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"a.go": "", "a/b.go": "", "a/c/d.go": "", "a/c/d.txt": "", "a.b/x.go": "", ".git/x.go": "", "sub/.git": "",
		".hidden/y.go": "", "[x]/z.go": "", "Z.GO": "", "node_modules/p/q.go": ""})
	r.link("a.go", "link.go")
	r.link("a", "dirlink")
	glob := func(pattern, path string, limit int) obj {
		o := obj{"op": "glob", "pattern": pattern}
		if path != "" {
			o["path"] = path
		}
		if limit != 0 {
			o["limit"] = limit
		}
		return o
	}
	for _, c := range []struct {
		ask  obj
		want string
		cut  bool
	}{
		{glob("*.go", "", 0), "a.go link.go", false},
		{glob("**/*.go", "", 0), ".hidden/y.go [x]/z.go a.b/x.go a.go a/b.go a/c/d.go link.go node_modules/p/q.go", false},
		{glob("**/*.go", "a", 0), "a/b.go a/c/d.go", false},
		{glob("a/**/*.go", "", 0), "a/b.go a/c/d.go", false},
		{glob("c/*", "a", 0), "a/c/d.go a/c/d.txt", false},
		{glob("a/c/d.{go,txt}", "", 0), "a/c/d.go a/c/d.txt", false},
		{glob("./a/*", "", 0), "a/b.go", false},
		{glob(`\[x\]/*`, "", 0), "[x]/z.go", false},
		{glob("dirlink/*", "", 0), "dirlink/b.go", false},
		{glob("*", "dirlink/c", 0), "dirlink/c/d.go dirlink/c/d.txt", false},
		{glob("*", ".git", 0), ".git/x.go", false},
		{glob(".git/*", "", 0), ".git/x.go", false},
		{glob("none/*", "", 0), "", false},
		{glob("a.go/*", "", 0), "", false},
		{glob("**", "a", 2), "a/b.go a/c/d.go", true},
		{glob("**", "a", 3), "a/b.go a/c/d.go a/c/d.txt", false},
		{glob("a.go", "", 99_999_999), "a.go", false},
	} {
		got, err := r.perform(c.ask)
		must(t, err)
		var paths []string
		if list, ok := got["paths"].([]any); ok {
			for _, p := range list {
				paths = append(paths, p.(string))
			}
		} else {
			t.Errorf("%v: got %v", c.ask, got)
		}
		if s := strings.Join(paths, " "); s != c.want || got["truncated"] != c.cut {
			t.Errorf("%v:\n got  %s %v\n want %s %v", c.ask, s, got["truncated"], c.want, c.cut)
		}
	}
	r.refused(glob("", "", 0), "pattern is empty")
	r.refused(glob("a[", "", 0), `pattern "a[" is not a valid glob`)
	r.refused(glob("{a", "", 0), `pattern "{a" is not a valid glob`)
	r.refused(glob(strings.Repeat("{a,b}", 12), "", 0), `pattern "`+strings.Repeat("{a,b}", 12)+`" has more than 1000 combinations of {…}`)
	r.refused(glob(strings.Repeat("a", MaxPattern+1), "", 0), "pattern is longer than 4096 bytes")
	r.refused(glob("*", "none", 0), `path "none" does not exist`)
	r.refused(glob("a/*", "none", 0), `path "none" does not exist`)
	r.refused(glob("*", "a.go", 0), `path "a.go" is not a directory`)
	r.refused(glob("x/*", "a.go", 0), `path "a.go" is not a directory`)
	r.refused(obj{"op": "glob", "pattern": "*", "limit": 0}, "limit must be at least 1")
}

func TestGlobShowsForeignNames(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"ok": "", "d\xff/f": ""})
	r.want(obj{"op": "glob", "pattern": "**"}, obj{"ok": true, "paths": []string{`d\xff/f`, "ok"}, "escaped": []string{`d\xff/f`}, "truncated": false})
}

// A tree deeper than the bound is told as cut, not walked for ever.
func TestWalkDepth(t *testing.T) {
	r := newRig(t)
	deep := strings.Repeat("d/", MaxDepth+2)
	root, err := os.OpenRoot(r.tree)
	must(t, err)
	defer root.Close()
	must(t, root.MkdirAll(strings.TrimSuffix(deep, "/"), 0o755))
	r.put(map[string]string{"a": "x", deep + "f": "x", strings.Repeat("d/", MaxDepth) + "g": "x"})
	r.want(obj{"op": "glob", "pattern": "**"}, obj{"ok": true, "truncated": true, "paths": []string{"a", strings.Repeat("d/", MaxDepth) + "g"}})
}
