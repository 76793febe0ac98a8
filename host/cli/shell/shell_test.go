package shell

import (
	"os/exec"
	"testing"
)

// TestWordIsReadBack asks a real shell.
func TestWordIsReadBack(t *testing.T) {
	for _, s := range []string{"", "a", "/a/b.c-d_e", "a b", "it's", `"$HOME" \ !`, "`x`;*?", "-n", "é\n\t", "~", "#"} {
		out, err := exec.Command("/bin/sh", "-c", "printf %s. "+Word(s)).Output()
		if err != nil || string(out) != s+"." {
			t.Errorf("%q became %q: %v", s, out, err)
		}
	}
	if got := Line("git", "-C", "/a b", "x"); got != "git -C '/a b' x" {
		t.Errorf("%s", got)
	}
}
