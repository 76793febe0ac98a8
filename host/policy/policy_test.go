package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

func TestFold(t *testing.T) {
	for _, c := range [][2]string{{".git", ".GIT"}, {"ſ", "S"}, {"K", "k"}, {"Σ", "ς"}, {"a", "A. . "}, {"\ufeffa", "a"}, {"é", "É"}} {
		if Fold(c[0]) != Fold(c[1]) {
			t.Errorf("Fold(%q) = %q, Fold(%q) = %q", c[0], Fold(c[0]), c[1], Fold(c[1]))
		}
	}
	if Fold("a") == Fold("b") || Fold("İ") == Fold("i") {
		t.Error("Fold makes different names equal")
	}
}

func set(t *testing.T, c Config) *Set {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Layers: the innermost that says anything decides, allow before deny; .git is for nobody.
func TestLayers(t *testing.T) {
	s := set(t, Config{
		Rules: Rules{Deny: []string{"deploy/", "docs"}, Allow: []string{"docs/public/", ".github/ISSUE_TEMPLATE/", ".git", "*"}},
		Episodes: []Episode{
			{"ci-*", Rules{Allow: []string{".github/", "deploy/"}}},
			{"c*", Rules{Deny: []string{"docs/public", "src/**/*.sql"}}},
		},
	})
	wide := set(t, Config{Rules: Rules{Deny: []string{"deploy/", "docs"}, Allow: []string{"docs/public/"}}})
	for _, c := range []struct {
		s          *Set
		name, path string
		want       string
	}{
		{wide, "x", "deploy/a", "deploy/"}, {wide, "x", "docs/a", "docs"}, {wide, "x", "docs/public/a", ""}, {wide, "x", "src/a", ""},
		{wide, "x", ".github/a", ".github/"}, {wide, "x", ".git", ".git"},
		{s, "x", ".git/config", ".git"}, {s, "x", "a/.GIT/config", ".git"}, {s, "ci-1", "GIT~1", "git~1"},
		{s, "x", "anything", ""}, {s, "x", "deploy/a", ""}, // "*" opens all that is not fixed
		{s, "ci-1", ".github/workflows/a", ""}, {s, "ci-1", "docs/public/a", ""},
		{s, "cx", "docs/public/a", "docs/public"}, {s, "cx", "src/a/B.SQL", "src/**/*.sql"}, {s, "cx", "src/a.go", ""},
	} {
		if got := c.s.For(c.name).Denies(strings.Split(c.path, "/")); got != c.want {
			t.Errorf("%s in %s: got %q, want %q", c.path, c.name, got, c.want)
		}
	}
}

func TestObjectNamesTheWholePolicy(t *testing.T) {
	s := set(t, Config{Rules: Rules{Deny: []string{"*.pem"}}, Episodes: []Episode{{"a", Rules{Allow: []string{"test.pem"}}}}})
	want := `{"fixed":[".git","git~1"],"layers":[{"allow":[],"deny":[".github/",".claude/",".ailang/",".pi/",".vscode/",".gitmodules",".gitattributes"]},` +
		`{"allow":[],"deny":["*.pem"]},{"allow":["test.pem"],"deny":[]}],"version":"2"}`
	o := s.For("a").Object()
	if d := cmp.Diff(want, string(o.Payload)); d != "" {
		t.Error(d)
	}
	if o.SemanticID != world.SemPolicy || o.Hash != hashref.Sum(o.Payload) || s.For("a").Digest() != o.Hash.Hex() {
		t.Errorf("object %+v", o)
	}
	if s.For("a").Digest() == s.For("b").Digest() || s.For("b").Digest() == Default().For("b").Digest() {
		t.Error("different policies have one digest")
	}
	// An episode without rules of its own has the policy of all.
	same := set(t, Config{Episodes: []Episode{{Match: "a"}}})
	if same.For("a").Digest() != Default().For("x").Digest() {
		t.Error("the same policy has two digests")
	}
	all := map[world.Ref]bool{}
	for _, o := range s.Objects() {
		all[o.Hash] = true
	}
	for _, name := range []string{"a", "b"} {
		if !all[s.For(name).Object().Hash] {
			t.Errorf("the policy of %s is not among the objects", name)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]Config{
		"empty":             {Rules: Rules{Deny: []string{""}}},
		"slash":             {Rules: Rules{Deny: []string{"/"}}},
		"dot":               {Rules: Rules{Allow: []string{"./"}}},
		"dotdot":            {Rules: Rules{Allow: []string{"a/../b"}}},
		"bad glob":          {Rules: Rules{Deny: []string{"a[b"}}},
		"not text":          {Rules: Rules{Deny: []string{"a\xff"}}},
		"too long":          {Rules: Rules{Deny: []string{strings.Repeat("a", MaxPattern+1)}}},
		"too many":          {Rules: Rules{Deny: strings.Split(strings.Repeat("a ", MaxPatterns)+"a", " ")}},
		"exploding glob":    {Rules: Rules{Deny: []string{strings.Repeat("{a,b}", 12)}}},
		"no episode":        {Episodes: []Episode{{Match: ""}}},
		"bad episode":       {Episodes: []Episode{{Match: "a["}}},
		"bad in an episode": {Episodes: []Episode{{"a", Rules{Deny: []string{"a["}}}}},
		"too many episodes": {Episodes: make([]Episode, MaxEpisodes+1)},
	} {
		if s, err := New(c); s != nil || world.KindOf(err) != world.KindBadRequest || world.Message(err) == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
