package authority

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of plans.
const (
	MaxPlans = 64
	MaxPlan  = 64        // bytes of a plan's name
	MaxBurst = 1_000_000 // calls at once
	MaxPer   = 31 * 24 * time.Hour
	Day      = 24 * time.Hour // how often daily budgets are renewed: at midnight UTC
)

// Unlimited is the budget of a grant that never ends.
const Unlimited = hashref.MaxInt

// The rate classes of transitions; "" is ClassDefault.
const (
	ClassDefault   = "default"
	ClassExpensive = "expensive"
)

// Plan is what a user has: which doors, which grants, which rates.
type Plan struct {
	Name string
	// Tasks says that the task endpoint is open to it.
	Tasks  bool
	Grants []PlanGrant
	// Rates are by class; a class that is not there has no limit.
	Rates map[string]Rate
}

// PlanGrant is a grant of each user. The budget of a daily one is renewed at midnight UTC,
// that of another holds for ever.
type PlanGrant struct {
	world.Grant
	Daily bool
}

// Rate allows Burst calls at once, and Requests more each Per.
type Rate struct {
	Requests int
	Per      time.Duration
	Burst    int
}

// Plans are what there is to have, by name.
type Plans map[string]Plan

// SkillsEffect and SkillsScope are the access of skills that are for every user; each
// plan that ships grants it.
const (
	SkillsEffect = "Skills.Use"
	SkillsScope  = "public"
)

// skillGrants is what every default plan grants: that skills may be used, and what those
// that ship plan, in the scopes that they name.
func skillGrants() []PlanGrant {
	var all []PlanGrant
	for _, g := range [][2]string{{SkillsEffect, SkillsScope}, {"Corpus.Search", "library"}, {"Corpus.Fetch", "library"},
		{"Calendar.Day", "general-roman"}, {"Model.Infer", "default"}} {
		all = append(all, PlanGrant{Grant: world.Grant{Effect: g[0], Scope: g[1], Budget: Unlimited}})
	}
	return all
}

// DefaultPlans are the plans of a daemon whose configuration names none.
func DefaultPlans() Plans {
	skills := skillGrants()
	plan := func(name string, tasks bool, requests, expensive int) Plan {
		return Plan{Name: name, Tasks: tasks, Grants: skills, Rates: map[string]Rate{
			ClassDefault:   {Requests: requests, Per: time.Minute, Burst: max(requests/3, 1)},
			ClassExpensive: {Requests: expensive, Per: time.Minute, Burst: max(expensive/3, 1)},
		}}
	}
	return Plans{
		"free":         plan("free", false, 10, 1),
		"pro":          plan("pro", true, 60, 6),
		"organization": plan("organization", true, 300, 30),
		"enterprise":   plan("enterprise", true, 1200, 120),
	}
}

// Names lists the plans in order.
func (p Plans) Names() []string { return slices.Sorted(maps.Keys(p)) }

var planName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// CheckPlanName tells what is wrong with a plan's name; "" is nothing.
func CheckPlanName(name string) string {
	if !planName.MatchString(name) {
		return fmt.Sprintf("must be 1 to %d of a-z 0-9 . _ -, beginning with a letter or digit", MaxPlan)
	}
	return ""
}

// Check tells what is wrong with a rate; "" is nothing.
func (r Rate) Check() string {
	switch {
	case r.Requests < 1 || r.Requests > MaxBurst:
		return fmt.Sprintf("requests must be from 1 to %d", MaxBurst)
	case r.Burst < 1 || r.Burst > MaxBurst:
		return fmt.Sprintf("burst must be from 1 to %d", MaxBurst)
	case r.Per < time.Second || r.Per > MaxPer:
		return fmt.Sprintf("per must be from 1s to %v", MaxPer)
	}
	return ""
}
