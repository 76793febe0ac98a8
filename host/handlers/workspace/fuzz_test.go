package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

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
