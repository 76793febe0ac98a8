package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/hashref"
)

// action is a decoded payload, ready to be done. It answers with canonical JSON.
type action func(ctx context.Context, c *call) ([]byte, error)

// operation is one value of "op": the effect it belongs to, the members that must be
// there, and its decoder.
type operation struct {
	effect   string
	required []string
	decode   func(raw []byte) (action, error)
}

var operations = map[string]operation{
	"read":  {EffectRead, []string{"path"}, decodeAs((*readArgs).do)},
	"list":  {EffectRead, []string{"path"}, decodeAs((*listArgs).do)},
	"glob":  {EffectRead, []string{"pattern"}, decodeAs((*globArgs).do)},
	"grep":  {EffectRead, []string{"pattern"}, decodeAs((*grepArgs).do)},
	"write": {EffectWrite, []string{"path", "content"}, decodeAs((*writeArgs).do)},
	"edit":  {EffectWrite, []string{"path", "old_text", "new_text"}, decodeAs((*editArgs).do)},
}

// head is the member that all payloads share.
type head struct {
	Op string `json:"op"`
}

type readArgs struct {
	head
	Path string `json:"path"`
	From *int64 `json:"from"`
	To   *int64 `json:"to"`
}

type listArgs struct {
	head
	Path string `json:"path"`
}

type globArgs struct {
	head
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	Limit   *int64 `json:"limit"`
}

type grepArgs struct {
	head
	Pattern    string  `json:"pattern"`
	Path       string  `json:"path"`
	Glob       *string `json:"glob"`
	Context    int64   `json:"context"`
	IgnoreCase bool    `json:"ignore_case"`
	Limit      *int64  `json:"limit"`
}

type writeArgs struct {
	head
	Path    string `json:"path"`
	Content string `json:"content"`
}

type editArgs struct {
	head
	Path    string `json:"path"`
	OldText string `json:"old_text"`
	NewText string `json:"new_text"`
}

// decodeAs is the decoder of one kind of arguments: unknown members and wrong types are
// errors.
func decodeAs[A any](do func(*A, context.Context, *call) ([]byte, error)) func([]byte) (action, error) {
	return func(raw []byte) (action, error) {
		args := new(A)
		if err := hashref.Decode(raw, args); err != nil {
			return nil, err
		}
		return func(ctx context.Context, c *call) ([]byte, error) { return do(args, ctx, c) }, nil
	}
}

// decode reads the payload of an effect.
func decode(effect string, raw []byte) (action, error) {
	members, err := hashref.Members(raw)
	if err != nil {
		return nil, err
	}
	for name, v := range members {
		if v.Kind() == 'n' {
			return nil, fmt.Errorf("member %q must not be null", name)
		}
	}
	var op string
	if err := json.Unmarshal(members["op"], &op); err != nil {
		return nil, fmt.Errorf(`member "op" must be a string`)
	}
	o, ok := operations[op]
	if !ok || o.effect != effect {
		return nil, fmt.Errorf("%s has no operation %q", effect, op)
	}
	if i := slices.IndexFunc(o.required, func(name string) bool { return members[name] == nil }); i >= 0 {
		return nil, fmt.Errorf("%s lacks the member %q", op, o.required[i])
	}
	return o.decode(raw)
}

// limited is the number that a limit asks for, between 1 and the most that can be given.
func limited(asked *int64, dfl, most int) (int, error) {
	switch {
	case asked == nil:
		return dfl, nil
	case *asked < 1:
		return 0, refuse("limit must be at least 1")
	}
	return int(min(*asked, int64(most))), nil
}
