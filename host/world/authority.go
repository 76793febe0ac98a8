package world

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ailang.dev/world/host/hashref"
)

// Need is one use of an effect: what a transition declares, what its visibility asks
// for, what a planned effect costs.
type Need struct {
	Effect string `json:"effect"`
	Scope  string `json:"scope"`
	Cost   int64  `json:"cost"`
	// Approval, of a declared effect, says that a person must approve each one.
	Approval bool `json:"approval,omitzero"`
}

// Grant is the right to use an effect in a scope up to a budget. Two grants of the same
// effect and scope in one session add up.
type Grant struct {
	Effect string `json:"effect"`
	Scope  string `json:"scope"`
	Budget int64  `json:"budget"`
}

// String is the form that the command line reads: EFFECT=SCOPE:BUDGET.
func (g Grant) String() string {
	return g.Effect + "=" + g.Scope + ":" + strconv.FormatInt(g.Budget, 10)
}

var (
	effectName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*$`)
	episodeName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
)

// Lengths of names that callers choose, in bytes.
const (
	MaxEffectName   = 64
	MaxScope        = 256
	MaxTransitionID = 256
)

// ParseGrant reads EFFECT=SCOPE:BUDGET; the budget stands after the last colon.
func ParseGrant(s string) (Grant, error) {
	effect, rest, ok := strings.Cut(s, "=")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 {
		return Grant{}, fmt.Errorf("grant %q must be EFFECT=SCOPE:BUDGET, for example Workspace.Read=worktree:100", s)
	}
	n, err := strconv.ParseInt(rest[i+1:], 10, 64)
	if err != nil || n < 0 || n > hashref.MaxInt {
		return Grant{}, fmt.Errorf("grant %q: the budget must be an integer from 0 to 2^53-1", s)
	}
	g := Grant{Effect: effect, Scope: rest[:i], Budget: n}
	if err := g.Check(); err != nil {
		return Grant{}, fmt.Errorf("grant %q: %w", s, err)
	}
	return g, nil
}

// Check tells what is wrong with a grant.
func (g Grant) Check() error {
	if err := CheckEffect(g.Effect, g.Scope); err != nil {
		return err
	}
	if g.Budget < 0 || g.Budget > hashref.MaxInt {
		return fmt.Errorf("the budget must be an integer from 0 to 2^53-1")
	}
	return nil
}

// Check tells what is wrong with a need.
func (n Need) Check() error {
	if err := CheckEffect(n.Effect, n.Scope); err != nil {
		return err
	}
	if n.Cost < 0 || n.Cost > hashref.MaxInt {
		return fmt.Errorf("the cost must be an integer from 0 to 2^53-1")
	}
	return nil
}

// CheckEffect tells what is wrong with the names of an effect and its scope.
func CheckEffect(effect, scope string) error {
	if len(effect) > MaxEffectName || !effectName.MatchString(effect) {
		return fmt.Errorf("effect %q must be dotted letters and digits, at most %d bytes, for example Workspace.Read", effect, MaxEffectName)
	}
	if scope == "" || len(scope) > MaxScope || !printable(scope) {
		return fmt.Errorf("scope %q must be 1 to %d bytes of printable text", scope, MaxScope)
	}
	return nil
}

// CheckEpisode tells what is wrong with an episode's name.
func CheckEpisode(name string) error {
	if !episodeName.MatchString(name) {
		return fmt.Errorf("episode %q must be 1 to 64 of a-z 0-9 -, beginning with a letter or digit", name)
	}
	return nil
}

func printable(s string) bool {
	for _, r := range s {
		if r < 0x20 || r == 0x7f || r == 0xfffd {
			return false
		}
	}
	return true
}

// Session is who is calling: an episode with grants until a moment. The credential
// itself is nowhere kept; ID is its hash.
type Session struct {
	ID      Ref       `json:"credential_id"`
	Episode string    `json:"episode"`
	Grants  []Grant   `json:"grants"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Revoked bool      `json:"revoked,omitempty"`
	// Plan, of a user's session, is what the user's rates are by; a minted session has none,
	// and no rates.
	Plan string `json:"plan,omitempty"`
}

// LiveAt tells whether the session's grants hold at t.
func (s Session) LiveAt(t time.Time) bool { return !s.Revoked && t.Before(s.Expires) }

// Budget is the sum of the session's grants of an effect in a scope. named says whether
// any grant names the effect, scoped whether one names the scope too. The sum is capped
// at 2^53-1.
func (s Session) Budget(effect, scope string) (sum int64, named, scoped bool) {
	for _, g := range s.Grants {
		if g.Effect != effect {
			continue
		}
		named = true
		if g.Scope == scope {
			scoped = true
			sum = min(sum+g.Budget, hashref.MaxInt)
		}
	}
	return sum, named, scoped
}

// Denial is why authority said no. The zero value is no denial.
type Denial string

// The denials. The last is the broker's, for effects that a person must approve.
const (
	DeniedEffect  Denial = "denied:effect-name"
	DeniedScope   Denial = "denied:scope"
	DeniedExpired Denial = "denied:expired"
	DeniedBudget  Denial = "denied:budget"

	DeniedApproval Denial = "denied:approval"
)

// Decide compares a need with what a session was granted and spent so far. It is the one
// rule of authority: admission asks it with spent 0, the broker with the running sum.
func (s Session) Decide(n Need, spent int64, now time.Time) (Denial, int64) {
	budget, named, scoped := s.Budget(n.Effect, n.Scope)
	switch {
	case !named:
		return DeniedEffect, 0
	case !scoped:
		return DeniedScope, 0
	case !s.LiveAt(now):
		return DeniedExpired, budget
	case spent > budget || n.Cost > budget-spent:
		return DeniedBudget, budget
	}
	return "", budget
}
