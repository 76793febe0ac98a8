package coordinator

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of plans.
const (
	MaxPayload = 1 << 20                // canonical bytes of what one planned effect may carry
	MaxPlanned = 8                      // effects of one plan v2; a plan v1 has one at most
	MaxRounds  = 8                      // plans of one call under plan v2
	MaxResults = broker.MaxEffectOutput // bytes of all outputs that a finish phase is given
)

// planVersions are the plan formats.
var planVersions = map[string]int{world.SemPlanV1: 1, world.SemPlanV2: 2}

// reservedKey is the daemon's own in every output.
const reservedKey = "world"

var effectID = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// plan is a parsed world/effect-plan/v1 or v2.
type plan struct {
	version int
	object  world.Object // its canonical text
	effects []broker.Planned
	finish  bool
	result  jsontext.Value // nil unless the plan is a result, without effects
}

// wirePlan and wireEffect have exactly the keys that a plan must have.
type wirePlan struct {
	Plan    string           `json:"plan"`
	Effects []jsontext.Value `json:"effects"`
	Finish  bool             `json:"finish"`
	Result  jsontext.Value   `json:"result"`
}

type wireEffect struct {
	ID      string         `json:"id"`
	Effect  string         `json:"effect"`
	Scope   string         `json:"scope"`
	Cost    int64          `json:"cost"`
	Payload jsontext.Value `json:"payload"`
}

// declarations gives the declaration of an effect that a transition may plan.
type declarations func(world.Need) (world.Need, bool)

// has tells whether an effect of the plan has an id.
func (p *plan) has(id string) bool {
	return slices.ContainsFunc(p.effects, func(e broker.Planned) bool { return e.ID == id })
}

// plansAgain tells whether the output of a finish phase is another plan.
func plansAgain(out jsontext.Value) bool {
	members, err := hashref.Members(out)
	return err == nil && string(members["plan"]) == `"`+world.SemPlanV2+`"`
}

// parsePlan holds a canonical output of the plan phase to the laws of plans
// (spec/06-effects.md). declared gives the declaration of an effect. Its errors are causes: the caller is told only that the calling
// convention was not kept.
func parsePlan(declared declarations, text []byte, provenance string) (*plan, error) {
	var w wirePlan
	if err := exact(text, &w, "plan", "effects", "finish", "result"); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	version := planVersions[w.Plan]
	most := 1
	switch version {
	case 0:
		return nil, fmt.Errorf("plan is %q, want %q or %q", w.Plan, world.SemPlanV1, world.SemPlanV2)
	case 2:
		most = MaxPlanned
	}
	if len(w.Effects) > most {
		return nil, fmt.Errorf("plan has %d effects, at most %d", len(w.Effects), most)
	}
	p := &plan{version: version, object: world.NewObject(w.Plan, provenance, text), finish: w.Finish}
	for i, raw := range w.Effects {
		e, err := parseEffect(declared, raw)
		if err != nil {
			return nil, fmt.Errorf("effects[%d]: %w", i, err)
		}
		if p.has(e.ID) {
			return nil, fmt.Errorf("effects[%d]: the id %q is there twice", i, e.ID)
		}
		p.effects = append(p.effects, e)
	}
	if len(p.effects) > 0 {
		if string(w.Result) != "null" {
			return nil, fmt.Errorf("a plan with effects must have a null result")
		}
		return p, nil
	}
	if w.Finish {
		return nil, fmt.Errorf("finish needs an effect")
	}
	if err := checkResult(w.Result); err != nil {
		return nil, fmt.Errorf("a plan without effects must have a result: %w", err)
	}
	p.result = w.Result
	return p, nil
}

func parseEffect(declared declarations, raw jsontext.Value) (broker.Planned, error) {
	var e wireEffect
	if err := exact(raw, &e, "id", "effect", "scope", "cost", "payload"); err != nil {
		return broker.Planned{}, err
	}
	need, ok := declared(world.Need{Effect: e.Effect, Scope: e.Scope, Cost: e.Cost})
	switch {
	case !effectID.MatchString(e.ID):
		return broker.Planned{}, fmt.Errorf("id %q must be 1 to 16 of a-z 0-9", e.ID)
	case !ok:
		return broker.Planned{}, fmt.Errorf("%s=%s:%d is not declared", e.Effect, e.Scope, e.Cost)
	case e.Payload.Kind() != '{':
		return broker.Planned{}, fmt.Errorf("payload must be an object")
	case len(e.Payload) > MaxPayload:
		return broker.Planned{}, fmt.Errorf("payload has %d bytes, at most %d", len(e.Payload), MaxPayload)
	}
	return broker.Planned{ID: e.ID, Need: need, Payload: e.Payload}, nil
}

// exact decodes an object that has exactly the given keys.
func exact(raw []byte, v any, keys ...string) error {
	members, err := hashref.Members(raw)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if _, ok := members[k]; !ok {
			return fmt.Errorf("key %q is missing", k)
		}
	}
	if len(members) != len(keys) {
		return fmt.Errorf("keys must be exactly %q", keys)
	}
	return hashref.Decode(raw, v)
}

var errReserved = fmt.Errorf("the key %q is reserved", reservedKey)

// checkResult holds a canonical output that a transition or plan shaped to the laws of
// outputs.
func checkResult(out jsontext.Value) error {
	there, err := hashref.Has(out, reservedKey)
	if err == nil && there {
		err = errReserved
	}
	return err
}

// admits holds one more round to the laws that concern the whole call.
func admits(rounds []round, next *plan) error {
	if len(rounds) >= MaxRounds {
		return fmt.Errorf("a call has at most %d rounds", MaxRounds)
	}
	for _, r := range rounds {
		for _, e := range r.plan.effects {
			if next.has(e.ID) {
				return fmt.Errorf("the effect id %q was used in an earlier round", e.ID)
			}
		}
	}
	return nil
}
