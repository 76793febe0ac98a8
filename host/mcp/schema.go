package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"ailang.dev/world/host/hashref"
)

// reservedOutput is the property that every effectful output gains.
const reservedOutput = "world"

// objectSchema is a published schema as MCP wants it: an object that says so by its type.
// Its constraints stay. With gains, which is the schema of the property "world", it admits
// that property too, and of all else exactly what it admitted before wherever that can be
// said; it never admits less.
func objectSchema(raw []byte, gains map[string]any) ([]byte, error) {
	root := map[string]any{}
	switch text := strings.TrimSpace(string(raw)); text {
	case "", "null", "true":
	case "false":
		root["not"] = map[string]any{}
	default:
		if err := json.Unmarshal(raw, &root); err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
	}
	if _, typed := root["type"]; !typed {
		root["type"] = "object"
	}
	if gains != nil {
		a := admitter{root: root, done: map[uintptr]bool{}}
		a.admit(root)
		properties, ok := root["properties"].(map[string]any)
		if !ok {
			properties = map[string]any{}
			root["properties"] = properties
		}
		if declared, there := properties[reservedOutput].(map[string]any); !there || len(declared) == 0 {
			properties[reservedOutput] = gains
		}
	}
	return hashref.Marshal(root)
}

// worldSchema is the schema of what "world" holds.
func worldSchema() map[string]any {
	ref := map[string]any{"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
	effects := map[string]any{
		"type": "array",
		"items": map[string]any{
			"type": "object",
			"properties": map[string]any{
				"id":     map[string]any{"type": "string"},
				"status": map[string]any{"type": "string", "enum": []any{"ok", "failed", "denied", "skipped"}},
				"record": map[string]any{"type": []any{"string", "null"}},
			},
			"required": []any{"id", "status", "record"},
		},
	}
	return map[string]any{
		"type":        "object",
		"description": "What the call planned and what became of it: the plan's ref, and each effect with its status and the ref of its record.",
		"properties": map[string]any{
			"plan":    ref,
			"effects": effects,
			"rounds": map[string]any{
				"type": "array",
				"items": map[string]any{
					"type":       "object",
					"properties": map[string]any{"plan": ref, "effects": effects},
					"required":   []any{"plan", "effects"},
				},
			},
		},
		"required": []any{"plan", "effects"},
	}
}

// admitter opens a schema, and every schema that it applies to the same object, to one
// more property. Schemas of properties and items are of other values, and stay.
type admitter struct {
	root map[string]any
	done map[uintptr]bool // the schemas that are open already, by the map that holds them
}

func (a *admitter) admit(s map[string]any) {
	self := reflect.ValueOf(s).Pointer()
	if a.done[self] {
		return
	}
	a.done[self] = true
	a.admitHere(s)
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := s[key].([]any)
		for _, branch := range branches {
			a.admitAny(branch)
		}
	}
	for _, key := range []string{"if", "then", "else"} {
		a.admitAny(s[key])
	}
	dependent, _ := s["dependentSchemas"].(map[string]any)
	for _, branch := range dependent {
		a.admitAny(branch)
	}
	if ref, ok := s["$ref"].(string); ok {
		a.admitAny(a.resolve(ref))
	}
}

func (a *admitter) admitAny(v any) {
	if s, ok := v.(map[string]any); ok {
		a.admit(s)
	}
}

// admitHere opens one schema's own keywords.
func (a *admitter) admitHere(s map[string]any) {
	_, additional := s["additionalProperties"]
	_, unevaluated := s["unevaluatedProperties"]
	if additional || unevaluated {
		properties, ok := s["properties"].(map[string]any)
		if !ok {
			properties = map[string]any{}
			s["properties"] = properties
		}
		if _, there := properties[reservedOutput]; !there {
			properties[reservedOutput] = map[string]any{}
		}
	}
	for _, key := range []string{"minProperties", "maxProperties"} {
		if n, ok := s[key].(float64); ok {
			s[key] = n + 1
		}
	}
	if names, there := s["propertyNames"]; there {
		s["propertyNames"] = map[string]any{"anyOf": []any{map[string]any{"const": reservedOutput}, names}}
	}
	patterns, _ := s["patternProperties"].(map[string]any)
	for pattern, schema := range patterns {
		if re, err := regexp.Compile(pattern); err != nil || re.MatchString(reservedOutput) {
			patterns[pattern] = map[string]any{"anyOf": []any{worldSchema(), schema}}
		}
	}
	// One fixed object has no room for another property.
	delete(s, "const")
	delete(s, "enum")
}

// resolve follows a reference into the same document; nil for any other.
func (a *admitter) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	var at any = a.root
	if path == "" {
		return at
	}
	if path[0] != '/' {
		return nil
	}
	for step := range strings.SplitSeq(path[1:], "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}
