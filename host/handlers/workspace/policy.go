package workspace

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// builtin is what no agent may change: each of these decides what runs on, or is sent
// from, the machine of whoever works in the repository next. git~1 is what .git is also
// called on some file systems; git refuses it everywhere, and with it a whole `git add`.
var builtin = []string{
	".git", "git~1", ".github/", ".claude/", ".ailang/", ".pi/", ".vscode/", ".gitmodules", ".gitattributes",
}

// policy is what is read-only. A pattern without a slash (one at its end does not count)
// protects every file and directory of such a name at any depth, with all that is below;
// one with a slash is held against the path from the top of the worktree, and protects
// what is below too. Patterns are globs: *, ?, [a-z], {a,b}, and ** between slashes.
// Names are compared as the most forgiving file system would: without regard to case, to
// invisible characters, and to dots and spaces at the end.
type policy struct {
	deny  []string // as written, what the digest is taken over
	rules []rule
}

type rule struct {
	text     string // as written
	glob     string // folded
	anchored bool
}

func newPolicy(own []string) (*policy, error) {
	const op = "workspace.New"
	if len(own) > maxProtected {
		return nil, world.Errorf(world.KindBadRequest, op, "%d protected patterns; at most %d", len(own), maxProtected)
	}
	p := &policy{deny: slices.Clone(builtin)}
	for _, pat := range own {
		if why := badProtected(pat); why != "" {
			return nil, world.Errorf(world.KindBadRequest, op, "protected pattern %q %s", pat, why)
		}
		if !slices.Contains(p.deny, pat) {
			p.deny = append(p.deny, pat)
		}
	}
	for _, pat := range p.deny {
		glob := strings.TrimPrefix(strings.TrimRight(pat, "/"), "./")
		anchored := strings.Contains(glob, "/")
		segs := strings.Split(strings.TrimPrefix(glob, "/"), "/")
		for i := range segs {
			segs[i] = fold(segs[i])
		}
		p.rules = append(p.rules, rule{text: pat, glob: strings.Join(segs, "/"), anchored: anchored})
	}
	return p, nil
}

// badProtected tells what is wrong with an operator's pattern.
func badProtected(pat string) string {
	bare := strings.Trim(strings.TrimPrefix(pat, "./"), "/")
	switch {
	case bare == "" || bare == ".":
		return "names nothing"
	case len(pat) > MaxPattern:
		return fmt.Sprintf("is longer than %d bytes", MaxPattern)
	case !utf8.ValidString(pat) || strings.ContainsRune(pat, 0):
		return "is not text"
	case slices.Contains(strings.Split(pat, "/"), ".."):
		return `has a ".." segment`
	}
	return badGlob(pat)
}

// badGlob tells what is wrong with a glob: its syntax, or that its braces stand for so
// many alternatives that matching would not end.
func badGlob(pat string) string {
	if !doublestar.ValidatePattern(pat) {
		return "is not a valid glob"
	}
	product, alternatives := 1, []int{}
	for i := 0; i < len(pat); i++ {
		switch pat[i] {
		case '\\':
			i++
		case '{':
			alternatives = append(alternatives, 1)
		case ',':
			if n := len(alternatives); n > 0 {
				alternatives[n-1]++
			}
		case '}':
			if n := len(alternatives); n > 0 {
				product *= alternatives[n-1]
				alternatives = alternatives[:n-1]
			}
		}
		if product > maxBraces {
			return fmt.Sprintf("has more than %d combinations of {…}", maxBraces)
		}
	}
	return ""
}

// canonical is the policy object's payload.
func (p *policy) canonical() []byte {
	return hashref.MustMarshal(struct {
		Handler string   `json:"handler"`
		Version string   `json:"version"`
		Deny    []string `json:"deny"`
	}{"workspace", Version, p.deny})
}

// denies is the pattern that makes a path, given as its segments, read-only; "" if none.
func (p *policy) denies(segs []string) string {
	folded := make([]string, len(segs))
	for i, s := range segs {
		folded[i] = fold(s)
		if strings.HasPrefix(s, tempPrefix) {
			return tempPrefix + "*"
		}
	}
	for _, r := range p.rules {
		for i, s := range folded {
			name := s
			if r.anchored {
				name = strings.Join(folded[:i+1], "/")
			}
			if doublestar.MatchUnvalidated(r.glob, name) {
				return r.text
			}
		}
	}
	return ""
}

// fold is the one spelling that all spellings of a name share: each letter stands for
// the smallest of those that simple case folding makes equal, characters that file systems
// ignore are left out, and so are dots and spaces at the end.
func fold(name string) string {
	out := strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		least := r
		for q := unicode.SimpleFold(r); q != r; q = unicode.SimpleFold(q) {
			least = min(least, q)
		}
		return least
	}, name)
	return strings.TrimRight(out, ". ")
}

// invisible tells whether some file systems pass over a character when they compare
// names.
func invisible(r rune) bool {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return true
	}
	return false
}
