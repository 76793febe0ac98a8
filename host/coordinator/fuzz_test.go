package coordinator

import (
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// FuzzPlan: an output is no plan, or one that keeps every law of plans: at most so many
// effects, each declared, with an id of its own and an object for a payload; and a result if
// and only if there is no effect.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{
		`{"effects":[{"cost":1,"effect":"E","id":"e1","payload":{},"scope":"s"}],"finish":true,"plan":"world/effect-plan/v1","result":null}`,
		`{"effects":[{"cost":1,"effect":"E","id":"a","payload":{},"scope":"s"},{"cost":1,"effect":"E","id":"b","payload":{"x":[]},"scope":"s"}],"finish":false,"plan":"world/effect-plan/v2","result":null}`,
		`{"effects":[],"finish":false,"plan":"world/effect-plan/v1","result":{"ok":false,"refused":"no"}}`, `{"effects":[],"finish":false,"plan":"world/effect-plan/v1","result":{"world":1}}`,
		`{"effects":[{"cost":2,"effect":"E","id":"e1","payload":{},"scope":"s"}],"finish":true,"plan":"world/effect-plan/v3","result":null}`, `{}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	need := world.Need{Effect: "E", Scope: "s", Cost: 1}
	declared := func(n world.Need) (world.Need, bool) { return n, n == need }
	f.Fuzz(func(t *testing.T, raw []byte) {
		text, err := hashref.CanonicalObject(raw)
		if err != nil {
			return // an output is canonical before it is looked at
		}
		p, err := parsePlan(declared, text, "test")
		if err != nil {
			return
		}
		most := 1
		if p.version == 2 {
			most = MaxPlanned
		}
		if n := len(p.effects); n > most || (n > 0) != (p.result == nil) || n == 0 && p.finish {
			t.Errorf("%s: %d effects, result %s, finish %v", text, n, p.result, p.finish)
		}
		ids := map[string]bool{}
		for _, e := range p.effects {
			if ids[e.ID] || !effectID.MatchString(e.ID) || e.Need != need || len(e.Payload) > MaxPayload {
				t.Errorf("%s: effect %+v", text, e)
			}
			ids[e.ID] = true
			if _, err := hashref.CanonicalObject(e.Payload); err != nil {
				t.Errorf("payload %s: %v", e.Payload, err)
			}
		}
		if p.result != nil {
			if there, err := hashref.Has(p.result, reservedKey); there || err != nil {
				t.Errorf("result %s: %v", p.result, err)
			}
		}
		if p.object.Hash != hashref.Sum(text) {
			t.Error("the plan is not what it was parsed from")
		}
	})
}
