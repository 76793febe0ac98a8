package policy

import (
	"strings"
	"testing"
)

// FuzzPolicy: whatever an operator allows and whatever a path is made of, a pattern is
// refused or judged, .git stays closed in every spelling of its name, and what lies below
// something denied is denied.
func FuzzPolicy(f *testing.F) {
	f.Add("node_modules/", "*.pem", "a/node_modules/.github/x")
	f.Add("**", "{a,b}/[c-d]?", ".GIT/hooks/pre-commit")
	f.Add("/deploy", `\*`, "deploy/x/.git\u200d/config")
	f.Add(".git", "", "a/.git./b")
	f.Add("!", "é*", "E\u0301x")
	f.Fuzz(func(t *testing.T, allow, deny, path string) {
		c := Config{}
		for _, r := range []struct {
			text string
			to   *[]string
		}{{allow, &c.Allow}, {deny, &c.Deny}} {
			if BadPattern(r.text) == "" {
				*r.to = []string{r.text}
			}
		}
		set, err := New(c)
		if err != nil {
			t.Fatalf("patterns that are good are refused: %q %q: %v", allow, deny, err)
		}
		p := set.For("ep")
		segs := strings.Split(path, "/")
		for n := range segs {
			if Fold(segs[n]) == ".git" && p.Denies(segs[:n+1]) == "" {
				t.Errorf("allow %q: %q is open", allow, segs[:n+1])
			}
		}
		if len(c.Allow) == 0 {
			below := append(segs[:len(segs):len(segs)], "x")
			if p.Denies(segs) != "" && p.Denies(below) == "" {
				t.Errorf("deny %q: %q is denied, and %q below it is not", deny, segs, below)
			}
		}
		for _, s := range segs {
			if Fold(Fold(s)) != Fold(s) {
				t.Errorf("%q folds to %q, and that to %q", s, Fold(s), Fold(Fold(s)))
			}
		}
	})
}
