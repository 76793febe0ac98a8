package workspace_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"ailang.dev/world/packs/packtest"
)

const gitRead, gitCommit = "Git.Read", "Git.Commit"

func TestGitPlans(t *testing.T) {
	b := packtest.New(t, "workspace")
	for _, c := range []struct{ id, args, want string }{
		{"workspace-status", `{}`, packtest.Planned(gitRead, `{"op":"status"}`)},
		{"workspace-status", `{"path":"a b"}`, packtest.Planned(gitRead, `{"op":"status","path":"a b"}`)},
		{"workspace-diff", `{}`, packtest.Planned(gitRead, `{"op":"diff"}`)},
		{"workspace-diff", `{"from":"HEAD~1","to":"HEAD","path":"d","context":0}`, packtest.Planned(gitRead, `{"context":0,"from":"HEAD~1","op":"diff","path":"d","to":"HEAD"}`)},
		{"workspace-log", `{"rev":"main","path":"d","limit":5,"skip":0}`, packtest.Planned(gitRead, `{"limit":5,"op":"log","path":"d","rev":"main","skip":0}`)},
		{"workspace-show", `{"rev":"v1","path":"a"}`, packtest.Planned(gitRead, `{"op":"show","path":"a","rev":"v1"}`)},
		{"workspace-commit", `{"message":"m"}`, packtest.Planned(gitCommit, `{"message":"m","op":"commit"}`)},
		{"workspace-commit", `{"message":"m","paths":["a","b/c"]}`, packtest.Planned(gitCommit, `{"message":"m","op":"commit","paths":["a","b/c"]}`)},
	} {
		if got := b.Plan(c.id, c.args); got != c.want {
			t.Errorf("%s %s:\n got  %s\n want %s", c.id, c.args, got, c.want)
		}
		packtest.Must(t, packtest.Valid(b.Tool(c.id).In, c.args))
	}
}

func TestGitRefusals(t *testing.T) {
	b := packtest.New(t, "workspace")
	for _, c := range []struct{ id, args, text string }{
		{"workspace-log", `{"limit":0}`, `argument "limit" must be from 1 to 200`},
		{"workspace-log", `{"skip":-1}`, `argument "skip" must be from 0 to 1000000`},
		{"workspace-diff", `{"context":21}`, `argument "context" must be from 0 to 20`},
		{"workspace-commit", `{"message":" \n"}`, `message is empty`},
		{"workspace-commit", `{"message":"` + strings.Repeat("m", 65537) + `"}`, `message is too long: 65537 bytes, at most 65536`},
		{"workspace-commit", `{"message":"m","paths":[]}`, `paths is empty: leave it out to commit every change`},
		{"workspace-commit", `{"message":"m","paths":["a",1]}`, `argument "paths" must be a list of strings`},
		{"workspace-commit", `{"message":"m","paths":["a","../b"]}`, `path "../b" refused: it must be relative and non-empty, with no ".." segment and no leading "-"`},
		{"workspace-commit", `{"message":"m","paths":[` + strings.Repeat(`"a",`, 1000) + `"a"]}`, `paths names 1001 paths; at most 1000`},
	} {
		if got := b.Plan(c.id, c.args); got != packtest.Refusal(c.text) {
			t.Errorf("%s %.80s: got %s", c.id, c.args, got)
		}
	}
	long := `["` + strings.Repeat("x", 1<<20) + `"]`
	if got := b.Plan("workspace-commit", `{"message":"m","paths":`+long+`}`); !strings.Contains(got, `"refused":"the call is too large:`) {
		t.Errorf("got %.200s", got)
	}
}

var hashes = regexp.MustCompile(`"[0-9a-f]{40}"`)

// TestGitOnRealFiles walks through a day's work; hashes are told as H.
func TestGitOnRealFiles(t *testing.T) {
	b := packtest.New(t, "workspace")
	b.Put("a.txt", "one\n")
	b.Repository()
	b.Put("a.txt", "two\n")
	b.Put(".github/x", "x\n")
	const diff = `diff --git a/a.txt b/a.txt\nindex 5626abf..f719efd 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n`
	const file = `{"added":1,"change":"modified","deleted":1,"path":"a.txt"}`
	for _, c := range []struct{ id, args, want string }{
		{"workspace-status", `{}`, `{"branch":"world/ep","changes":[{"path":"a.txt","unstaged":"modified"},{"path":".github/x","unstaged":"untracked"}],"head":H,"ok":true,"truncated":false}`},
		{"workspace-diff", `{"path":"a.txt"}`, `{"diff":"` + diff + `","files":[` + file + `],"from":H,"ok":true,"to":"worktree","truncated":false}`},
		{"workspace-commit", `{"message":"second"}`, `{"branch":"world/ep","commit":H,"files":[{"change":"modified","path":"a.txt"}],` +
			`"left_out":[{"path":".github/x","reason":"protected: .github/ is read-only"}],"ok":true,"parent":H,"provenance":"store=s episode=ep entries=0-9","truncated":false}`},
		{"workspace-commit", `{"message":"m","paths":[".GitHub/x"]}`, `{"ok":false,"refused":"path \".GitHub/x\" is protected: .github/ is read-only"}`},
		{"workspace-diff", `{"from":"HEAD~1","to":"HEAD"}`, `{"diff":"` + diff + `","files":[` + file + `],"from":H,"ok":true,"to":H,"truncated":false}`},
		{"workspace-show", `{"rev":"HEAD~1","path":"a.txt"}`, `{"commit":H,"content":"one\n","ok":true}`},
		{"workspace-show", `{"path":"b.txt"}`, `{"ok":false,"refused":`},
		{"workspace-log", `{"limit":1}`, `{"commits":[{"author":{"date":"1970-01-01T00:00:00+00:00","email":"ep@world.invalid","name":"World episode ep"},"commit":H,` +
			`"committer":{"date":"1970-01-01T00:00:00+00:00","email":"ep@world.invalid","name":"World episode ep"},` +
			`"message":"second\n\nWorld-Provenance: store=s episode=ep entries=0-9","parents":[H],"provenance":"store=s episode=ep entries=0-9"}],"more":true,"ok":true}`},
		{"workspace-show", `{}`, `{"author":`},
	} {
		out, err := json.Marshal(b.Call(c.id, c.args))
		packtest.Must(t, err)
		if got := hashes.ReplaceAllString(string(out), "H"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s:\n got  %s\n want %s", c.id, c.args, got, c.want)
		}
	}
}
