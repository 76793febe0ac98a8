package e2e

import (
	"os"
	"regexp"
	"testing"

	"ailang.dev/world/host/worldtest"
)

// block finds the code that follows a file's name in a page.
func block(t *testing.T, page, name string) string {
	t.Helper()
	re := regexp.MustCompile("(?s)`" + regexp.QuoteMeta(name) + "`[^\n]*\n\n```[a-z]+\n(.*?)```")
	m := re.FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("docs/transitions.md has no %s", name)
	}
	return m[1]
}

// TestAuthorsGuide publishes and calls what the author's guide shows.
func TestAuthorsGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/transitions.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	w := worldtest.Start(t, worldtest.Options{NoPacks: true, WorkerCommand: worker(t)})
	w.Worktree("ep1", map[string]string{"a.txt": "one\ntwo\nthree\n", "to.txt": "a.txt\n", "astray.txt": "gone\n"})
	w.Publish(block(t, page, "manifest.json"), map[string][]byte{
		"count.star": []byte(block(t, page, "count.star")), "head.star": []byte(block(t, page, "head.star")),
		"both.star": []byte(block(t, page, "both.star")),
	})
	a := &actor{t, w, w.Mint("ep1", "Workspace.Read=worktree:9")}
	if out := a.send("t1", "count-words", map[string]any{"text": "three small words"}).output(t); out["words"] != 3.0 {
		t.Fatalf("%v", out)
	}
	if out := a.send("t2", "count-words", map[string]any{"txt": ""}).output(t); out["refused"] != `unknown argument "txt"; count-words admits only: text` {
		t.Fatalf("%v", out)
	}
	out := a.send("t3", "file-head", map[string]any{"path": "a.txt", "lines": 2}).output(t)
	if first, ok := out["first"].([]any); !ok || len(first) != 2 || first[1] != "two" {
		t.Fatalf("%v", out)
	}
	if out := a.send("t5", "file-behind", map[string]any{"path": "to.txt"}).output(t); out["content"] != "one\ntwo\nthree\n" {
		t.Fatalf("%v", out)
	}
	if out := a.send("t6", "file-behind", map[string]any{"path": "astray.txt"}).output(t); out["refused"] != `path "gone" does not exist` {
		t.Fatalf("%v", out)
	}
	if out := a.send("t4", "file-head", map[string]any{"path": "gone"}).output(t); out["refused"] != `path "gone" does not exist` {
		t.Fatalf("%v", out)
	}
}

// worker starts this test binary as a worker for sources that do not ship.
func worker(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, workerVerb}
}
