package registry

import (
	"testing"

	"ailang.dev/world/host/world"
)

// FuzzManifest: any text is a refusal with a reason, or transitions that keep the laws of
// descriptors: distinct ids that may be published, schemas that are canonical objects,
// paths that stay in the manifest's folder.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		`[{"id":"a","title":"A","transitionFnFile":"a.star","inputSchema":{"properties":{"q":{"type":"string"}}},"outputSchema":{},"access":{"effect":"E","scope":"s","cost":0},"declaredEffects":[{"effect":"E","scope":"s","cost":1,"approval":true}],"textArgument":"q","rateClass":"expensive","annotations":{"readOnlyHint":true}}]`,
		`[{"id":"../x","transitionFnFile":"../../etc/passwd"}]`, `[{"id":"a","id":"b"}]`, `[]`, `{}`, `[null]`, `[{"inputSchema":{"$ref":"https://example.invalid/x"}}]`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		items, err := parseManifest(text)
		if err != nil {
			if kind := world.KindOf(err); kind != world.KindBadRequest || world.Message(err) == "" {
				t.Fatalf("%v is of kind %v", err, kind)
			}
			return
		}
		seen := map[string]bool{}
		for i := range items {
			it := &items[i]
			if why := world.CheckTransitionID(it.ID); why != "" || seen[it.ID] {
				t.Errorf("id %q: %s, twice: %v", it.ID, why, seen[it.ID])
			}
			seen[it.ID] = true
			for _, schema := range [][]byte{it.InputSchema, it.OutputSchema} {
				if again, err := checkSchema(schema); err != nil || string(again) != string(schema) {
					t.Errorf("schema %s: %v", schema, err)
				}
			}
		}
	})
}
