// Package policy says which paths of a worktree no agent may change. It owns the patterns,
// how names are compared, the layers of the operator's own patterns for each episode, and
// the object that a policy's digest names. It opens no file and decides nothing about
// authority: the handlers that write hold paths against it. Answers spec/12-workspace.md.
//
// A policy has three layers: what is built in, what the operator says for all episodes, and
// what the operator says for this one. The innermost layer that says anything of a path
// decides, and within a layer `allow` goes before `deny`. So an operator can open what is
// built in (`allow: [".github/ISSUE_TEMPLATE/"]`), close it again for some episodes, and
// open what was closed for all. Two names cannot be opened by anybody: .git and git~1, at
// any depth, with all below them. They decide what git runs, on the machine of the next who
// runs it.
package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Version is how patterns are understood. It moves when the same patterns would protect
// other paths.
const Version = "2"

// Bounds.
const (
	MaxPattern  = 4096 // bytes of one pattern
	MaxPatterns = 256  // of one list
	MaxEpisodes = 256  // entries for episodes
	maxBraces   = 1000 // combinations that a glob's {a,b} may stand for
)

// provenance is what policy objects are stored with.
const provenance = "handler:policy"

// fixed is what no operator can open. git~1 is what .git is also called on some file
// systems; git refuses it everywhere, and with it a whole `git add`.
var fixed = []string{".git", "git~1"}

// builtin is what no agent may change unless the operator says otherwise: each of these
// decides what runs on, or is sent from, the machine of whoever works in the repository next.
var builtin = []string{".github/", ".claude/", ".ailang/", ".pi/", ".vscode/", ".gitmodules", ".gitattributes"}

// Rules are an operator's patterns. A pattern without a slash (one at its end does not
// count) stands for every file and directory of such a name at any depth, with all that is
// below; one with a slash is held against the path from the top of the worktree, and stands
// for what is below too. Patterns are globs: *, ?, [a-z], {a,b}, and ** between slashes.
// Names are compared as the most forgiving file system would: without regard to case, to
// invisible characters, and to dots and spaces at the end.
type Rules struct {
	Deny  []string // read-only
	Allow []string // writable, though an outer layer or Deny says otherwise
}

// Episode are rules for the episodes whose name Match, a glob, fits.
type Episode struct {
	Match string
	Rules
}

// Config is all that an operator can say. Of Episodes the first that fits is used.
type Config struct {
	Rules
	Episodes []Episode
}

// Set holds the effective policy of every episode. It is safe for concurrent use.
type Set struct {
	base     *Policy
	episodes []match
}

type match struct {
	glob   string
	policy *Policy
}

// New makes the policies. A pattern that cannot be read is KindBadRequest, its message for
// the operator.
func New(c Config) (*Set, error) {
	if n := len(c.Episodes); n > MaxEpisodes {
		return nil, bad("%d entries for episodes; at most %d", n, MaxEpisodes)
	}
	outer := []Rules{{Deny: builtin}, c.Rules}
	base, err := newPolicy(outer)
	if err != nil {
		return nil, err
	}
	s := &Set{base: base}
	for _, e := range c.Episodes {
		if why := BadGlob(e.Match); why != "" || e.Match == "" {
			return nil, bad("the pattern %q for episodes %s", e.Match, orEmpty(why))
		}
		p, err := newPolicy(append(slices.Clone(outer), e.Rules))
		if err != nil {
			return nil, err
		}
		s.episodes = append(s.episodes, match{e.Match, p})
	}
	return s, nil
}

func orEmpty(why string) string {
	if why == "" {
		return "is empty"
	}
	return why
}

func bad(format string, args ...any) error {
	return world.Errorf(world.KindBadRequest, "policy.New", format, args...)
}

// Default is the policy of what is built in alone.
func Default() *Set {
	s, err := New(Config{})
	if err != nil {
		panic(err) // the built-in patterns are constants
	}
	return s
}

// For is the effective policy of an episode.
func (s *Set) For(episode string) *Policy {
	for _, m := range s.episodes {
		if doublestar.MatchUnvalidated(m.glob, episode) {
			return m.policy
		}
	}
	return s.base
}

// Objects are the objects of all policies that For can give, for the daemon to store before
// an answer names one.
func (s *Set) Objects() []world.Object {
	all := []world.Object{s.base.object}
	for _, m := range s.episodes {
		all = append(all, m.policy.object)
	}
	return all
}

// Policy is one effective policy.
type Policy struct {
	fixed  []rule
	layers []layer // the innermost first
	object world.Object
}

type layer struct{ allow, deny []rule }

type rule struct {
	text     string // as written
	glob     string // folded
	anchored bool
}

func newPolicy(outer []Rules) (*Policy, error) {
	p := &Policy{fixed: compile(fixed)}
	type shown struct {
		Deny  []string `json:"deny"`
		Allow []string `json:"allow"`
	}
	said := []shown{}
	for _, r := range outer {
		for _, list := range [][]string{r.Deny, r.Allow} {
			if err := check(list); err != nil {
				return nil, err
			}
		}
		if len(r.Deny)+len(r.Allow) == 0 {
			continue
		}
		said = append(said, shown{append([]string{}, r.Deny...), append([]string{}, r.Allow...)})
		p.layers = append(p.layers, layer{allow: compile(r.Allow), deny: compile(r.Deny)})
	}
	slices.Reverse(p.layers)
	p.object = world.NewObject(world.SemPolicy, provenance, hashref.MustMarshal(struct {
		Version string   `json:"version"`
		Fixed   []string `json:"fixed"`
		Layers  []shown  `json:"layers"`
	}{Version, fixed, said}))
	return p, nil
}

func check(list []string) error {
	if n := len(list); n > MaxPatterns {
		return bad("%d patterns in one list; at most %d", n, MaxPatterns)
	}
	for _, pat := range list {
		if why := BadPattern(pat); why != "" {
			return bad("pattern %q %s", pat, why)
		}
	}
	return nil
}

func compile(list []string) []rule {
	var rules []rule
	for _, pat := range list {
		glob := strings.TrimPrefix(strings.TrimRight(pat, "/"), "./")
		anchored := strings.Contains(glob, "/")
		segs := strings.Split(strings.TrimPrefix(glob, "/"), "/")
		for i := range segs {
			segs[i] = Fold(segs[i])
		}
		rules = append(rules, rule{text: pat, glob: strings.Join(segs, "/"), anchored: anchored})
	}
	return rules
}

// Object is the policy as an object with the semantic id world/policy/v1.
func (p *Policy) Object() world.Object { return p.object }

// Digest is the hash of Object in 64 hex digits: the policy_digest of answers.
func (p *Policy) Digest() string { return p.object.Hash.Hex() }

// Denies is the pattern that makes a path, given as its segments, read-only; "" if none.
func (p *Policy) Denies(segs []string) string {
	folded := make([]string, len(segs))
	for i, s := range segs {
		folded[i] = Fold(s)
	}
	if pat := fits(p.fixed, folded); pat != "" {
		return pat
	}
	for _, l := range p.layers {
		if fits(l.allow, folded) != "" {
			return ""
		}
		if pat := fits(l.deny, folded); pat != "" {
			return pat
		}
	}
	return ""
}

// fits is the first rule that stands for a path or for a directory above it; "" if none.
func fits(rules []rule, folded []string) string {
	for _, r := range rules {
		for i, name := range folded {
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

// BadPattern tells what is wrong with an operator's pattern; "" if nothing.
func BadPattern(pat string) string {
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
	return BadGlob(pat)
}

// BadGlob tells what is wrong with a glob: its syntax, or that its braces stand for so
// many alternatives that matching would not end; "" if nothing.
func BadGlob(pat string) string {
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
