package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNothingHidesInTheDeep: a command that makes its tree deeper than is looked, or shuts
// folders, keeps nothing protected by it, and the next command runs.
func TestNothingHidesInTheDeep(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		gone   []string // and named among what was taken away
		stay   []string
	}{
		"a deep folder beside it": {`mkdir denied keep; echo x >denied/f; echo y >keep/f; i=0; while [ $i -lt 260 ]; do mkdir q; cd q; i=$((i+1)); done; echo z >f`,
			[]string{"denied"}, []string{"keep/f", "q/q"}},
		"deep itself":           {`mkdir denied; cd denied; i=0; while [ $i -lt 3000 ]; do mkdir q; cd q; i=$((i+1)); done`, []string{"denied"}, nil},
		"below what is shut":    {`mkdir -p a/in/denied; echo x >a/in/denied/f; chmod 0 a/in; chmod 0 a`, []string{"a/in/denied"}, []string{"a"}},
		"shut itself":           {`mkdir -p denied/x; echo x >denied/x/f; chmod 0 denied/x; chmod 0 denied`, []string{"denied"}, nil},
		"long names, so a path": {`d=$(printf 'n%.0s' $(seq 250)); mkdir denied; i=0; while [ $i -lt 20 ]; do mkdir $d; cd $d; i=$((i+1)); done`, []string{"denied"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{Command: []string{testBinary(t), verb}, Logf: t.Logf})
			spec := script(t, c.script)
			tree := spec.Tree.Path
			run := func(text string) Result {
				t.Helper()
				spec.Argv = []string{"sh", "-c", text}
				res, err := s.Run(t.Context(), spec)
				must(t, err)
				return res
			}
			res := run(c.script)
			for _, p := range c.gone {
				if _, err := os.Lstat(filepath.Join(tree, p)); err == nil || !slices.Contains(res.Removed, p) {
					t.Errorf("%s is there: %v; removed %.300q", p, err == nil, res.Removed)
				}
			}
			for _, p := range c.stay {
				_, err := os.Lstat(filepath.Join(tree, p))
				if err != nil && !os.IsPermission(err) {
					t.Errorf("%s: %v", p, err)
				}
			}
			if res := run("echo again"); !strings.Contains(string(res.Stdout.Text), "again") {
				t.Errorf("the next command: %+v", res)
			}
		})
	}
}

// TestWhatIsTakenAwayIsNotFollowed: links in the place of what is to go, on the way to it or
// in it, go themselves; what they lead to stays.
func TestWhatIsTakenAwayIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"keep/f": "x", "keep/sub/g": "y", "gone/a/b/c": "z"})
	for link, to := range map[string]string{"way": "keep", "itself": "keep", "gone/in": "../keep", "gone/a/deep": "../../keep"} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	top, err := os.Open(dir)
	must(t, err)
	defer top.Close()
	r := &remover{ctx: t.Context(), top: int(top.Fd())}
	for _, rel := range []string{"way/sub", "itself", "gone", "never/was"} {
		must(t, r.remove(rel))
	}
	for name, there := range map[string]bool{"keep/f": true, "keep/sub/g": true, "way": true, "itself": false, "gone": false} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}
