package workspace

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

func TestProtectedPaths(t *testing.T) {
	r := newRig(t, "deploy/", "*.pem", "docs/private", "gen/**/*.go", "./Makefile")
	r.put(map[string]string{"plain": "x"})
	for p, pat := range map[string]string{
		".git": ".git", ".git/config": ".git", "sub/.git": ".git", "sub/.git/hooks/x": ".git", ".GIT/x": ".git", ".gIt": ".git",
		".git./x": ".git", ".git /x": ".git", ".git. . /x": ".git", ".g\u200cit/x": ".git", "./.git/x": ".git", "a/../.git/x": ".git",
		".github/workflows/x.yml": ".github/", ".GitHub": ".github/", "a/.github/x": ".github/",
		".claude/settings.json": ".claude/", ".Claude/x": ".claude/", ".CLAUDE": ".claude/",
		".ailang/x": ".ailang/", ".pi/x": ".pi/", ".PI/x": ".pi/", ".vscode/tasks.json": ".vscode/", ".v\u017fcode/x": ".vscode/",
		".gitmodules": ".gitmodules", ".gitmodule\u017f": ".gitmodules", "x/.GITMODULES": ".gitmodules", ".gitattributes": ".gitattributes",
		"x/.gitattribute\u017f ": ".gitattributes",
		"deploy":                 "deploy/", "x/Deploy/y": "deploy/", "key.pem": "*.pem", "a/b/KEY.PEM": "*.pem", "c.pem/x": "*.pem",
		"docs/private": "docs/private", "docs/private/x/y": "docs/private", "Docs/PRIVATE/x": "docs/private",
		"gen/a/b/c.go": "gen/**/*.go", "gen/c.go": "gen/**/*.go", "makefile": "./Makefile", "sub/Makefile": "./Makefile",
	} {
		text := `path "` + p + `" is protected: ` + pat + ` is read-only`
		r.refused(write(p, "x"), strings.ReplaceAll(text, "\u200c", `\u200c`))
		r.refused(edit(p, "a", "b"), strings.ReplaceAll(text, "\u200c", `\u200c`))
	}
	for _, p := range []string{".gitignore", "git", "x.git", ".gitx", ".github2/a", "x/docs/private", "docs/privately", "gen/c.txt", "pem", ".pie/x", "a.git/x"} {
		r.want(write(p, "x"), obj{"ok": true, "created": true, "bytes": 1})
	}
	names, err := os.ReadDir(r.tree)
	must(t, err)
	for _, n := range names {
		if strings.EqualFold(n.Name(), ".git") || strings.EqualFold(n.Name(), "deploy") {
			t.Errorf("%s was made", n.Name())
		}
	}
	r.tidy()
}

// The path that counts is the one that is meant in the end.
func TestProtectedThroughLinks(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{".git/config": "conf", ".git/hooks/x": "hook", "a/b": "b", ".gitmodules": "m"})
	r.link(".git", "x")
	r.link("x", "y")
	r.link("../.git/config", "a/conf")
	r.link(".git/new", "dangling")
	r.link(".git/newdir/deeper", "deep")
	r.link(".gitmodules", "mods")
	r.link("a", ".vscode") // a protected name that leads to what is not
	for _, p := range []string{"x/config", "x/hooks/y", "y/hooks/x", "a/conf", "dangling", "deep", "deep/f", "x", "mods", ".vscode/b"} {
		for _, payload := range []obj{write(p, "evil"), edit(p, "conf", "evil")} {
			got, err := r.perform(payload)
			must(t, err)
			text, _ := got["refused"].(string)
			if got["ok"] != false || !strings.HasPrefix(text, `path "`+p+`" is protected: `) || !strings.HasSuffix(text, "read-only") {
				t.Errorf("%v: got %v", payload, got)
			}
		}
	}
	r.want(read("x/config"), obj{"ok": true, "content": "conf"})
	r.want(read(".git/config"), obj{"ok": true, "content": "conf"})
	if r.content(".git/config") != "conf" || r.content("a/b") != "b" {
		t.Error("a protected file changed")
	}
}

// In a linked worktree .git is a file that names a place outside; it is a file like any
// other to readers, and read-only.
func TestGitFile(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{".git": "gitdir: /elsewhere\n", "sub/.git": "gitdir: x\n"})
	r.want(read(".git"), obj{"ok": true, "content": "gitdir: /elsewhere\n"})
	r.refused(write("sub/.git", "x"), `path "sub/.git" is protected: .git is read-only`)
}

// A directory that becomes protected between the check and the write is not written to:
// the directory that was opened is.
func TestProtectedRace(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{".git/config": "conf", "d/config": "mine"})
	r.h.hooks.resolved = func() {
		must(t, os.Rename(filepath.Join(r.tree, "d"), filepath.Join(r.tree, "e")))
		r.link(".git", "d")
	}
	r.want(write("d/config", "new"), obj{"ok": true, "created": false, "bytes": 3})
	if r.content(".git/config") != "conf" || r.content("e/config") != "new" {
		t.Error("the write went astray")
	}
}

// What the operator opens for one episode is read-only in all others, and each answer names
// the policy that it was given under.
func TestPolicyOfTheEpisode(t *testing.T) {
	rules := policy.Rules{Allow: []string{".github/ISSUES/"}}
	set, err := policy.New(policy.Config{Episodes: []policy.Episode{{Match: episode, Rules: rules}}})
	must(t, err)
	r := newRigFor(t, set)
	for _, p := range []string{".github/ISSUES/a", ".github/workflows/a"} {
		got, err := r.h.Perform(t.Context(), request(episode, write(p, "x")))
		must(t, err)
		want := obj{"ok": true, "created": true, "bytes": 1.0}
		if p != ".github/ISSUES/a" {
			want = obj{"ok": false, "refused": `path "` + p + `" is protected: .github/ is read-only`}
		}
		want["tool"], want["policy_digest"] = r.h.tool, set.For(episode).Digest()
		if d := cmp.Diff(want, decoded(t, got)); d != "" {
			t.Error(d)
		}
	}
	must(t, os.Mkdir(filepath.Join(filepath.Dir(r.tree), "other"), 0o755))
	got, err := r.h.Perform(t.Context(), request("other", write(".github/ISSUES/a", "x")))
	must(t, err)
	want := obj{"ok": false, "refused": `path ".github/ISSUES/a" is protected: .github/ is read-only`,
		"tool": r.h.tool, "policy_digest": set.For("other").Digest()}
	if d := cmp.Diff(want, decoded(t, got)); d != "" {
		t.Error(d)
	}
	if len(r.h.Objects()) != 3 {
		t.Errorf("objects: %v", r.h.Objects())
	}
}

func request(of string, payload obj) broker.Request {
	return broker.Request{Episode: of, EffectID: "e1", Need: world.Need{Effect: EffectWrite, Scope: Scope, Cost: 1},
		Payload: hashref.MustMarshal(payload)}
}

func decoded(t *testing.T, text []byte) obj {
	t.Helper()
	var v obj
	must(t, json.Unmarshal(text, &v))
	return v
}
