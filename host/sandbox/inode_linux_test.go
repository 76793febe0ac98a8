package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPlaceOfALink: what is made under a denied name does not pass for a denied link that
// was there, also where it was given that one's inode.
func TestPlaceOfALink(t *testing.T) {
	s := New(Config{Command: []string{testBinary(t), verb}, Logf: t.Logf})
	spec := script(t, `
ino() { ls -di "$1" | cut -d' ' -f1; }
was=$(ino sub/denied); rm sub/denied
for i in $(seq 500); do
	mkdir denied && echo evil >denied/x
	if [ "$(ino denied)" = "$was" ]; then echo the same; exit; fi
	mv denied kept$i
done
echo another`)
	put(t, spec.Dir, map[string]string{"sub/a": "a"})
	link := filepath.Join(spec.Dir, "sub", "denied")
	must(t, os.Symlink("a", link))
	res, err := s.Run(t.Context(), spec)
	must(t, err)
	t.Logf("%s", lines(res))
	if _, err := os.Lstat(filepath.Join(spec.Dir, "denied")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was planted is there: %v", err)
	}
	if target, err := os.Readlink(link); err != nil || target != "a" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if d := cmp.Diff([]string{"denied", "sub/denied"}, res.Removed); d != "" && lines(res) == "the same" {
		t.Error(d)
	}
}
