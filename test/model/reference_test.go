package model

import (
	"time"
)

// The model. It knows no store, no hash and no goroutine: a log is a slice, a budget an
// integer. What a kill leaves is what had been said to it before.

// Bounds of a call, as the contract has them (spec/06-effects.md, spec/07-calls.md).
const (
	callTime    = 20 * time.Second
	taskTime    = 2 * time.Minute // a call of the task endpoint
	keptTime    = 24 * time.Hour
	handlerTime = 10 * time.Second
	stopGrace   = time.Second
	stuckTime   = 13 * time.Second // how long the handler that does not stop goes on
	leastTime   = 100 * time.Millisecond
	askTime     = 24 * time.Hour
	grantTime   = time.Hour
)

// outcomes are the ways in which a step can end; TestModel wants each to have been met.
var outcomes = []string{
	"entry", "entry of denials", "replayed", "refused by the plan", "unrecorded", "unconfirmed", "canceled", "killed",
	msgUnknown, msgExpired, msgNotAuthorized, msgUsed, msgExecution, msgConvention, msgOutput, "burst",
	"committed", "HeadConflict", "BadRequest", "Internal", "CommitUncertain", "skipped effects", "approved",
	"task", "kept task", "other content", "resend", "skill not found",
	"minted", "revoked", "published", "removed", "restarted", "waited", "listed", "decided", "nothing",
}

// What callers are told.
const (
	msgUnknown       = "unknown session credential"
	msgExpired       = "session credential has expired"
	msgNotAuthorized = "not authorized"
	msgUsed          = "task id already used in this session"
	msgExecution     = "transition execution failed"
	msgConvention    = "transition does not implement the invocation calling convention"
	msgOutput        = "transition output is not a JSON object"
	msgUnconfirmed   = "invocation outcome is not confirmed; resend the same task id"
	msgUnrecorded    = "effects were requested but the invocation was not confirmed committed; effect records:"
)

type grant struct {
	effect, scope string
	budget        int64
}

type session struct {
	episode string
	grants  []grant
	expires time.Time
	revoked bool
}

// budget is the sum of a session's grants of one effect in one scope.
func (s *session) budget(effect, scope string) (sum int64, named, scoped bool) {
	for _, g := range s.grants {
		if g.effect == effect {
			named = true
			if g.scope == scope {
				scoped, sum = true, sum+g.budget
			}
		}
	}
	return sum, named, scoped
}

// denies is the one rule of authority, without what was spent.
func (s *session) denies(effect, scope string, cost int64, now time.Time) (denial string, budget int64) {
	sum, named, scoped := s.budget(effect, scope)
	switch {
	case !named:
		return "denied:effect-name", 0
	case !scoped:
		return "denied:scope", 0
	case !now.Before(s.expires):
		return "denied:expired", sum
	case cost > sum:
		return "denied:budget", sum
	}
	return "", sum
}

// entry is one entry of the log. A commit over REST has no call.
type entry struct {
	writer     string
	source     string // of the transition
	invocation string // "" where the daemon chose it
	call       *done
}

// done is a call that is an entry.
type done struct {
	out      map[string]any // without the world block; nil if ok is all that is compared
	ok       any
	approval string // the output names an approval
	effects  []record
}

// record is how one effect ended.
type record struct {
	id, effect, scope, status string
	cost, before, after       int64
	denial                    string
	output                    map[string]any
	durable                   bool // its outcome is in the journal
}

// task is what the journal says of an invocation.
type task struct {
	digest  string
	entry   int // -1: none
	effects []record
}

type approval struct {
	subject string
	state   string // pending, granted, denied, used
	expires time.Time
}

func (a *approval) at(now time.Time) string {
	if a.state != "used" && !now.Before(a.expires) {
		return "expired"
	}
	return a.state
}

type reference struct {
	now       func() time.Time
	skills    map[string]int // what is published, and which version
	sessions  []*session
	spent     map[string]int64 // by episode, effect and scope
	log       []entry
	tasks     map[string]*task
	chosen    []*task        // those whose id is the daemon's to choose
	performed map[string]int // by invocation and effect
	files     map[string]string
	approvals []*approval
	busy      map[string]time.Time // until when a handler that was left behind has an episode
	commits   map[string]string    // REST commits by id: what they were
	users     []*session
	kept      map[string]*keptTask // by invocation
}
