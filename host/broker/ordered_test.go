package broker

import (
	"bytes"
	"testing"

	"ailang.dev/world/host/hashref"
)

func TestOrderedIsCanonical(t *testing.T) {
	ref := hashref.SumString("a")
	for _, v := range []any{
		record{Allowed: true, BudgetAfter: 1, BudgetBefore: 2, Cost: 1, Denial: "é\"\u2028", Effect: "E", RequestRef: ref, Scope: "s\x01"}, record{},
		request{Cost: 1, Effect: "E", ID: "e1", InvocationID: "a2a:ep:t", Payload: []byte(`{"b":[1,"x"]}`), Scope: "s"},
	} {
		once := hashref.Ordered(v)
		if twice, err := hashref.Canonical(once); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s is not canonical: %s, %v", once, twice, err)
		}
	}
}
