// Package workspace_test runs the pack workspace on real files.
package workspace_test

import (
	"strings"
	"testing"

	"ailang.dev/world/packs/packtest"
)

const read, write = "Workspace.Read", "Workspace.Write"

func TestPlans(t *testing.T) {
	b := packtest.New(t, "workspace")
	for _, c := range []struct{ id, args, want string }{
		{"workspace-read", `{"path":"a/b.txt"}`, packtest.Planned(read, `{"op":"read","path":"a/b.txt"}`)},
		{"workspace-read", `{"path":"a","from":2,"to":2}`, packtest.Planned(read, `{"from":2,"op":"read","path":"a","to":2}`)},
		{"workspace-read", `{"path":"a","to":3.0}`, packtest.Planned(read, `{"op":"read","path":"a","to":3}`)},
		{"workspace-write", `{"path":"a","content":""}`, packtest.Planned(write, `{"content":"","op":"write","path":"a"}`)},
		{"workspace-edit", `{"path":"a","old_text":"x","new_text":"é\n"}`, packtest.Planned(write, `{"new_text":"é\n","old_text":"x","op":"edit","path":"a"}`)},
		{"workspace-list", `{}`, packtest.Planned(read, `{"op":"list","path":"."}`)},
		{"workspace-list", `{"path":"d"}`, packtest.Planned(read, `{"op":"list","path":"d"}`)},
		{"workspace-glob", `{"pattern":"**/*.go"}`, packtest.Planned(read, `{"op":"glob","pattern":"**/*.go"}`)},
		{"workspace-glob", `{"pattern":"*","path":"d","limit":5}`, packtest.Planned(read, `{"limit":5,"op":"glob","path":"d","pattern":"*"}`)},
		{"workspace-grep", `{"pattern":"x"}`, packtest.Planned(read, `{"op":"grep","pattern":"x"}`)},
		{"workspace-grep", `{"pattern":"x","path":"d","glob":"*.go","context":0,"ignore_case":false,"limit":1}`,
			packtest.Planned(read, `{"context":0,"glob":"*.go","ignore_case":false,"limit":1,"op":"grep","path":"d","pattern":"x"}`)},
	} {
		if got := b.Plan(c.id, c.args); got != c.want {
			t.Errorf("%s %s:\n got  %s\n want %s", c.id, c.args, got, c.want)
		}
		packtest.Must(t, packtest.Valid(b.Tool(c.id).In, c.args))
	}
}

func TestRefusals(t *testing.T) {
	b := packtest.New(t, "workspace")
	b.CheckRefusals(map[string]string{
		"workspace-read": "path, from, to", "workspace-write": "path, content", "workspace-edit": "path, old_text, new_text",
		"workspace-list": "path", "workspace-glob": "pattern, path, limit",
		"workspace-grep":   "pattern, path, glob, context, ignore_case, limit",
		"workspace-status": "path", "workspace-diff": "from, to, path, context", "workspace-log": "rev, path, limit, skip",
		"workspace-show": "rev, path, context", "workspace-commit": "message, paths",
		"workspace-apply": "edits", "workspace-exec": "profile, args", "workspace-job": "job, action",
	})
	b.CheckTooLarge("workspace-write", `{"path":"a","content":"%s"}`)
	for _, c := range []struct{ args, text string }{
		{`{"edits":[]}`, `argument "edits" must hold 1 to 8 edits, not 0`},
		{`{"edits":[1,2,3,4,5,6,7,8,9]}`, `argument "edits" must hold 1 to 8 edits, not 9`},
		{`{"edits":[1]}`, `edits[0]: the arguments of an edit must be an object`},
		{`{"edits":[{"path":"a","content":"x"},{"path":"../a","content":"x"}]}`, `edits[1]: path "../a" refused: it must be relative and non-empty, with no ".." segment and no leading "-"`},
		{`{"edits":[{"path":"a","content":"x","old_text":"y"}]}`, `edits[0]: give old_text and new_text, or content alone`},
		{`{"edits":[{"path":"a","old_text":"y"}]}`, `edits[0]: give old_text and new_text, or content alone`},
		{`{"edits":[{"path":"a","mode":1}]}`, `edits[0]: unknown argument "mode"; an edit admits only: path, old_text, new_text, content`},
	} {
		if got := b.Plan("workspace-apply", c.args); got != packtest.Refusal(c.text) {
			t.Errorf("%s: got %s", c.args, got)
		}
	}
	b.CheckTooLarge("workspace-edit", `{"path":"a","old_text":"x","new_text":"%s"}`)
	for _, c := range []struct{ id, args, text string }{
		{"workspace-read", `{"path":"a","from":0}`, `argument "from" must be at least 1`},
		{"workspace-read", `{"path":"a","to":0}`, `argument "to" must be at least 1`},
		{"workspace-read", `{"path":"a","from":3,"to":2}`, `argument "to" must not be less than "from"`},
		{"workspace-glob", `{"pattern":"*","limit":0}`, `argument "limit" must be from 1 to 10000`},
		{"workspace-grep", `{"pattern":"x","context":21}`, `argument "context" must be from 0 to 20`},
		{"workspace-grep", `{"pattern":"x","limit":1001}`, `argument "limit" must be from 1 to 1000`},
		{"workspace-grep", `{"pattern":"x","limit":1.5}`, `argument "limit" must be an integer`},
	} {
		if got := b.Plan(c.id, c.args); got != packtest.Refusal(c.text) {
			t.Errorf("%s %s: got %s", c.id, c.args, got)
		}
	}
}

func TestOnRealFiles(t *testing.T) {
	b := packtest.New(t, "workspace")
	b.Put("src/main.go", "package main\n\nfunc main() {}\n")
	b.Put("bin", "\x00\x01")
	for _, c := range []struct{ id, args, want string }{
		{"workspace-read", `{"path":"src/main.go"}`, `{"ok":true,"content":"package main\n\nfunc main() {}\n"}`},
		{"workspace-read", `{"path":"src/main.go","from":3}`, `{"ok":true,"content":"func main() {}\n","from":3,"to":3,"total_lines":3}`},
		{"workspace-read", `{"path":"src/main.go","from":9}`, `{"ok":false,"refused":"from 9 is past the end of src/main.go, which has 3 lines"}`},
		{"workspace-read", `{"path":"bin"}`, `{"ok":false,"refused":"path \"bin\" is a binary file of 2 bytes; its content is not shown"}`},
		{"workspace-write", `{"path":"n/a","content":"one\ntwo\n"}`, `{"ok":true,"created":true,"bytes":8}`},
		{"workspace-write", `{"path":"n/a","content":"one\ntwo\n"}`, `{"ok":true,"created":false,"bytes":8}`},
		{"workspace-edit", `{"path":"n/a","old_text":"two\n","new_text":""}`, `{"ok":true,"replaced":1,"line":2,"bytes":4}`},
		{"workspace-read", `{"path":"n/a"}`, `{"ok":true,"content":"one\n"}`},
		{"workspace-write", `{"path":".Claude/x","content":"x"}`, `{"ok":false,"refused":"path \".Claude/x\" is protected: .claude/ is read-only"}`},
		{"workspace-list", `{}`, `{"ok":true,"truncated":false,"entries":[{"name":"bin","type":"file","size":2},{"name":"n","type":"directory","size":0},{"name":"src","type":"directory","size":0}]}`},
		{"workspace-list", `{"path":"bin"}`, `{"ok":false,"refused":"path \"bin\" is not a directory"}`},
		{"workspace-glob", `{"pattern":"**/*"}`, `{"ok":true,"paths":["bin","n/a","src/main.go"],"truncated":false}`},
		{"workspace-glob", `{"pattern":"**","limit":1}`, `{"ok":true,"paths":["bin"],"truncated":true}`},
		{"workspace-grep", `{"pattern":"FUNC","ignore_case":true,"context":1}`, `{"ok":true,"truncated":false,"matches":[{"path":"src/main.go","line":3,"text":"func main() {}","before":[""],"after":[]}]}`},
		{"workspace-grep", `{"pattern":"("}`, "{\"ok\":false,\"refused\":\"pattern is not a valid RE2 regular expression: missing closing ): `(`\"}"},
		{"workspace-apply", `{"edits":[{"path":"m","content":"1\n2\n"},{"path":"m","old_text":"2\n","new_text":"3\n"}]}`,
			`{"ok":true,"applied":2,"edits":[{"path":"m","created":true,"bytes":4},{"path":"m","replaced":1,"line":2,"bytes":4}]}`},
		{"workspace-read", `{"path":"m"}`, `{"ok":true,"content":"1\n3\n"}`},
		{"workspace-apply", `{"edits":[{"path":"m","old_text":"1","new_text":"0"},{"path":"m","old_text":"1","new_text":"x"},{"path":"m","content":""}]}`,
			`{"ok":false,"applied":1,"edits":[{"path":"m","replaced":1,"line":1,"bytes":4}],"refused":"edit 2 of 3: old_text not found in m; edit 1 is done, what follows was not tried"}`},
		{"workspace-apply", `{"edits":[{"path":".git/config","content":""}]}`,
			`{"ok":false,"applied":0,"edits":[],"refused":"edit 1 of 1: path \".git/config\" is protected: .git is read-only; nothing was changed"}`},
	} {
		b.Want(c.id, c.args, c.want)
	}
}

// TestApplyTellsWhatWasSkipped: an edit that was not tried, because the call had no time
// left for it, is an answer as any other.
func TestApplyTellsWhatWasSkipped(t *testing.T) {
	b := packtest.New(t, "workspace")
	got := b.Run("workspace-apply", `{"phase":"finish","round":2,"args":{"edits":[{"path":"a","content":"1"},{"path":"b","content":"2"}]},"results":[`+
		`{"id":"e1","effect":"Workspace.Write","status":"ok","record":"sha256:`+strings.Repeat("0", 64)+`","output":{"ok":true,"bytes":1,"created":true,"tool":"t","policy_digest":"d"}},`+
		`{"id":"e2","effect":"Workspace.Write","status":"skipped","record":null,"output":null}]}`)
	want := `{"applied":1,"edits":[{"bytes":1,"created":true,"path":"a"}],"ok":false,` +
		`"refused":"edit 2 of 2: not tried: the call's time was over; edit 1 is done, what follows was not tried"}`
	if got != want {
		t.Errorf("got %s", got)
	}
}
