package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// changesOf is a status's changes by path.
func changesOf(v map[string]any) map[string]string {
	all := map[string]string{}
	for _, c := range v["changes"].([]any) {
		m := c.(map[string]any)
		all[m["path"].(string)] = fmt.Sprint(m["staged"], "/", m["unstaged"])
	}
	return all
}

func TestStatus(t *testing.T) {
	b := newBench(t)
	b.write(b.tree, ".gitignore", "*.log\n")
	b.write(b.repo, ".git/info/exclude", "private\n")
	b.write(b.tree, "x.log", "x\n")
	b.write(b.tree, "private", "x\n")
	b.write(b.tree, "staged", "x\n")
	b.git(b.tree, "add", "staged")
	must(t, os.Remove(b.tree+"/a.txt"))
	must(t, os.Symlink("x", b.tree+"/a.txt"))
	b.git(b.tree, "rm", "-q", "--cached", "dir/b.txt")
	v := b.ok("status", nil)
	want := map[string]string{".gitignore": "<nil>/untracked", "staged": "added/<nil>", "a.txt": "<nil>/type", "dir/b.txt": "deleted/<nil>"}
	got := changesOf(v)
	if d := cmp.Diff(want, got); d != "" && got["dir/b.txt"] != "<nil>/untracked" { // it is both
		t.Error(d)
	}
	if v["branch"] != "world/ep" || v["head"] != b.git(b.tree, "rev-parse", "HEAD") || v["truncated"] != false {
		t.Errorf("%v", v)
	}
	if got := changesOf(b.ok("status", map[string]any{"path": "./staged"})); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := changesOf(b.ok("status", map[string]any{"path": "*"})); len(got) != 0 {
		t.Errorf("a pattern was one: %v", got)
	}
	for path, words := range map[string]string{"../x": "escapes", "/x": "escapes", "a\x00": "NUL", strings.Repeat("x", MaxPath+1): "too long"} {
		for _, op := range []string{"status", "diff", "log", "show"} {
			b.refused(op, map[string]any{"path": path}, words)
		}
	}
}

// TestForeignNames tells names that are no plain text, and commits the files.
func TestForeignNames(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"new\nline", "esc\x1b[2Jape", "bad\xff\xfebytes", " lead", "tab\there", "\"quoted\"", "back\\slash", "-option", "é", "a -> b"} {
		b.write(b.tree, name, "x\n")
	}
	want := []string{" lead", "\"quoted\"", "-option", "a -> b", "back\\slash", "bad\\xff\\xfebytes", "esc\x1b[2Jape", "new\nline", "tab\there", "é"}
	v := b.ok("status", nil)
	if d := cmp.Diff(want, paths(v, "changes")); d != "" {
		t.Error(d)
	}
	for _, c := range v["changes"].([]any) {
		m := c.(map[string]any)
		if strings.Contains(m["path"].(string), "bad") != (m["escaped"] == true) {
			t.Errorf("%v", m)
		}
	}
	d := b.ok("diff", nil)
	if got := cmp.Diff(want, paths(d, "files")); got != "" {
		t.Error(got)
	}
	if text := d["diff"].(string); !strings.Contains(text, `"b/new\nline"`) || !strings.Contains(text, `"b/esc\033[2Jape"`) || !strings.Contains(text, `"b/bad\377\376bytes"`) {
		t.Errorf("%s", text)
	}
	b.ok("commit", map[string]any{"message": "m", "paths": []string{"new\nline", "-option", "\"quoted\""}})
	b.ok("commit", map[string]any{"message": "m"})
	if got := b.git(b.tree, "status", "--porcelain"); got != "" {
		t.Errorf("%q", got)
	}
	if v := b.ok("show", map[string]any{"path": "new\nline"}); v["content"] != "x\n" {
		t.Errorf("%v", v)
	}
	b.ok("show", nil)
}

func TestDiff(t *testing.T) {
	b := newBench(t)
	first := b.git(b.tree, "rev-parse", "HEAD")
	b.write(b.tree, "moved.txt", "one\ntwo\nthree\n")
	must(t, os.Remove(b.tree+"/a.txt"))
	b.write(b.tree, "bin", "\x00\x01")
	b.write(b.tree, "latin", "caf\xe9\n")
	v := b.ok("diff", nil)
	var got []string
	for _, f := range v["files"].([]any) {
		m := f.(map[string]any)
		got = append(got, fmt.Sprint(m["path"], " ", m["change"], " ", m["from_path"], " ", m["added"], " ", m["binary"]))
	}
	if d := cmp.Diff([]string{"bin added <nil> <nil> true", "latin added <nil> 1 <nil>", "moved.txt renamed a.txt 0 <nil>"}, got); d != "" {
		t.Error(d)
	}
	if text := v["diff"].(string); v["escaped"] != true || !strings.Contains(text, `+caf\xe9`) || !strings.Contains(text, "Binary files /dev/null and b/bin differ") {
		t.Errorf("%v", v)
	}
	if v := b.ok("diff", map[string]any{"path": "latin"}); len(v["files"].([]any)) != 1 {
		t.Errorf("%v", v)
	}
	b.ok("commit", map[string]any{"message": "second"})
	if v := b.ok("diff", map[string]any{"from": "HEAD~1", "to": "HEAD"}); v["from"] != first || len(v["files"].([]any)) != 3 {
		t.Errorf("%v", v)
	}
	if v := b.ok("diff", nil); v["diff"] != "" || len(v["files"].([]any)) != 0 {
		t.Errorf("%v", v)
	}
	if v := b.ok("diff", map[string]any{"from": "main"}); len(v["files"].([]any)) != 3 {
		t.Errorf("%v", v)
	}
	b.write(b.tree, "dir/b.txt", strings.Repeat("a line of text\n", 100_000))
	v = b.ok("diff", map[string]any{"context": 0})
	if n := len(v["diff"].(string)); v["truncated"] != true || n > MaxDiff || n < MaxDiff/2 || !strings.HasSuffix(v["diff"].(string), "\n") {
		t.Errorf("%d bytes, truncated %v", n, v["truncated"])
	}
	b.refused("diff", map[string]any{"context": 21}, "context must be")
	b.refused("diff", map[string]any{"context": -1}, "context must be")
	// Reading leaves no object behind.
	if out := b.git(b.repo, "fsck", "--unreachable", "--no-reflogs"); out != "" {
		t.Errorf("%s", out)
	}
	b.nothingLeft()
}

func TestLog(t *testing.T) {
	b := newBench(t)
	for i := range 30 {
		b.write(b.tree, "a.txt", fmt.Sprint(i))
		b.git(b.tree, "commit", "-qam", fmt.Sprintf("commit %d\n\nbody", i), "--author", "A\xff <a@x>")
	}
	v := b.ok("log", nil)
	if n := len(v["commits"].([]any)); n != dflLog || v["more"] != true {
		t.Errorf("%d, %v", n, v["more"])
	}
	seen := []string{}
	for skip := 0; ; {
		v := b.ok("log", map[string]any{"skip": skip, "limit": 7})
		for _, c := range v["commits"].([]any) {
			seen = append(seen, c.(map[string]any)["commit"].(string))
		}
		if skip = len(seen); v["more"] == false {
			break
		}
	}
	if d := cmp.Diff(strings.Fields(b.git(b.tree, "log", "--format=%H")), seen); d != "" {
		t.Error(d)
	}
	c := v["commits"].([]any)[0].(map[string]any)
	if a := c["author"].(map[string]any); c["message"] != "commit 29\n\nbody" || a["email"] != "a@x" || c["committer"].(map[string]any)["name"] != "P" || !strings.HasSuffix(a["date"].(string), "+00:00") {
		t.Errorf("%v", c)
	}
	if v := b.ok("log", map[string]any{"path": "dir"}); len(v["commits"].([]any)) != 1 || v["more"] != false {
		t.Errorf("%v", v)
	}
	if v := b.ok("log", map[string]any{"skip": 1000}); len(v["commits"].([]any)) != 0 {
		t.Errorf("%v", v)
	}
	b.git(b.tree, "commit", "-q", "--allow-empty", "-F", b.file(strings.Repeat("long ", 4000)))
	if c := b.ok("log", map[string]any{"limit": 1})["commits"].([]any)[0].(map[string]any); c["cut"] != true || len(c["message"].(string)) > MaxLogText {
		t.Errorf("%v", c)
	}
	for _, m := range []map[string]any{{"limit": 0}, {"limit": 201}, {"skip": -1}, {"skip": MaxSkip + 1}} {
		b.refused("log", m, "must be from")
	}
}

func (b *bench) file(text string) string {
	at := filepath.Join(b.TempDir(), "file")
	must(b.TB, os.WriteFile(at, []byte(text), 0o644))
	return at
}

func TestShow(t *testing.T) {
	b := newBench(t)
	b.write(b.tree, "bin", "\x00")
	b.write(b.tree, "latin", "\xe9")
	b.write(b.tree, "big", strings.Repeat("x", MaxShow+1))
	must(t, os.Symlink("/etc/passwd", b.tree+"/link"))
	b.git(b.tree, "add", "-A")
	b.git(b.tree, "commit", "-qm", "second")
	v := b.ok("show", map[string]any{"rev": "HEAD~1"})
	if v["message"] != "first" || len(v["files"].([]any)) != 2 || !strings.Contains(v["diff"].(string), "+three") || len(v["parents"].([]any)) != 0 {
		t.Errorf("%v", v)
	}
	if v := b.ok("show", map[string]any{"path": "link"}); v["content"] != "/etc/passwd" || v["link"] != true {
		t.Errorf("%v", v)
	}
	for path, words := range map[string]string{"none": "is not in commit", "dir": "is a directory", ".": "is a directory", "bin": "binary file of 1 bytes", "latin": "binary", "big": "too large", "link/x": "is not in commit", "a*": "is not in commit"} {
		b.refused("show", map[string]any{"path": path}, words)
	}
	b.refused("show", map[string]any{"path": "big", "rev": "main"}, "is not in commit")
}

// TestUnusualRepositories serves what git itself can make of a repository.
func TestUnusualRepositories(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"packed": func(b *bench) { b.git(b.repo, "gc", "-q"); b.git(b.repo, "pack-refs", "--all", "--prune") },
		"no logs": func(b *bench) {
			must(b.TB, os.RemoveAll(b.repo+"/.git/logs"))
			must(b.TB, os.RemoveAll(b.repo+"/.git/worktrees/ep/logs"))
		},
		"split index": func(b *bench) { b.git(b.tree, "update-index", "--split-index") },
		"sparse": func(b *bench) {
			b.write(b.tree, "s/x", "x\n")
			b.git(b.tree, "add", "-A")
			b.git(b.tree, "commit", "-qm", "s")
			b.git(b.tree, "sparse-checkout", "set", "s")
		},
		"untracked cache": func(b *bench) { b.git(b.tree, "update-index", "--force-untracked-cache"); b.git(b.tree, "status") },
		"commit graph": func(b *bench) {
			b.git(b.repo, "gc", "-q")
			b.git(b.repo, "commit-graph", "write", "--reachable")
			b.git(b.repo, "multi-pack-index", "write")
		},
		"its own clone": func(b *bench) {
			must(b.TB, os.RemoveAll(b.tree))
			b.git(b.repo, "clone", "-q", "--no-local", ".", b.tree)
			b.git(b.tree, "checkout", "-q", "-b", "world/ep")
		},
		"shallow": func(b *bench) {
			b.git(b.repo, "commit", "-q", "--allow-empty", "-m", "x")
			must(b.TB, os.RemoveAll(b.tree))
			b.git(b.repo, "clone", "-q", "--depth=1", "file://"+b.repo, b.tree)
			b.git(b.tree, "checkout", "-q", "-b", "world/ep")
		},
		"sha256": func(b *bench) {
			must(b.TB, os.RemoveAll(b.tree))
			must(b.TB, os.Mkdir(b.tree, 0o755))
			b.git(b.tree, "init", "-q", "--object-format=sha256", "-b", "world/ep")
			b.write(b.tree, "a.txt", "one\n")
			b.git(b.tree, "add", "-A")
			b.git(b.tree, "commit", "-qm", "first")
		},
		"relative": func(b *bench) {
			rel, err := filepath.Rel(b.tree, b.repo+"/.git/worktrees/ep")
			must(b.TB, err)
			b.write(b.tree, ".git", "gitdir: "+rel+"\n")
		},
		"of a bare one": func(b *bench) {
			must(b.TB, os.RemoveAll(b.tree))
			b.git(b.repo, "clone", "-q", "--bare", "--single-branch", ".", b.home+"/bare")
			b.git(b.home+"/bare", "worktree", "add", "-q", "-b", "world/ep", b.tree, "main")
		},
		"no file modes": func(b *bench) {
			b.git(b.repo, "config", "core.fileMode", "false")
			must(b.TB, os.Chmod(b.tree+"/a.txt", 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			change(b)
			if v := b.ok("status", nil); len(v["changes"].([]any)) != 0 {
				t.Errorf("%v", v)
			}
			in := "a.txt"
			if name == "sparse" {
				in = "s/x"
			}
			b.write(b.tree, in, "changed\n")
			b.write(b.tree, strings.Replace(in, "a.txt", "fresh", 1), "changed\n")
			b.ok("diff", nil)
			b.ok("commit", map[string]any{"message": "m"})
			if v := b.ok("show", nil); !strings.Contains(v["diff"].(string), "+changed") {
				t.Errorf("%v", v)
			}
			if name != "shallow" {
				b.ok("show", map[string]any{"rev": "HEAD~1"})
			}
			if n := len(b.ok("log", nil)["commits"].([]any)); n < 2 {
				t.Errorf("%d commits", n)
			}
			if got := b.git(b.tree, "status", "--porcelain"); got != "" {
				t.Errorf("%q", got)
			}
			b.git(b.tree, "fsck", "--strict")
		})
	}
}

// TestBranchWithoutACommit is told as such.
func TestBranchWithoutACommit(t *testing.T) {
	b := newBench(t)
	must(t, os.RemoveAll(b.tree))
	must(t, os.Mkdir(b.tree, 0o755))
	b.git(b.tree, "init", "-q", "-b", "world/ep")
	for _, op := range []string{"status", "diff", "log", "show", "commit"} {
		b.refused(op, messageFor(op), "has no commit yet")
	}
}

// TestManyFiles looks at a hundred thousand files within the time of an effect, and tells
// as many as it may.
func TestManyFiles(t *testing.T) {
	b := newBench(t)
	for i := range 100 {
		dir := filepath.Join(b.tree, fmt.Sprintf("d%03d", i))
		must(t, os.Mkdir(dir, 0o755))
		for j := range 1000 {
			must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%04d", j)), nil, 0o644))
		}
	}
	start := time.Now()
	v := b.ok("status", nil)
	untracked := time.Since(start)
	if n := len(v["changes"].([]any)); n != MaxEntries || v["truncated"] != true {
		t.Errorf("%d, %v", n, v["truncated"])
	}
	b.refused("commit", map[string]any{"message": "m"}, "more than 20000 paths changed")
	if v := b.ok("commit", map[string]any{"message": "m", "paths": []string{"d000"}}); len(v["files"].([]any)) != 1000 {
		t.Errorf("%v", v["files"])
	}
	b.git(b.tree, "add", "-A")
	b.git(b.tree, "commit", "-qm", "many")
	start = time.Now()
	if v := b.ok("status", nil); len(v["changes"].([]any)) != 0 {
		t.Errorf("%v", v)
	}
	t.Logf("status of 100,000 files: untracked %v, tracked %v", untracked, time.Since(start))
}
