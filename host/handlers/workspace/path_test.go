package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestPathsThatLeadOut(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"d/f": "in", "f": "top"})
	r.link("../../outside", "out")
	r.link("../../outside/secret", "outfile")
	r.link(r.outside, "abs")
	r.link(filepath.Join(r.tree, "f"), "absin")
	r.link("out", "chain1")
	r.link("chain1", "chain2")
	r.link("../../../outside/new", "d/dangling")
	r.link("..", "up")
	r.link("d/../../ep/f", "around")
	for _, p := range []string{
		"..", "../x", "/etc/passwd", "/", "d/../../x", "../ep/f", "./../x", r.tree + "/f",
		"out", "out/secret", "outfile", "abs/secret", "abs", "absin", "chain2/secret", "up", "up/ep/f", "around",
		"/proc/self/root/etc/passwd",
	} {
		text := `path "` + p + `" escapes the worktree`
		for _, payload := range []obj{read(p), list(p), write(p, "x"), edit(p, "secret", "x"),
			{"op": "glob", "pattern": "*", "path": p}, {"op": "grep", "pattern": "secret", "path": p}} {
			r.refused(payload, text)
		}
	}
	r.refused(write("d/dangling", "x"), `path "d/dangling" escapes the worktree`)
	r.refused(obj{"op": "glob", "pattern": "../*"}, `pattern "../*" escapes the worktree`)
	r.refused(obj{"op": "glob", "pattern": "/etc/*"}, `pattern "/etc/*" escapes the worktree`)
	r.refused(obj{"op": "glob", "pattern": "out/*"}, `path "out" escapes the worktree`)
	r.want(obj{"op": "glob", "pattern": `\.\./*`}, obj{"ok": true, "paths": []any{}, "truncated": false})
	r.want(obj{"op": "grep", "pattern": "secret"}, obj{"ok": true, "matches": []any{}, "truncated": false})
	r.want(read("d/../f"), obj{"ok": true, "content": "top"})
	r.want(read("./d//f"), obj{"ok": true, "content": "in"})
	r.tidy()
}

func TestLinksInside(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"d/f": "in", "e/g": "other"})
	r.link("d/f", "l")
	r.link("../d", "e/d")
	r.link("l", "l2")
	r.link("loop2", "loop1")
	r.link("loop1", "loop2")
	r.link("d/new", "tonew")
	r.link("no/such", "nowhere")
	r.link("d/f/x", "through")
	r.want(read("l2"), obj{"ok": true, "content": "in"})
	r.want(read("e/d/f"), obj{"ok": true, "content": "in"})
	r.refused(read("loop1"), `path "loop1" leads through too many symbolic links`)
	r.refused(write("loop1/x", ""), `path "loop1/x" leads through too many symbolic links`)
	r.refused(read("nowhere"), `path "nowhere" does not exist`)
	r.refused(read("through"), `path "through" does not exist: "d/f" is not a directory`)

	// A write through a link changes what the link leads to, and leaves the link.
	r.want(write("l2", "new"), obj{"ok": true, "created": false, "bytes": 3})
	r.want(edit("e/d/f", "new", "newer"), obj{"ok": true, "replaced": 1, "line": 1, "bytes": 5})
	if r.content("d/f") != "newer" {
		t.Errorf("d/f is %q", r.content("d/f"))
	}
	r.want(write("tonew", "made"), obj{"ok": true, "created": true, "bytes": 4})
	for _, name := range []string{"l", "l2", "tonew", "e/d"} {
		if fi, err := os.Lstat(filepath.Join(r.tree, name)); err != nil || fi.Mode().Type() != os.ModeSymlink {
			t.Errorf("%s is no link any more", name)
		}
	}
	if r.content("d/new") != "made" {
		t.Errorf("d/new is %q", r.content("d/new"))
	}
	r.tidy()
}

func TestPathShapes(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"d/f": "in", "-dash": "d", " sp ace ": "s", "ünï": "u", "new\nline": "n"})
	deep := strings.Repeat("d/", MaxDepth+1) + "f"
	long := strings.Repeat("n", 256)
	for p, text := range map[string]string{
		"":                             `path "" is empty`,
		"a\x00b":                       `path "a\x00b" holds a NUL`,
		"gone":                         `path "gone" does not exist`,
		"gone/x":                       `path "gone/x" does not exist`,
		"d/f/x":                        `path "d/f/x" does not exist: "d/f" is not a directory`,
		"d":                            `path "d" is a directory`,
		"d/":                           `path "d/" is a directory`,
		".":                            `path "." is a directory`,
		"d/f/":                         `path "d/f/" ends in a slash, but is not a directory`,
		long:                           `path "` + long + `" is too long: a name in it is longer than the file system allows`,
		strings.Repeat("a", MaxPath+1): `path "` + strings.Repeat("a", maxNameInText) + `…" is too long: 4097 bytes, at most 4096`,
	} {
		r.refused(read(p), text)
	}
	r.refused(write(deep, "x"), `path "`+deep+`" leads through more than 128 directories`)
	r.refused(write(long, "x"), `path "`+long+`" is too long: a name in it is longer than the file system allows`)
	r.refused(write("n/"+long, "x"), `path "n/`+long+`" is too long: a name in it is longer than the file system allows`)
	r.refused(write("d", "x"), `path "d" is a directory`)
	r.refused(write("d/", "x"), `path "d/" is a directory`)
	r.refused(write(".", "x"), `path "." is a directory`)
	r.refused(write("new/", "x"), `path "new/" ends in a slash, so it names a directory`)
	r.refused(write("d/f/x", "x"), `path "d/f/x" does not exist: "d/f" is not a directory`)
	r.refused(list("d/f"), `path "d/f" is not a directory`)
	r.refused(list("gone"), `path "gone" does not exist`)
	for name, content := range map[string]string{"-dash": "d", " sp ace ": "s", "ünï": "u", "new\nline": "n"} {
		r.want(read(name), obj{"ok": true, "content": content})
	}
	if _, err := os.Lstat(filepath.Join(r.tree, "n")); !os.IsNotExist(err) {
		t.Error("a refused write left the folder it had made")
	}
	r.tidy()
}

// What was looked at is what is opened. A read that finds a name changed begins anew and
// answers for what is there now; it never shows what is outside, and never waits.
func TestRacesOnOpen(t *testing.T) {
	for name, c := range map[string]struct {
		swap func(r *rig)
		want obj
	}{
		"file becomes a link out": {func(r *rig) {
			must(r.t, os.Remove(filepath.Join(r.tree, "d/f")))
			r.link("../../../outside/secret", "d/f")
		}, obj{"ok": false, "refused": `path "d/f" escapes the worktree`}},
		"file becomes a link inside": {func(r *rig) {
			must(r.t, os.Remove(filepath.Join(r.tree, "d/f")))
			r.link("other", "d/f")
		}, obj{"ok": true, "content": "other"}},
		"file becomes another file": {func(r *rig) {
			must(r.t, os.Rename(filepath.Join(r.tree, "d/other"), filepath.Join(r.tree, "d/f")))
		}, obj{"ok": true, "content": "other"}},
		"file becomes a FIFO": {func(r *rig) { r.mkfifo("d/f") },
			obj{"ok": false, "refused": `path "d/f" is a FIFO, not a file`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put(map[string]string{"d/f": "f", "d/other": "other"})
			r.h.hooks.resolved = sync.OnceFunc(func() { c.swap(r) })
			r.want(read("d/f"), c.want)
			r.tidy()
		})
	}
	t.Run("file changes again and again", func(t *testing.T) {
		r := newRig(t)
		r.put(map[string]string{"f": "f", "g": "g"})
		tries := 0
		r.h.hooks.resolved = func() {
			tries++
			must(t, os.Rename(filepath.Join(r.tree, "g"), filepath.Join(r.tree, "f")))
			r.put(map[string]string{"g": "g"})
		}
		if _, err := r.perform(read("f")); !errors.Is(err, errChanged) || tries != maxTries {
			t.Errorf("after %d tries: %v", tries, err)
		}
	})
	t.Run("parent becomes a link out", func(t *testing.T) {
		r := newRig(t)
		r.put(map[string]string{"d/f": "f"})
		r.h.hooks.resolved = func() {
			must(t, os.Rename(filepath.Join(r.tree, "d"), filepath.Join(r.tree, "moved")))
			r.link("../../outside", "d")
		}
		r.want(write("d/f", "new"), obj{"ok": true, "created": false, "bytes": 3})
		if r.content("moved/f") != "new" {
			t.Error("the write did not go to the directory that was checked")
		}
		r.tidy()
	})
	t.Run("missing parent becomes a link out", func(t *testing.T) {
		r := newRig(t)
		r.h.hooks.resolved = func() { r.link("../../outside", "d") }
		if out, err := r.perform(write("d/f", "new")); err == nil {
			t.Errorf("write gave %v", out)
		}
		r.tidy()
	})
	t.Run("new file becomes a link out", func(t *testing.T) {
		r := newRig(t)
		r.h.hooks.written = func() { r.link("../../outside/secret", "f") }
		if out, err := r.perform(write("f", "new")); err == nil {
			t.Errorf("write gave %v", out)
		}
		r.tidy()
	})
	t.Run("file becomes a directory", func(t *testing.T) {
		r := newRig(t)
		r.h.hooks.written = func() { must(t, os.Mkdir(filepath.Join(r.tree, "f"), 0o755)) }
		if out, err := r.perform(write("f", "new")); err == nil {
			t.Errorf("write gave %v", out)
		}
		r.tidy()
	})
}
