package tasks

import (
	"errors"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// FuzzParams: what is not understood is refused with a reason; what is understood gives
// canonical arguments within their laws, and a task that is what it says it is.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		`{"message":{"role":"user","kind":"message","messageId":"m","parts":[{"kind":"text","text":"x"}]}}`,
		`{"message":{"role":"user","kind":"message","messageId":"m","contextId":"c","taskId":"t","metadata":{"skillId":"s"},"parts":[{"kind":"data","data":{"a":[1,{"b":null}]}},{"kind":"text","text":"\u00e9"}]},"configuration":{}}`,
		`{"message":{"role":"user","kind":"message","messageId":"\ud800","parts":[{"kind":"file"}]}}`, `{"message":{"a":1,"a":2}}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	d := &world.Descriptor{ID: "s", TextArgument: "text"}
	f.Fuzz(func(t *testing.T, params []byte) {
		m, err := parseMessage(params)
		var told surface.Error
		if err != nil {
			if !errors.As(err, &told) || told.Code != surface.CodeInvalidParams {
				t.Fatalf("%v", err)
			}
			return
		}
		args, err := m.args(d)
		if err != nil {
			if !errors.As(err, &told) {
				t.Fatalf("%v", err)
			}
			return
		}
		if again, err := hashref.CanonicalObject(args); err != nil || string(again) != string(args) {
			t.Fatalf("arguments %s: %v", args, err)
		}
		r := begun(world.Session{Episode: "u"}, m, derived("task", "u", m.id))
		if _, err := hashref.Members(r.Task.encode()); err != nil {
			t.Fatalf("%v: %s", err, r.Task.encode())
		}
	})
}
