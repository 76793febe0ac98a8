package workspace

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// FuzzPaths states the property of the whole package: whatever the path, and wherever a
// link of the worktree leads, an effect never touches anything outside the worktree, never
// shows what is there, never changes a protected file, and never breaks its answer's form.
func FuzzPaths(f *testing.F) {
	for i, s := range []string{"", "a", "../outside/secret", "/etc/passwd", "l", "l/../../outside/secret", "d/l/x", ".git/config", ".GIT/x",
		"l/config", "./././../ep/../../outside/new", "a\x00", "d//", strings.Repeat("../", 50) + "x", "l/l/l"} {
		for j, target := range []string{"..", "../../outside", ".git", "d", "l", "/tmp", "d/../../..", "nowhere/../.."} {
			if (i+j)%4 == 0 {
				f.Add(s, target)
			}
		}
	}
	f.Fuzz(func(t *testing.T, path, target string) {
		r := newRig(t)
		r.put(map[string]string{"a": "a", "d/f": "f", ".git/config": "conf"})
		os.Symlink(target, filepath.Join(r.tree, "l"))
		os.Symlink("../"+target, filepath.Join(r.tree, "d", "l"))
		if !utf8.ValidString(path) {
			return // no payload can hold it
		}
		for _, c := range []struct {
			effect  string
			payload obj
		}{
			{EffectRead, read(path)}, {EffectRead, list(path)}, {EffectRead, obj{"op": "glob", "pattern": "**", "path": path}},
			{EffectRead, obj{"op": "glob", "pattern": path}}, {EffectRead, obj{"op": "grep", "pattern": "secret", "path": path}},
			{EffectWrite, write(path, "x")}, {EffectWrite, edit(path, "secret", "y")},
		} {
			out, err := r.h.Perform(t.Context(), broker.Request{Episode: episode, Payload: hashref.MustMarshal(c.payload),
				Need: world.Need{Effect: c.effect, Scope: Scope, Cost: 1}})
			if err != nil {
				t.Fatalf("%v: %v", c.payload, err)
			}
			if canon, err := hashref.CanonicalObject(out); err != nil || string(canon) != string(out) {
				t.Fatalf("%v: %s", c.payload, out)
			}
			if strings.Contains(string(out), `"content":"secret`) || strings.Contains(string(out), `"text":"secret`) {
				t.Fatalf("%v shows what is outside: %s", c.payload, out)
			}
		}
		if r.content(".git/config") != "conf" {
			t.Fatal("a protected file changed")
		}
		siblings, err := os.ReadDir(filepath.Dir(r.tree))
		must(t, err)
		above, err := os.ReadDir(filepath.Dir(r.outside))
		must(t, err)
		if len(siblings) != 1 || len(above) != 2 {
			t.Fatalf("something was made outside: %v %v", siblings, above)
		}
		r.tidy()
	})
}

// FuzzPattern: a glob or an expression is refused or answered, in the form of answers, and what
// is answered with does match it.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"", "**", "{a,b}/*", "[a-c]?", "{{a,b},{c,{d,e}}}", "a)(b", "(a?){1000}", `\pL{1000}`, "(?i)k", "^$", `[\x{80}-\x{10ffff}]`,
		strings.Repeat("{a,a}", 20), strings.Repeat("*a", 100), strings.Repeat("**/a/", 50), strings.Repeat("(", 1200)} {
		f.Add(s, true)
		f.Add(s, false)
	}
	r := newRig(f)
	r.put(map[string]string{strings.Repeat("a", 200): "aaaa\nK\n\xff\n", "a/a/a/a/a/a/b": "x", "c/d": "é\n\n"})
	f.Fuzz(func(t *testing.T, pattern string, fold bool) {
		if !utf8.ValidString(pattern) {
			return // no payload can hold it
		}
		for _, payload := range []obj{{"op": "glob", "pattern": pattern}, {"op": "grep", "pattern": pattern, "ignore_case": fold}, {"op": "grep", "pattern": "a", "glob": pattern}} {
			out, err := r.h.Perform(t.Context(), broker.Request{Episode: episode, Payload: hashref.MustMarshal(payload),
				Need: world.Need{Effect: EffectRead, Scope: Scope, Cost: 1}})
			if err != nil {
				t.Fatalf("%v: %v", payload, err)
			}
			if canon, err := hashref.CanonicalObject(out); err != nil || string(canon) != string(out) {
				t.Fatalf("%v: %s", payload, out)
			}
			var answer struct {
				Matches []match  `json:"matches"`
				Paths   []string `json:"paths"`
			}
			if err := json.Unmarshal(out, &answer); err != nil {
				t.Fatal(err)
			}
			for _, name := range answer.Paths {
				if path.Clean(pattern) != pattern {
					break // what a//b stands for is the worktree's, not the library's, to say
				}
				if ok, err := doublestar.Match(pattern, name); err != nil || !ok {
					t.Fatalf("%q does not match %q: %v", pattern, name, err)
				}
			}
			flag := ""
			if payload["ignore_case"] == true {
				flag = "(?i)"
			}
			for _, m := range answer.Matches {
				if payload["glob"] == nil && !m.Escaped && !regexp.MustCompile(flag+pattern).MatchString(m.Text) {
					t.Fatalf("%q does not match %q", flag+pattern, m.Text)
				}
			}
		}
	})
}
