package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ailang.dev/world/host/world"
)

func TestWrite(t *testing.T) {
	r := newRig(t)
	r.want(write("a", "one"), obj{"ok": true, "created": true, "bytes": 3})
	r.want(write("a", "one"), obj{"ok": true, "created": false, "bytes": 3})
	r.want(write("a", ""), obj{"ok": true, "created": false, "bytes": 0})
	r.want(write("x/y/z", "é\x00\n"), obj{"ok": true, "created": true, "bytes": 4})
	if r.content("a") != "" || r.content("x/y/z") != "é\x00\n" {
		t.Error("content is not what was written")
	}
	must(t, os.Chmod(filepath.Join(r.tree, "a"), 0o755))
	r.want(write("a", "run"), obj{"ok": true, "created": false, "bytes": 3})
	for name, mode := range map[string]fs.FileMode{"a": 0o755, "x/y/z": 0o644, "x": fs.ModeDir | 0o755, "x/y": fs.ModeDir | 0o755} {
		fi, err := os.Stat(filepath.Join(r.tree, name))
		must(t, err)
		if fi.Mode() != mode {
			t.Errorf("%s has mode %v, want %v", name, fi.Mode(), mode)
		}
	}
	must(t, os.Chmod(filepath.Join(r.tree, "a"), 0o444))
	r.refused(write("a", "x"), `path "a" cannot be written: its mode is 0444`)
	r.refused(edit("a", "run", "x"), `path "a" cannot be written: its mode is 0444`)
	r.tidy()
}

// A hard link is not written through: the name gets a file of its own.
func TestWriteBreaksHardLinks(t *testing.T) {
	r := newRig(t)
	must(t, os.Link(filepath.Join(r.outside, "secret"), filepath.Join(r.tree, "hard")))
	r.want(write("hard", "new"), obj{"ok": true, "created": false, "bytes": 3})
	r.tidy()
}

func TestEdit(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"a": "one\ntwo\ntwo\nthree\n", "crlf": "a\r\nb\r\n", "aaa": "aaa", "bin": "a\x00b",
		"big": strings.Repeat("a", MaxEdit-1) + "b"})
	r.want(edit("a", "three", "3"), obj{"ok": true, "replaced": 1, "line": 4, "bytes": 14})
	r.want(edit("a", "one\n", ""), obj{"ok": true, "replaced": 1, "line": 1, "bytes": 10})
	r.want(edit("a", "3", "3"), obj{"ok": true, "replaced": 1, "line": 3, "bytes": 10})
	if r.content("a") != "two\ntwo\n3\n" {
		t.Errorf("a is %q", r.content("a"))
	}
	r.refused(edit("a", "gone", "x"), "old_text not found in a")
	r.refused(edit("a", "two", "x"), "old_text occurs 2 times; include more context so it is unique")
	r.refused(edit("aaa", "aa", "x"), "old_text occurs 2 times; include more context so it is unique")
	r.refused(edit("aaa", "a", "x"), "old_text occurs 3 times; include more context so it is unique")
	r.refused(edit("a", "", "x"), "old_text is empty; give the text to be replaced, or use write for a new file")
	r.refused(edit("crlf", "a\nb", "x"), "old_text not found in crlf; its lines end in CRLF")
	r.refused(edit("gone", "a", "x"), `path "gone" does not exist`)
	r.refused(edit("bin", "a", "x"), `path "bin" is a binary file of 3 bytes; its content is not shown`)
	r.refused(edit("big", "b", "bb"), `path "big" is too large to be edited: 8388609 bytes, at most 8388608`)
	r.want(edit("big", "b", "c"), obj{"ok": true, "replaced": 1, "line": 1, "bytes": MaxEdit})
	// Long texts that nearly match everywhere are counted without quadratic work.
	r.refused(edit("big", strings.Repeat("a", MaxEdit/2-1), "x"), "old_text occurs 2 times; include more context so it is unique")
	r.tidy()
}

// An edit that lost its ground is refused, and the other's work stays.
func TestEditMeetsAnotherWriter(t *testing.T) {
	for name, other := range map[string]func(path string){
		"rewritten": func(p string) { must(t, os.WriteFile(p, []byte("theirs!"), 0o644)) },
		"replaced": func(p string) {
			must(t, os.WriteFile(p+".n", []byte("mine"), 0o644))
			must(t, os.Rename(p+".n", p))
		},
		"removed": func(p string) { must(t, os.Remove(p)) },
		"touched": func(p string) { must(t, os.Chtimes(p, time.Unix(1, 0), time.Unix(1, 0))) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put(map[string]string{"a": "mine"})
			r.h.hooks.written = func() { other(filepath.Join(r.tree, "a")) }
			r.refused(edit("a", "mine", "ours"), `path "a" was changed by someone else meanwhile; read it again`)
			if b, _ := os.ReadFile(filepath.Join(r.tree, "a")); string(b) == "ours" {
				t.Error("the other's work is lost")
			}
			r.tidy()
		})
	}
}

func TestFailedWritesLeaveNothing(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind world.Kind
		msg  string
	}{
		{syscall.ENOSPC, world.KindStoreFull, "no space left in the worktree; nothing was changed"},
		{syscall.EDQUOT, world.KindStoreFull, "no space left in the worktree; nothing was changed"},
		{syscall.EROFS, world.KindInternal, "the worktree's file system is read-only; nothing was changed"},
		{errors.New("odd"), world.KindInternal, "the worktree could not be used"},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			r := newRig(t)
			r.put(map[string]string{"a": "old"})
			r.h.hooks.write = func(f *os.File, b []byte) (int, error) {
				n, err := f.Write(b[:len(b)/2])
				must(t, err)
				return n, fmt.Errorf("write: %w", c.err)
			}
			for _, p := range []obj{write("a", "new content"), edit("a", "old", "new"), write("n/m/b", "new content")} {
				_, err := r.perform(p)
				if world.KindOf(err) != c.kind || world.Message(err) != c.msg || !errors.Is(err, c.err) {
					t.Errorf("%v: got %v", p, err)
				}
			}
			if r.content("a") != "old" {
				t.Errorf("a is %q", r.content("a"))
			}
			if _, err := os.Lstat(filepath.Join(r.tree, "n")); !os.IsNotExist(err) {
				t.Error("folders of a failed write stay")
			}
			r.tidy()
		})
	}
}

// Folders that were there before stay when a write fails, also if they are empty.
func TestFailedWriteKeepsFoldersOfOthers(t *testing.T) {
	r := newRig(t)
	must(t, os.MkdirAll(filepath.Join(r.tree, "here/empty"), 0o755))
	r.h.hooks.write = func(*os.File, []byte) (int, error) { return 0, syscall.ENOSPC }
	if _, err := r.perform(write("here/empty/f", "x")); err == nil {
		t.Error("the write went well")
	}
	if _, err := os.Lstat(filepath.Join(r.tree, "here/empty")); err != nil {
		t.Error(err)
	}
}

// What a crash left is not shown, cannot be written to, and is swept once it is stale.
func TestCrashLeftovers(t *testing.T) {
	r := newRig(t)
	fresh, stale := tempPrefix+"00", tempPrefix+"11"
	r.put(map[string]string{"d/a": "text", "d/" + fresh: "text", "d/" + stale: "text"})
	old := time.Now().Add(-2 * tempStale * time.Second)
	must(t, os.Chtimes(filepath.Join(r.tree, "d", stale), old, old))
	r.want(list("d"), obj{"ok": true, "entries": []any{obj{"name": "a", "type": "file", "size": 4}}, "truncated": false})
	r.want(obj{"op": "glob", "pattern": "**"}, obj{"ok": true, "paths": []string{"d/a"}, "truncated": false})
	r.want(obj{"op": "grep", "pattern": "text"}, obj{"ok": true, "truncated": false,
		"matches": []any{obj{"path": "d/a", "line": 1, "text": "text", "before": []any{}, "after": []any{}}}})
	r.refused(write("d/"+fresh, "x"), `path "d/`+fresh+`" is protected: `+tempPrefix+`* is read-only`)
	r.want(write("d/a", "new"), obj{"ok": true, "created": false, "bytes": 3})
	for name, want := range map[string]bool{fresh: true, stale: false} {
		if _, err := os.Lstat(filepath.Join(r.tree, "d", name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Readers and writers side by side see one whole file or another, never a mixture.
func TestWholeFilesOnly(t *testing.T) {
	r := newRig(t)
	contents := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000), "c"}
	r.put(map[string]string{"f": contents[0]})
	var wg sync.WaitGroup
	for _, content := range contents {
		wg.Go(func() {
			for range 20 {
				if _, err := r.perform(write("f", content)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 40 {
				got, err := r.perform(read("f"))
				if err != nil && errors.Is(err, errChanged) {
					continue // it was replaced between the look and the opening
				}
				if err != nil || !slices.Contains(contents, fmt.Sprint(got["content"])) {
					t.Errorf("%v %.80v", err, got)
				}
			}
		})
	}
	wg.Wait()
	r.tidy()
}
