package coordinator

import (
	"bytes"
	"testing"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// TestOrderedIsCanonical: what is written without a second pass is what the second pass
// would have made.
func TestOrderedIsCanonical(t *testing.T) {
	a, b := hashref.SumString("a"), hashref.SumString("b")
	odd := "é\"\\\u2028\x01/<&>\U0001F600"
	for name, v := range map[string]any{
		"digest":    callDigest{a, odd},
		"record v1": invocationRecord{EpisodeID: odd, Input: a, Interpreter: b, InvocationID: "a2a:ep:t", Output: a, SemanticsEpoch: 1, SkillID: odd, TransitionFn: b},
		"record v2": invocationRecord{Effects: &[]world.Ref{a, b}, Plan: &a},
		"record v3": invocationRecord{Rounds: []recordRound{{Effects: []world.Ref{a}, Plan: b}}},
		"world":     worldBlock{Effects: []worldEffect{{ID: "e1", Record: &a, Status: broker.StatusOK}, {ID: "e2"}}, Plan: b, Rounds: []worldRound{{Plan: a}}},
		"result":    phaseResult{Denial: odd, Effect: odd, ID: "e1", Output: []byte(`{"a":1}`), Omitted: true, Record: &a, Status: broker.StatusFailed},
	} {
		once := hashref.Ordered(v)
		if twice, err := hashref.Canonical(once); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s: %s is not canonical: %s, %v", name, once, twice, err)
		}
	}
	rounds := []round{{plan: &plan{version: 2}, dones: []broker.Done{{ID: "e1", Status: broker.StatusDenied, Reason: odd}, {ID: "e2", Status: broker.StatusSkipped}}}}
	for _, in := range [][]byte{phaseInput([]byte(`{"a":1}`)), finishInput([]byte(`{"a":1}`), rounds)} {
		if twice, err := hashref.Canonical(in); err != nil || !bytes.Equal(in, twice) {
			t.Errorf("%s is not canonical: %s, %v", in, twice, err)
		}
	}
}

// TestARefusalsRecordNamesNoEffects: a plan without effects has an empty list of them.
func TestARefusalsRecordNamesNoEffects(t *testing.T) {
	var rec invocationRecord
	if kind := rec.plans([]round{{plan: &plan{version: 1}}}); kind != world.SemRecordV2 || !bytes.Contains(hashref.Ordered(rec), []byte(`"effects":[]`)) {
		t.Fatalf("%s: %s", kind, hashref.Ordered(rec))
	}
	rec = invocationRecord{}
	if kind := rec.plans([]round{{plan: &plan{version: 2}}}); kind != world.SemRecordV3 || !bytes.Contains(hashref.Ordered(rec), []byte(`"rounds":[{"effects":[],`)) {
		t.Fatalf("%s: %s", kind, hashref.Ordered(rec))
	}
}
