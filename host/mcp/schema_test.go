package mcp

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// outputs are told apart by the schemas below.
var outputs = []string{
	`{}`, `{"ok":true}`, `{"ok":false}`, `{"ok":true,"content":"x"}`, `{"ok":false,"refused":"r"}`, `{"ok":true,"more":1}`,
	`{"ok":1}`, `{"content":7}`, `{"a":1,"b":2,"c":3}`, `{"alpha":1}`, `{"alpha":"x"}`,
}

// schemas are what packs may publish. "exact" says that with world the schema admits just
// what it admitted without.
var schemas = []struct {
	name  string
	text  string
	exact bool
}{
	{"empty", `{}`, true},
	{"always", `true`, true},
	{"required", `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`, true},
	{"closed", `{"type":"object","properties":{"ok":{"type":"boolean"}},"additionalProperties":false}`, true},
	{"typed rest", `{"properties":{"ok":{}},"additionalProperties":{"type":"string"}}`, true},
	{"unevaluated", `{"allOf":[{"properties":{"ok":{}}}],"unevaluatedProperties":false}`, true},
	{"one of two closed", `{"oneOf":[
		{"properties":{"ok":{"const":true},"content":{"type":"string"}},"required":["ok"],"additionalProperties":false},
		{"properties":{"ok":{"const":false},"refused":{"type":"string"}},"required":["ok"],"additionalProperties":false}]}`, true},
	{"any of", `{"anyOf":[{"required":["refused"],"additionalProperties":{}},{"properties":{"content":{}},"additionalProperties":false}]}`, true},
	{"by reference", `{"$defs":{"yes":{"properties":{"ok":{"const":true}},"required":["ok"],"additionalProperties":false},"a/b":{"maxProperties":1}},
		"anyOf":[{"$ref":"#/$defs/yes"},{"$ref":"#/$defs/a~1b"}]}`, true},
	{"to itself", `{"properties":{"ok":{"type":"boolean"},"sub":{"$ref":"#"}},"additionalProperties":false}`, true},
	{"counted", `{"minProperties":2,"maxProperties":2}`, true},
	{"named", `{"propertyNames":{"maxLength":3}}`, true},
	{"patterns that world fits", `{"patternProperties":{"^[a-z]+$":{"type":"string"}},"additionalProperties":false}`, true},
	{"patterns that world does not fit", `{"patternProperties":{"^[a-c]$":{"type":"integer"}},"additionalProperties":false}`, true},
	{"if", `{"if":{"properties":{"ok":{"const":true}},"required":["ok"],"additionalProperties":false},"then":{"maxProperties":1},"else":{"required":["refused"]}}`, true},
	{"dependent", `{"dependentSchemas":{"refused":{"properties":{"ok":{"const":false},"refused":{}},"additionalProperties":false}}}`, true},
	{"nested stay closed", `{"properties":{"content":{"properties":{},"additionalProperties":false}}}`, true},
	{"one constant", `{"const":{"ok":true}}`, false},
	{"few constants", `{"anyOf":[{"enum":[{"ok":true},{"ok":false}]}]}`, false},
	{"its own world", `{"properties":{"world":{"type":"object","required":["plan"]},"ok":{}},"additionalProperties":false}`, true},
}

const worldOutput = `"world":{"effects":[{"id":"e1","record":null,"status":"skipped"}],"plan":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}`

// TestWorldIsAdmitted: with world added an output is valid just when it was without it.
func TestWorldIsAdmitted(t *testing.T) {
	for _, tt := range schemas {
		t.Run(tt.name, func(t *testing.T) {
			rendered, err := objectSchema([]byte(tt.text), worldSchema())
			if err != nil {
				t.Fatal(err)
			}
			before, after := compile(t, []byte(tt.text)), compile(t, rendered)
			admitted := 0
			for _, output := range outputs {
				with := output[:len(output)-1] + "," + worldOutput + "}"
				if output == "{}" {
					with = "{" + worldOutput + "}"
				}
				was, is := valid(t, before, output), valid(t, after, with)
				if was {
					admitted++
				}
				if was && !is || tt.exact && was != is {
					t.Errorf("%s: valid before %v, with world %v under %s", output, was, is, rendered)
				}
			}
			if admitted == 0 {
				t.Errorf("no output tells anything about %s", tt.text)
			}
			if bad := `{"ok":true,"world":7}`; valid(t, after, bad) {
				t.Errorf("%s is valid under %s", bad, rendered)
			}
		})
	}
}

// TestInputSchema: a schema gains a type and loses no constraint.
func TestInputSchema(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   `{"type":"object"}`,
		`{}`:                                 `{"type":"object"}`,
		`true`:                               `{"type":"object"}`,
		`null`:                               `{"type":"object"}`,
		`false`:                              `{"not":{},"type":"object"}`,
		`{"type":"object"}`:                  `{"type":"object"}`,
		`{"type":["object","null"]}`:         `{"type":["object","null"]}`,
		`{"maxProperties":3,"required":[]}`:  `{"maxProperties":3,"required":[],"type":"object"}`,
		`{"properties":{"type":{"a":"<>"}}}`: `{"properties":{"type":{"a":"<>"}},"type":"object"}`,
	} {
		got, err := objectSchema([]byte(text), nil)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`[]`, `7`, `{`} {
		if got, err := objectSchema([]byte(text), nil); err == nil {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestReferences: what a schema borrows from elsewhere is left as it is, and one that goes
// in circles comes to an end.
func TestReferences(t *testing.T) {
	for _, ref := range []string{"https://example.org/s", "#name", "#", "#/allOf", "#/allOf/0", "#/$defs/none", "#/allOf/9", "#/allOf/x", "#/type/x"} {
		text := fmt.Sprintf(`{"$ref":%q,"allOf":[{}],"type":"object"}`, ref)
		got, err := objectSchema([]byte(text), worldSchema())
		if err != nil || !bytes.Contains(got, []byte(ref)) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///schema.json")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func valid(t *testing.T, s *jsonschema.Schema, text string) bool {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s.Validate(v) == nil
}
