package git

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// trap is a program that leaves a mark when it is run.
func (b *bench) trap() (program string, sprung func() bool) {
	b.Helper()
	dir := b.TempDir()
	program = filepath.Join(dir, "trap")
	// Filters and monitors get what they answer with; the mark is what counts.
	must(b.TB, os.WriteFile(program, []byte("#!/bin/sh\necho \"$0 $*\" >>"+dir+"/sprung\n[ \"$1\" = stop ] || cat 2>/dev/null\nexit 0\n"), 0o755))
	return program, func() bool {
		_, err := os.Stat(filepath.Join(dir, "sprung"))
		os.Remove(filepath.Join(dir, "sprung"))
		return err == nil
	}
}

// everything does one of each operation, so that whatever could be run by any of them is.
func (b *bench) everything() {
	b.Helper()
	b.write(b.tree, "a.txt", "one\n2\nthree\n")
	b.write(b.tree, "fresh.txt", "fresh\n")
	for _, call := range []struct {
		op      string
		members map[string]any
	}{
		{"status", nil}, {"diff", nil}, {"diff", map[string]any{"from": "HEAD", "path": "a.txt"}}, {"log", map[string]any{"path": "a.txt"}},
		{"show", nil}, {"show", map[string]any{"path": "a.txt"}}, {"commit", map[string]any{"message": "m"}}, {"show", nil}, {"status", nil},
	} {
		b.do(call.op, call.members)
	}
}

// TestNothingConfiguredIsRun plants every kind of program that a repository, a user or the
// environment can have git run. Plain git springs each trap; the handler none.
func TestNothingConfiguredIsRun(t *testing.T) {
	type plant func(b *bench, trap string)
	config := func(pairs ...string) plant {
		return func(b *bench, trap string) {
			for i := 0; i < len(pairs); i += 2 {
				b.git(b.repo, "config", pairs[i], strings.ReplaceAll(pairs[i+1], "TRAP", trap))
			}
		}
	}
	attributes := func(line string, then plant) plant {
		return func(b *bench, trap string) {
			b.write(b.tree, ".gitattributes", line+"\n")
			b.write(b.repo, ".git/info/attributes", line+"\n")
			then(b, trap)
		}
	}
	hooks := func(dir func(b *bench) string) plant {
		return func(b *bench, trap string) {
			for _, name := range []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change", "reference-transaction",
				"post-checkout", "post-rewrite", "pre-auto-gc", "fsmonitor-watchman", "post-merge", "pre-push", "sendemail-validate"} {
				must(b.TB, os.MkdirAll(dir(b), 0o755))
				must(b.TB, os.Symlink(trap, filepath.Join(dir(b), name)))
			}
		}
	}
	all := map[string]struct {
		plant   plant
		control []string // plain git that springs the trap; nil where none is safe or needed
	}{
		"hooks": {hooks(func(b *bench) string { return filepath.Join(b.repo, ".git/hooks") }), []string{"commit", "-qam", "m"}},
		"hooks elsewhere": {func(b *bench, trap string) {
			dir := b.TempDir()
			hooks(func(*bench) string { return dir })(b, trap)
			b.git(b.repo, "config", "core.hooksPath", dir)
		}, []string{"commit", "-qam", "m"}},
		"filter clean":   {attributes("* filter=evil", config("filter.evil.clean", "TRAP", "filter.evil.smudge", "TRAP", "filter.evil.required", "true")), []string{"add", "-A"}},
		"filter process": {attributes("* filter=evil", config("filter.evil.process", "TRAP")), []string{"add", "a.txt"}},
		"filter lfs":     {attributes("* filter=lfs diff=lfs merge=lfs", config("filter.lfs.clean", "TRAP %f", "diff.lfs.textconv", "TRAP")), []string{"add", "-A"}},
		"textconv":       {attributes("* diff=evil", config("diff.evil.textconv", "TRAP", "diff.evil.cachetextconv", "true")), []string{"diff"}},
		"diff driver":    {attributes("* diff=evil", config("diff.evil.command", "TRAP")), []string{"diff"}},
		"external diff":  {config("diff.external", "TRAP"), []string{"diff"}},
		"merge driver":   {attributes("* merge=evil", config("merge.evil.driver", "TRAP")), nil},
		"fsmonitor":      {config("core.fsmonitor", "TRAP"), []string{"status"}},
		"signature":      {config("commit.gpgSign", "true", "gpg.program", "TRAP", "user.signingKey", "k", "log.showSignature", "true", "gpg.format", "openpgp"), []string{"commit", "-qam", "m"}},
		"ssh signature":  {config("commit.gpgSign", "true", "gpg.format", "ssh", "gpg.ssh.program", "TRAP", "user.signingKey", "k", "gpg.ssh.defaultKeyCommand", "TRAP"), []string{"commit", "-qam", "m"}},
		"pager, editor":  {config("core.pager", "TRAP", "pager.log", "TRAP", "pager.diff", "TRAP", "core.editor", "TRAP", "sequence.editor", "TRAP"), []string{"commit", "-q", "--allow-empty"}},
		"alias":          {config("alias.status", "!TRAP", "alias.log", "!TRAP", "alias.st", "!TRAP", "alias.diff-tree", "!TRAP", "alias.commit-tree", "!TRAP"), []string{"st"}},
		"trailer":        {config("trailer.World-Provenance.command", "TRAP", "trailer.x.cmd", "TRAP"), []string{"interpret-trailers", "/dev/null"}},
		"credentials":    {config("credential.helper", "!TRAP", "core.askPass", "TRAP", "core.sshCommand", "TRAP", "core.gitProxy", "TRAP"), nil},
		"include": {func(b *bench, trap string) {
			b.write(b.home, "outside", "[core]\n\tfsmonitor = "+trap+"\n")
			b.git(b.repo, "config", "include.path", filepath.Join(b.home, "outside"))
			b.git(b.repo, "config", "includeIf.gitdir:/.path", filepath.Join(b.home, "outside"))
		}, []string{"status"}},
		"configuration of the worktree": {func(b *bench, trap string) {
			b.git(b.repo, "config", "extensions.worktreeConfig", "true")
			b.git(b.tree, "config", "--worktree", "core.fsmonitor", trap)
		}, []string{"status"}},
		"configuration of the user": {func(b *bench, trap string) {
			b.write(b.home, ".gitconfig", "[core]\n\tfsmonitor = "+trap+"\n")
			b.write(b.home, ".config/git/config", "[core]\n\tfsmonitor = "+trap+"\n")
			b.Setenv("HOME", b.home)
			b.Setenv("XDG_CONFIG_HOME", filepath.Join(b.home, ".config"))
		}, []string{"status"}},
		"environment": {func(b *bench, trap string) {
			for k, v := range map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": trap, "GIT_EXTERNAL_DIFF": trap,
				"GIT_DIR": filepath.Join(b.home, "none"), "GIT_WORK_TREE": b.home, "GIT_INDEX_FILE": filepath.Join(b.home, "index"), "GIT_PAGER": trap,
				"GIT_EDITOR": trap, "GIT_SSH_COMMAND": trap, "GIT_ASKPASS": trap, "GIT_EXEC_PATH": filepath.Dir(trap), "GIT_TRACE": filepath.Join(b.home, "trace"),
				"GIT_CONFIG_PARAMETERS": "'core.fsmonitor'='" + trap + "'", "LD_PRELOAD": trap} {
				b.Setenv(k, v)
			}
			b.Cleanup(func() {
				if _, err := os.Stat(filepath.Join(b.home, "trace")); err == nil {
					b.Error("git wrote the trace that the environment asked for")
				}
			})
		}, nil},
		"submodule": {func(b *bench, trap string) {
			b.git(b.tree, "init", "-q", "sub")
			b.write(b.tree, "sub/x", "x\n")
			b.git(filepath.Join(b.tree, "sub"), "add", "-A")
			b.git(filepath.Join(b.tree, "sub"), "commit", "-qm", "sub")
			b.write(b.tree, ".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::"+trap+"\n")
			b.git(b.tree, "add", "-A")
			b.git(b.tree, "commit", "-qm", "with a submodule")
			b.git(filepath.Join(b.tree, "sub"), "config", "core.fsmonitor", trap)
			b.git(b.repo, "config", "submodule.recurse", "true")
		}, []string{"status"}},
		"lazy fetch by a protocol that runs": {func(b *bench, trap string) {
			for k, v := range map[string]string{"extensions.partialClone": "origin", "core.repositoryFormatVersion": "1", "remote.origin.promisor": "true",
				"remote.origin.url": "ext::" + trap + " stop", "protocol.ext.allow": "always", "protocol.allow": "always"} {
				b.git(b.repo, "config", k, v)
			}
			id := b.git(b.tree, "rev-parse", "HEAD:dir/b.txt")
			must(b.TB, os.Remove(filepath.Join(b.repo, ".git/objects", id[:2], id[2:])))
			// What is missing is a failure here, told as one.
			if _, err := b.perform(b.Context(), "show", map[string]any{"path": "dir/b.txt"}); err == nil {
				b.Error("an object that is missing was shown")
			}
		}, []string{"cat-file", "-p", "HEAD:dir/b.txt"}},
	}
	tried := 0
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			trap, sprung := b.trap()
			c.plant(b, trap)
			sprung() // planting may have sprung it
			if strings.HasPrefix(name, "lazy") {
				b.do("status", nil)
				b.do("log", nil)
			} else {
				b.everything()
			}
			if sprung() {
				t.Error("the handler's git ran what was planted")
			}
			if c.control == nil {
				return
			}
			b.write(b.tree, "a.txt", "control\n")
			cmd := b.plain(b.tree, c.control...)
			cmd.Env = append(cmd.Env, "GIT_ALLOW_PROTOCOL=ext")
			out, _ := cmd.CombinedOutput() // it may well fail
			if !sprung() {
				t.Errorf("the trap does not work: plain git %q did not spring it: %s", c.control, out)
			}
		})
		tried++
	}
	t.Logf("%d kinds tried", tried)
}

// TestRepositoryLeadsElsewhere puts something else in the place of each part of a
// repository that git goes by. Nothing of it is served.
func TestRepositoryLeadsElsewhere(t *testing.T) {
	move := func(b *bench, from, to string) { must(b.TB, os.Rename(from, to)) }
	other := func(b *bench) string {
		dir := b.TempDir()
		b.git(dir, "init", "-q", "-b", "main")
		b.write(dir, "secret.txt", "secret\n")
		b.git(dir, "add", "-A")
		b.git(dir, "commit", "-qm", "secret")
		return dir
	}
	linked := func(name string) func(b *bench) {
		return func(b *bench) {
			at := filepath.Join(b.repo, ".git", name)
			away := filepath.Join(b.TempDir(), "away")
			if err := os.Rename(at, away); err != nil {
				must(b.TB, os.MkdirAll(filepath.Dir(at), 0o755))
				b.write(filepath.Dir(away), "away", "x\n")
			}
			must(b.TB, os.Symlink(away, at))
		}
	}
	for name, plant := range map[string]func(b *bench){
		".git is a link": func(b *bench) { move(b, b.tree+"/.git", b.tree+"/dot"); must(b.TB, os.Symlink("dot", b.tree+"/.git")) },
		".git is a link to a repository": func(b *bench) {
			must(b.TB, os.Remove(b.tree+"/.git"))
			must(b.TB, os.Symlink(other(b)+"/.git", b.tree+"/.git"))
		},
		".git names another repository": func(b *bench) { b.write(b.tree, ".git", "gitdir: "+other(b)+"/.git\n") },
		".git names the main checkout":  func(b *bench) { b.write(b.tree, ".git", "gitdir: "+b.repo+"/.git\n") },
		".git names another worktree": func(b *bench) {
			b.git(b.repo, "worktree", "add", "-q", "-b", "o", b.home+"/o")
			b.write(b.tree, ".git", "gitdir: "+b.repo+"/.git/worktrees/o\n")
		},
		".git names a folder in the tree": func(b *bench) {
			b.git(b.repo, "clone", "-q", "--bare", ".", b.tree+"/r")
			b.write(b.tree, "r/worktrees/w/HEAD", "ref: refs/heads/world/ep\n")
			b.write(b.tree, "r/worktrees/w/commondir", "../..\n")
			b.write(b.tree, "r/worktrees/w/gitdir", b.tree+"/.git\n")
			b.write(b.tree, ".git", "gitdir: r/worktrees/w\n")
		},
		".git is a FIFO": func(b *bench) {
			must(b.TB, os.Remove(b.tree+"/.git"))
			must(b.TB, syscall.Mkfifo(b.tree+"/.git", 0o644))
		},
		".git is gone":              func(b *bench) { must(b.TB, os.Remove(b.tree+"/.git")) },
		".git holds something else": func(b *bench) { b.write(b.tree, ".git", "hello\n") },
		"commondir names another":   func(b *bench) { b.write(b.repo, ".git/worktrees/ep/commondir", other(b)+"/.git\n") },
		"a .git folder names another": func(b *bench) {
			must(b.TB, os.Remove(b.tree+"/.git"))
			b.git(b.tree, "init", "-q")
			b.write(b.tree, ".git/commondir", other(b)+"/.git\n")
		},
		"objects is a link":      linked("objects"),
		"refs is a link":         linked("refs"),
		"refs/heads is a link":   linked("refs/heads"),
		"refs/heads/world":       linked("refs/heads/world"),
		"the branch is a link":   linked("refs/heads/world/ep"),
		"the branch's log":       linked("logs/refs/heads/world/ep"),
		"the log of HEAD":        linked("worktrees/ep/logs/HEAD"),
		"HEAD is a link":         linked("worktrees/ep/HEAD"),
		"the index is a link":    linked("worktrees/ep/index"),
		"config is a link":       linked("config"),
		"packed-refs is a link":  linked("packed-refs"),
		"exclude is a link":      linked("info/exclude"),
		"alternates":             func(b *bench) { b.write(b.repo, ".git/objects/info/alternates", other(b)+"/.git/objects\n") },
		"alternates is a link":   linked("objects/info/alternates"),
		"HEAD outside of heads":  func(b *bench) { b.write(b.repo, ".git/worktrees/ep/HEAD", "ref: refs/stash\n") },
		"HEAD out of the folder": func(b *bench) { b.write(b.repo, ".git/worktrees/ep/HEAD", "ref: refs/heads/../../../x\n") },
		"an unknown extension": func(b *bench) {
			b.git(b.repo, "config", "core.repositoryFormatVersion", "1")
			b.write(b.repo, ".git/config", "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\trefStorage = reftable\n")
		},
		"the worktree is a link":         func(b *bench) { move(b, b.tree, b.tree+"-x"); must(b.TB, os.Symlink(b.tree+"-x", b.tree)) },
		"the worktree is a plain folder": func(b *bench) { must(b.TB, os.RemoveAll(b.tree)); must(b.TB, os.Mkdir(b.tree, 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			plant(b)
			for _, op := range []string{"status", "commit"} {
				effect := map[string]string{"status": EffectRead, "commit": EffectCommit}[op]
				out, err := b.attempt(op, map[string]any{"message": "m"})
				if err == nil {
					t.Errorf("%s answers %s", op, out)
				}
				// What only the configuration tells is found by Perform.
				if err := b.h.Ready(t.Context(), episode, effect, Scope); err == nil && !strings.HasPrefix(name, "an unknown") {
					t.Errorf("%s: it is ready", op)
				}
			}
		})
	}
}

// TestRevisionsAreNoOptions tries what git would take for something else.
func TestRevisionsAreNoOptions(t *testing.T) {
	b := newBench(t)
	b.write(filepath.Dir(b.tree), "x", "outside\n")
	b.git(b.repo, "branch", "side")
	for _, rev := range []string{"--output=x", "-O", "-Ox", "--", "-", "HEAD:../x", "HEAD:a.txt", ":a.txt", ":/first", "HEAD..side", "HEAD...side", "..", "^HEAD", "@{1}", "HEAD@{1}",
		"HEAD@{now}", "HEAD^{/first}", "HEAD^{tree}", "HEAD^!", "HEAD^@", "HEAD^-", "@", " HEAD", "HEAD ", "HEAD\n--all", "HEAD\x00", "a/../b", strings.Repeat("a", 257),
		"HEAD" + strings.Repeat("~", 17), "HEAD~99999", "é"} {
		for op, members := range map[string]map[string]any{"log": {"rev": rev}, "show": {"rev": rev}, "diff": {"from": rev, "to": "HEAD"}} {
			if !strings.Contains(rev, "\x00") {
				b.refused(op, members, "revision ")
			}
		}
	}
	for _, rev := range []string{"none", "HEAD~5", "config", "objects", "index", "deadbeef", strings.Repeat("0", 40), "refs/heads", "HEAD^2"} {
		b.refused("show", map[string]any{"rev": rev}, "names no commit in the history")
	}
	if _, err := os.Stat(filepath.Join(b.tree, "x")); err == nil {
		t.Error("an option wrote a file")
	}
	head := b.git(b.tree, "rev-parse", "HEAD")
	for _, rev := range []string{"HEAD", "main", "side", "refs/heads/side", "world/ep", head, head[:8]} {
		if v := b.ok("show", map[string]any{"rev": rev}); v["commit"] != head {
			t.Errorf("%s is %v", rev, v["commit"])
		}
	}
}

// TestHistoryOfOthersIsNotTold: what is not in the history of the worktree's branch is not
// told from what is not there, whatever names it.
func TestHistoryOfOthersIsNotTold(t *testing.T) {
	b := newBench(t)
	b.write(b.repo, "secret.txt", "secret\n")
	b.git(b.repo, "add", "-A")
	b.git(b.repo, "commit", "-qm", "secret")
	b.git(b.repo, "tag", "v1")
	b.write(b.repo, "secret.txt", "stashed\n")
	b.git(b.repo, "stash", "-q")
	secret := b.git(b.repo, "rev-parse", "HEAD")
	var first string
	for _, rev := range []string{"none", "main", "v1", "refs/stash", "stash", secret, secret[:10]} {
		for op, key := range map[string]string{"show": "rev", "log": "rev", "diff": "from"} {
			text := strings.ReplaceAll(fmt.Sprint(b.do(op, map[string]any{key: rev})["refused"]), rev, "X")
			if first == "" {
				first = text
			}
			if text != first || !strings.Contains(text, "names no commit") {
				t.Errorf("%s %s: %s", op, rev, text)
			}
		}
	}
	if v := b.ok("show", map[string]any{"rev": "main~1"}); v["message"] != "first" {
		t.Errorf("%v", v)
	}
}

// TestObjectsAreAsTheyAre: neither replacements nor grafts change what is told.
func TestObjectsAreAsTheyAre(t *testing.T) {
	b := newBench(t)
	head := b.git(b.tree, "rev-parse", "HEAD")
	b.write(b.tree, "a.txt", "other\n")
	b.git(b.tree, "commit", "-qam", "second")
	second := b.git(b.tree, "rev-parse", "HEAD")
	b.git(b.tree, "replace", second, head)
	b.write(b.repo, ".git/info/grafts", second+"\n")
	if out := b.git(b.tree, "log", "-1", "--format=%s", second); !strings.HasSuffix(out, "first") {
		t.Fatalf("control: plain git tells %s", out)
	}
	if v := b.ok("log", nil); len(v["commits"].([]any)) != 2 {
		t.Errorf("%v", v)
	}
	if v := b.ok("show", nil); v["message"] != "second" {
		t.Errorf("%v", v)
	}
}

// TestWorktreeIsNotElsewhere: a setting that puts the worktree elsewhere is not in force.
func TestWorktreeIsNotElsewhere(t *testing.T) {
	b := newBench(t)
	must(t, os.Remove(b.tree+"/.git"))
	b.git(b.tree, "init", "-q", "-b", "world/ep")
	b.git(b.tree, "add", "-A")
	b.git(b.tree, "commit", "-qm", "own")
	b.write(b.home, "secret.txt", "secret\n")
	b.git(b.tree, "config", "core.worktree", b.home)
	if out := b.git(b.tree, "status", "--short"); !strings.Contains(out, "secret.txt") {
		t.Fatalf("control: plain git tells %s", out)
	}
	if v := b.ok("status", nil); len(v["changes"].([]any)) != 0 {
		t.Errorf("%v", v)
	}
	b.write(b.tree, "a.txt", "x\n")
	if v := b.ok("commit", map[string]any{"message": "m"}); len(v["files"].([]any)) != 1 {
		t.Errorf("%v", v)
	}
}

// TestRacesReadNothingOutside puts links to the outside in the place of what changed, after
// git has listed it. Neither diff nor commit holds what they lead to.
func TestRacesReadNothingOutside(t *testing.T) {
	for name, swap := range map[string]func(b *bench){
		"directory": func(b *bench) { must(b.TB, os.RemoveAll(b.tree+"/dir")); must(b.TB, os.Symlink(b.home, b.tree+"/dir")) },
		"file": func(b *bench) {
			must(b.TB, os.Remove(b.tree+"/dir/b.txt"))
			must(b.TB, os.Symlink(b.home+"/b.txt", b.tree+"/dir/b.txt"))
		},
		"fifo": func(b *bench) {
			must(b.TB, os.Remove(b.tree+"/dir/b.txt"))
			must(b.TB, syscall.Mkfifo(b.tree+"/dir/b.txt", 0o644))
		},
		"worktree": func(b *bench) {
			must(b.TB, os.Remove(b.tree+"/dir/b.txt"))
			must(b.TB, os.Mkdir(b.tree+"/dir/b.txt", 0o755))
		},
	} {
		for _, op := range []string{"diff", "commit"} {
			t.Run(name+" "+op, func(t *testing.T) {
				b := newBench(t)
				b.write(b.home, "b.txt", "secret of the outside\n")
				b.write(b.tree, "dir/b.txt", "changed\n")
				b.write(b.tree, "a.txt", "changed\n")
				b.h.hooks.listed = func() { swap(b) }
				out, err := b.perform(t.Context(), op, messageFor(op))
				must(t, err)
				b.h.hooks.listed = nil
				if strings.Contains(string(out), "secret of") {
					t.Errorf("%s", out)
				}
				if grep, _ := b.plain(b.tree, "grep", "-c", "secret of", "HEAD").CombinedOutput(); strings.Contains(string(grep), "b.txt") {
					t.Errorf("it is in the commit: %s", grep)
				}
			})
		}
	}
}

func messageFor(op string) map[string]any {
	if op == "commit" {
		return map[string]any{"message": "m"}
	}
	return nil
}

// TestOtherOwner: whose the repository is does not matter to a git that reads none of its
// configuration.
func TestOtherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("files can be given away by root alone")
	}
	b := newBench(t)
	if out, err := exec.CommandContext(t.Context(), "chown", "-R", "4242:4242", b.repo, b.tree).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := b.plain(b.tree, "status").CombinedOutput(); err == nil || !strings.Contains(string(out), "dubious ownership") {
		t.Fatalf("control: plain git says %s", out)
	}
	b.write(b.tree, "a.txt", "x\n")
	b.ok("status", nil)
	b.ok("commit", map[string]any{"message": "m"})
}
