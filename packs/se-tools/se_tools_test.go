// Package setools_test runs the pack se-tools on real files.
package setools_test

import (
	"os"
	"path/filepath"
	"testing"

	"ailang.dev/world/packs/packtest"
)

const read, write = "Workspace.Read", "Workspace.Write"

func TestPlans(t *testing.T) {
	b := packtest.New(t, "se-tools")
	for _, c := range []struct{ id, args, want string }{
		{"ailang-read", `{"path":"a"}`, packtest.Planned(read, `{"op":"read","path":"a"}`)},
		{"ailang-write", `{"path":"a","content":"x"}`, packtest.Planned(write, `{"content":"x","op":"write","path":"a"}`)},
		{"ailang-edit", `{"path":"a","old_text":"x","new_text":""}`, packtest.Planned(write, `{"new_text":"","old_text":"x","op":"edit","path":"a"}`)},
	} {
		if got := b.Plan(c.id, c.args); got != c.want {
			t.Errorf("%s %s:\n got  %s\n want %s", c.id, c.args, got, c.want)
		}
		packtest.Must(t, packtest.Valid(b.Tool(c.id).In, c.args))
	}
	if title := b.Tool("ailang-read").Title; title != "Read (sandboxed)" {
		t.Errorf("title %q", title)
	}
}

func TestRefusals(t *testing.T) {
	b := packtest.New(t, "se-tools")
	b.CheckRefusals(map[string]string{"ailang-read": "path", "ailang-write": "path, content", "ailang-edit": "path, old_text, new_text",
		"ailang-check": "path", "ailang-run": "path, args_json, stdin, argv, caps", "builtins-search": "query, limit", "examples-search": "query, limit",
		"ailang-cli": "operation, path"})
	b.CheckTooLarge("ailang-write", `{"path":"a","content":"%s"}`)
	b.CheckTooLarge("ailang-edit", `{"path":"a","old_text":"x","new_text":"%s"}`)
}

func TestOnRealFiles(t *testing.T) {
	b := packtest.New(t, "se-tools")
	b.Put("src/main.go", "package main\n")
	packtest.Must(t, os.Symlink("/etc", filepath.Join(b.Tree, "out")))
	for _, c := range []struct{ id, args, want string }{
		{"ailang-read", `{"path":"src/main.go"}`, `{"ok":true,"content":"package main\n"}`},
		{"ailang-read", `{"path":"none"}`, `{"ok":false,"refused":"path \"none\" does not exist"}`},
		{"ailang-read", `{"path":"out/passwd"}`, `{"ok":false,"refused":"path \"out/passwd\" escapes the worktree"}`},
		{"ailang-write", `{"path":"n/a","content":"one\ntwo\ntwo\n"}`, `{"ok":true,"created":true,"bytes":12}`},
		{"ailang-edit", `{"path":"n/a","old_text":"one","new_text":"1"}`, `{"ok":true,"replaced":1,"line":1,"bytes":10}`},
		{"ailang-edit", `{"path":"n/a","old_text":"gone","new_text":"x"}`, `{"ok":false,"refused":"old_text not found in n/a"}`},
		{"ailang-edit", `{"path":"n/a","old_text":"two","new_text":"x"}`, `{"ok":false,"refused":"old_text occurs 2 times; include more context so it is unique"}`},
		{"ailang-edit", `{"path":"n/a","old_text":"","new_text":"x"}`, `{"ok":false,"refused":"old_text is empty; give the text to be replaced, or use write for a new file"}`},
		{"ailang-write", `{"path":".GIT/config","content":"x"}`, `{"ok":false,"refused":"path \".GIT/config\" is protected: .git is read-only"}`},
		{"ailang-read", `{"path":"n/a"}`, `{"ok":true,"content":"1\ntwo\ntwo\n"}`},
	} {
		b.Want(c.id, c.args, c.want)
	}
}
