package world

import "testing"

func TestEveryKindHasItsOwnName(t *testing.T) {
	if len(kindNames) != int(kindEnd) {
		t.Fatalf("%d names for %d kinds", len(kindNames), int(kindEnd))
	}
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if s := k.String(); s == "" || seen[s] {
			t.Errorf("kind %d: name %q is empty or taken", int(k), s)
		} else {
			seen[s] = true
		}
	}
	if got := KindSchema.String(); got != "Schema" {
		t.Errorf("last kind is named %q", got)
	}
	if got := Kind(-1).String(); got != "Kind(-1)" {
		t.Errorf("no kind is named %q", got)
	}
}
