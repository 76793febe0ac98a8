package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/cli/worktree"
)

// refs are all refs of the repository but one.
func (b *bench) refs(but string) string {
	b.Helper()
	var others []string
	for _, line := range strings.Split(b.git(b.repo, "for-each-ref", "--format=%(refname) %(objectname)"), "\n") {
		if !strings.HasPrefix(line, but+" ") {
			others = append(others, line)
		}
	}
	head, err := os.ReadFile(b.repo + "/.git/HEAD")
	must(b.TB, err)
	return strings.Join(others, "\n") + string(head)
}

func paths(v map[string]any, list string) []string {
	all := []string{}
	items, _ := v[list].([]any)
	for _, it := range items {
		all = append(all, it.(map[string]any)["path"].(string))
	}
	return all
}

func TestBranchIsTheWorktrees(t *testing.T) {
	if got := BranchOf("x-1"); got != worktree.BranchOf("x-1") {
		t.Errorf("%s is not what worktrees are made on", got)
	}
}

// TestCommitMovesTheBranchAlone looks at all that a commit may and may not change.
func TestCommitMovesTheBranchAlone(t *testing.T) {
	b := newBench(t)
	b.git(b.repo, "tag", "v1")
	b.git(b.repo, "branch", "world/other")
	before, first := b.refs("refs/heads/world/ep"), b.git(b.tree, "rev-parse", "HEAD")
	config, err := os.ReadFile(b.repo + "/.git/config")
	must(t, err)
	b.write(b.tree, "a.txt", "changed\n")
	b.write(b.tree, "new/c.txt", "new\n")
	must(t, os.Remove(b.tree+"/dir/b.txt"))
	must(t, os.Symlink("a.txt", b.tree+"/link"))
	v := b.ok("commit", map[string]any{"message": "  \n\nsubject\r\n\r\n# not a comment  \nwhy\n\n\n"})
	if d := cmp.Diff([]string{"a.txt", "dir/b.txt", "link", "new/c.txt"}, paths(v, "files")); d != "" {
		t.Error(d)
	}
	if got := b.refs("refs/heads/world/ep"); got != before {
		t.Errorf("other refs moved:\n%s\n%s", before, got)
	}
	if now, _ := os.ReadFile(b.repo + "/.git/config"); string(now) != string(config) {
		t.Errorf("the configuration changed: %s", now)
	}
	if got := b.git(b.tree, "rev-parse", "refs/heads/world/ep", "HEAD", "HEAD^"); got != v["commit"].(string)+"\n"+v["commit"].(string)+"\n"+first {
		t.Errorf("%s", got)
	}
	if got := b.git(b.tree, "status", "--porcelain"); got != "" {
		t.Errorf("a person's git sees %s", got)
	}
	const want = "World episode ep <ep@world.invalid> 1700000000 +0000\nWorld episode ep <ep@world.invalid> 1700000000 +0000\n" +
		"  \n\nsubject\n\n# not a comment\nwhy\n\nWorld-Provenance: store=store1 episode=ep entries=0-7\n"
	raw := b.git(b.tree, "cat-file", "commit", "HEAD")
	_, raw, _ = strings.Cut(raw, "author ")
	raw = strings.Replace(strings.Replace(raw, "committer ", "", 1), "0000\n\n", "0000\n", 1)
	if got := raw + "\n"; got != strings.Replace(want, "  \n\n", "", 1) {
		t.Errorf("%q", got)
	}
	if log := b.git(b.tree, "reflog", "-1"); !strings.Contains(log, "commit: subject") {
		t.Errorf("the log of HEAD says %s", log)
	}
	b.git(b.repo, "fsck", "--strict")
	b.nothingLeft()
}

// nothingLeft demands that no lock and no scratch is left.
func (b *bench) nothingLeft() {
	b.Helper()
	if left, _ := filepath.Glob(b.h.cfg.Scratch + "/*"); len(left) > 0 {
		b.Errorf("scratch is left: %q", left)
	}
	_ = filepath.WalkDir(b.repo+"/.git", func(p string, _ os.DirEntry, _ error) error {
		if strings.HasSuffix(p, ".lock") || strings.Contains(p, indexTemp) {
			b.Errorf("%s is left", p)
		}
		return nil
	})
}

// TestEntriesFollowOneAnother holds each commit's part of the log against the last one's.
func TestEntriesFollowOneAnother(t *testing.T) {
	b := newBench(t)
	for i, c := range []struct {
		end  int64
		want string
	}{{7, "0-7"}, {9, "8-9"}, {9, "9-9"}, {30, "10-30"}} {
		if b.logEnd = c.end; i == 3 { // commits of a person, and of another store, are passed over
			b.git(b.tree, "commit", "-q", "--allow-empty", "-m", "p\n\nWorld-Provenance: store=other episode=ep entries=0-20")
			b.git(b.tree, "commit", "-q", "--allow-empty", "-m", "p\n\nWorld-Provenance: nonsense")
		}
		b.write(b.tree, "a.txt", strings.Repeat("x", i+1))
		if v := b.ok("commit", map[string]any{"message": "m"}); v["provenance"] != "store=store1 episode=ep entries="+c.want {
			t.Errorf("%d: %v", i, v["provenance"])
		}
	}
	if v := b.ok("log", map[string]any{"limit": 1}); v["commits"].([]any)[0].(map[string]any)["provenance"] != "store=store1 episode=ep entries=10-30" {
		t.Errorf("%v", v)
	}
}

func TestCommitRefuses(t *testing.T) {
	b := newBench(t)
	first := b.git(b.tree, "rev-parse", "HEAD")
	b.refused("commit", map[string]any{"message": "m"}, "nothing to commit")
	b.write(b.tree, "a.txt", "x\n")
	b.write(b.tree, ".GitHub/workflow", "x\n")
	for message, words := range map[string]string{
		"": "empty", " \n\t": "empty", strings.Repeat("m", MaxMessage+1): "too long", "a\x00b": "control", "a\x1b[2J": "control", "a\rb": "control",
		"m\n\nWorld-Provenance: store=x": "is added here", "m\n\nworld-provenance : x": "is added here", "m\n World-Provenance: x\nmore": "is added here",
	} {
		b.refused("commit", map[string]any{"message": message}, words)
	}
	for _, c := range []struct{ path, words string }{
		{".github/workflow", "protected"}, {".GitHub", "protected"}, {"x/.GIT/config", "protected"}, {"git~1/x", "protected"}, {".gitattribute\u017f", "protected"}, {".git\u200c/hooks", "protected"},
		{"../x", "escapes"}, {"/etc", "escapes"}, {"", "empty"}, {"none", "nothing changed at"}, {"a*", "nothing changed at"}, {":(top)a.txt", "nothing changed at"},
		{strings.Repeat("p", MaxPath+1), "too long"}, {"a.txt\x00", "NUL"}, {"-A", "nothing changed at"},
	} {
		b.refused("commit", map[string]any{"message": "m", "paths": []string{c.path}}, c.words)
	}
	b.refused("commit", map[string]any{"message": "m", "paths": []string{}}, "paths is empty")
	b.refused("commit", map[string]any{"message": "m", "paths": []string{"a.txt", ".github"}}, "protected")

	for name, what := range map[string]string{"MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick", "rebase-merge": "a rebase"} {
		at := b.repo + "/.git/worktrees/ep/" + name
		must(t, os.WriteFile(at, []byte(first+"\n"), 0o644))
		b.refused("commit", map[string]any{"message": "m"}, what+" is under way")
		if v := b.ok("status", nil); v["under_way"] != what {
			t.Errorf("%v", v)
		}
		must(t, os.Remove(at))
	}
	b.git(b.tree, "checkout", "-q", "--detach")
	b.refused("commit", map[string]any{"message": "m"}, "detached")
	if v := b.ok("status", nil); v["branch"] != "" {
		t.Errorf("%v", v)
	}
	b.git(b.tree, "checkout", "-q", "-b", "side")
	b.refused("commit", map[string]any{"message": "m"}, `on the branch "side"`)
	b.git(b.tree, "checkout", "-q", "world/ep")
	b.git(b.repo, "symbolic-ref", "refs/heads/world/ep", "refs/heads/side")
	b.refused("commit", map[string]any{"message": "m"}, "another name of")
	if got := b.git(b.repo, "rev-parse", "main", "side"); got != first+"\n"+first {
		t.Errorf("a branch moved: %s", got)
	}
	b.nothingLeft()
}

func TestCommitRefusesConflicts(t *testing.T) {
	b := newBench(t)
	b.write(b.tree, "a.txt", "mine\n")
	b.git(b.tree, "commit", "-qam", "mine")
	b.write(b.repo, "a.txt", "theirs\n")
	b.git(b.repo, "commit", "-qam", "theirs")
	if err := b.plain(b.tree, "merge", "-q", "main").Run(); err == nil {
		t.Fatal("no conflict was made")
	}
	must(t, os.Remove(b.repo+"/.git/worktrees/ep/MERGE_HEAD"))
	b.refused("commit", map[string]any{"message": "m"}, "has a conflict")
	if v := b.ok("status", nil); v["changes"].([]any)[0].(map[string]any)["conflict"] != true {
		t.Errorf("%v", v)
	}
}

// TestCommitTakesWhatItMay leaves out what is protected, filtered, too large, or no file,
// and says so; what a person staged of it stays staged.
func TestCommitTakesWhatItMay(t *testing.T) {
	b := newBench(t)
	b.write(b.tree, ".gitattributes", "*.bin filter=lfs\n*.txt text eol=lf\n")
	b.git(b.tree, "add", "-A")
	b.git(b.tree, "commit", "-qm", "attributes")
	b.write(b.tree, "a.txt", "crlf\r\n")
	b.write(b.tree, "big.bin", "x\n")
	b.write(b.tree, ".claude/x", "x\n")
	b.write(b.tree, ".vscode/staged", "x\n")
	b.git(b.tree, "add", ".vscode")
	b.git(b.tree, "init", "-q", "nested")
	b.write(b.tree, "nested/x", "x\n")
	b.git(b.tree+"/nested", "add", "-A")
	b.git(b.tree+"/nested", "commit", "-qm", "x")
	huge, err := os.Create(b.tree + "/huge")
	must(t, err)
	must(t, huge.Truncate(10<<30))
	must(t, huge.Close())
	must(t, syscall.Mkfifo(b.tree+"/fifo", 0o644))
	must(t, os.Chmod(b.tree+"/dir/b.txt", 0o755))
	v := b.ok("commit", map[string]any{"message": "m"})
	if d := cmp.Diff([]string{"a.txt", "dir/b.txt"}, paths(v, "files")); d != "" {
		t.Error(d)
	}
	left := map[string]string{}
	for _, l := range v["left_out"].([]any) {
		left[l.(map[string]any)["path"].(string)] = l.(map[string]any)["reason"].(string)
	}
	want := map[string]string{
		".claude/x": "protected: .claude/ is read-only", ".vscode/staged": "protected: .vscode/ is read-only", "nested/": "it is a repository of its own",
		"big.bin": `its attributes put it through the filter "lfs", and no filter is run here`, "huge": "it is too large: 10737418240 bytes, at most 67108864",
	}
	if d := cmp.Diff(want, left); d != "" {
		t.Error(d)
	}
	if got := b.git(b.tree, "show", "HEAD:a.txt"); got != "crlf" {
		t.Errorf("%q: line ends are not as .gitattributes says", got)
	}
	if got := b.git(b.tree, "ls-files", "-s", "dir/b.txt"); !strings.HasPrefix(got, "100755") {
		t.Errorf("%s", got)
	}
	if got := b.git(b.tree, "diff", "--cached", "--name-only"); got != ".vscode/staged" {
		t.Errorf("staged is %q", got)
	}
	b.refused("commit", map[string]any{"message": "m"}, "was left out")
	b.nothingLeft()
}

// TestCommitOfPaths commits what is named, as it is in the worktree, and leaves the rest.
func TestCommitOfPaths(t *testing.T) {
	b := newBench(t)
	b.write(b.tree, "a.txt", "staged\n")
	b.git(b.tree, "add", "a.txt")
	b.write(b.tree, "a.txt", "later\n")
	b.write(b.tree, "dir/b.txt", "x\n")
	b.write(b.tree, "dir/sub/c.txt", "x\n")
	b.write(b.tree, "dir2/d.txt", "x\n")
	if v := b.ok("commit", map[string]any{"message": "m", "paths": []string{"dir"}}); len(v["files"].([]any)) != 2 {
		t.Errorf("%v", v)
	}
	if got := b.git(b.tree, "status", "--porcelain"); got != "MM a.txt\n?? dir2/" {
		t.Errorf("%q", got)
	}
	if v := b.ok("commit", map[string]any{"message": "m", "paths": []string{"./a.txt"}}); len(v["files"].([]any)) != 1 {
		t.Errorf("%v", v)
	}
	if got := b.git(b.tree, "show", "HEAD:a.txt"); got != "later" {
		t.Errorf("%q", got)
	}
	// Staged, then made as it was: nothing to commit of it, and nothing is staged after.
	b.write(b.tree, "dir/b.txt", "y\n")
	b.git(b.tree, "add", "dir/b.txt")
	b.write(b.tree, "dir/b.txt", "x\n")
	b.ok("commit", map[string]any{"message": "m"})
	if got := b.git(b.tree, "status", "--porcelain"); got != "" {
		t.Errorf("%q", got)
	}
	// A file becomes a folder, a folder a link.
	must(t, os.Remove(b.tree+"/a.txt"))
	b.write(b.tree, "a.txt/x", "x\n")
	must(t, os.RemoveAll(b.tree+"/dir"))
	must(t, os.Symlink("dir2", b.tree+"/dir"))
	b.ok("commit", map[string]any{"message": "m"})
	if got := b.git(b.tree, "ls-tree", "-r", "--name-only", "HEAD"); got != "a.txt/x\ndir\ndir2/d.txt" {
		t.Errorf("%q", got)
	}
	if got := b.git(b.tree, "status", "--porcelain"); got != "" {
		t.Errorf("%q", got)
	}
}

// TestIndexLock: a lock of another git is respected; one that a crash of ours left is not.
func TestIndexLock(t *testing.T) {
	b := newBench(t)
	b.write(b.tree, "a.txt", "x\n")
	dir := b.repo + "/.git/worktrees/ep"
	for _, text := range []string{"", "DIRC", lockMark + "x"} {
		must(t, os.WriteFile(dir+"/index.lock", []byte(text), 0o644))
		b.ok("status", nil)
		b.ok("diff", nil)
		b.refused("commit", map[string]any{"message": "m"}, "another git is at work")
		if got, err := os.ReadFile(dir + "/index.lock"); err != nil || string(got) != text {
			t.Errorf("the lock of another is %q, %v", got, err)
		}
		must(t, os.Remove(dir+"/index.lock"))
	}
	held, err := lockIndex(dir)
	must(t, err)
	b.refused("commit", map[string]any{"message": "m"}, "another git is at work")
	held.release()
	must(t, os.WriteFile(dir+"/index.lock", []byte(lockMark), 0o644))
	must(t, os.WriteFile(dir+"/"+indexTemp+"123", []byte("half"), 0o644))
	b.ok("commit", map[string]any{"message": "m"})
	b.nothingLeft()
}

// TestCommitStopsWhole ends a commit at each of its steps: the branch, the index and the
// files are as they were, and no lock is left.
func TestCommitStopsWhole(t *testing.T) {
	for name, stage := range map[string]func(b *bench, cancel func()){
		"canceled when locked": func(b *bench, cancel func()) { b.h.hooks.locked = cancel },
		"canceled when listed": func(b *bench, cancel func()) { b.h.hooks.listed = cancel },
		"branch moved": func(b *bench, _ func()) {
			b.h.hooks.indexed = func() {
				b.git(b.repo, "update-ref", "refs/heads/world/ep", b.git(b.repo, "commit-tree", "-p", "main", "-m", "x", "main^{tree}"))
			}
		},
		"branch locked": func(b *bench, _ func()) {
			b.h.hooks.indexed = func() { b.write(b.repo, ".git/refs/heads/world/ep.lock", "") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(b.tree, "a.txt", "x\n")
			b.write(b.tree, "b.txt", "x\n")
			b.git(b.tree, "add", "b.txt")
			before := b.git(b.tree, "ls-files", "-s")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stage(b, cancel)
			out, err := b.perform(ctx, "commit", map[string]any{"message": "m"})
			if strings.HasPrefix(name, "canceled") {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s, %v", out, err)
				}
			} else if err != nil || !strings.Contains(string(out), "nothing was committed") {
				t.Errorf("%s, %v", out, err)
			}
			os.Remove(b.repo + "/.git/refs/heads/world/ep.lock")
			if got := b.git(b.tree, "ls-files", "-s"); got != before {
				t.Errorf("the index changed:\n%s\n%s", before, got)
			}
			if n := b.git(b.tree, "log", "--format=%an", "world/ep"); strings.Contains(n, "World") {
				t.Errorf("the branch moved: %s", n)
			}
			b.nothingLeft()
		})
	}
	// A commit whose end is past its caller's time, once it is being written, is whole.
	b := newBench(t)
	b.write(b.tree, "a.txt", "x\n")
	ctx, cancel := context.WithCancel(t.Context())
	b.h.hooks.indexed = cancel
	if out, err := b.perform(ctx, "commit", map[string]any{"message": "m"}); err != nil || !strings.Contains(string(out), `"ok":true`) {
		t.Errorf("%s, %v", out, err)
	}
	if got := b.git(b.tree, "status", "--porcelain"); got != "" {
		t.Errorf("%q", got)
	}
}
