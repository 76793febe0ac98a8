package git

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"ailang.dev/world/host/hashref"
)

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

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
	"status": {EffectRead, nil, decodeAs((*statusArgs).do)},
	"diff":   {EffectRead, nil, decodeAs((*diffArgs).do)},
	"log":    {EffectRead, nil, decodeAs((*logArgs).do)},
	"show":   {EffectRead, nil, decodeAs((*showArgs).do)},
	"commit": {EffectCommit, []string{"message"}, decodeAs((*commitArgs).do)},
}

// head is the member that all payloads share.
type head struct {
	Op string `json:"op"`
}

type statusArgs struct {
	head
	Path string `json:"path"`
}

type diffArgs struct {
	head
	From    string `json:"from"`
	To      string `json:"to"`
	Path    string `json:"path"`
	Context *int64 `json:"context"`
}

type logArgs struct {
	head
	Rev   string `json:"rev"`
	Path  string `json:"path"`
	Limit *int64 `json:"limit"`
	Skip  int64  `json:"skip"`
}

type showArgs struct {
	head
	Rev     string `json:"rev"`
	Path    string `json:"path"`
	Context *int64 `json:"context"`
}

type commitArgs struct {
	head
	Message string   `json:"message"`
	Paths   []string `json:"paths"`
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

// cleaned checks the shape of a path, as the workspace handler does, and gives it clean;
// "" and "." are "", the whole worktree.
func cleaned(asked string) (string, error) {
	switch {
	case len(asked) > MaxPath:
		return "", refuse("path %s is too long: %d bytes, at most %d", quoted(asked), len(asked), MaxPath)
	case strings.ContainsRune(asked, 0):
		return "", refuse("path %s holds a NUL", quoted(asked))
	}
	p := path.Clean(asked)
	if p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
		return "", refuse("path %s escapes the worktree", quoted(asked))
	}
	if p == "." {
		return "", nil
	}
	return p, nil
}

// only is the end of a command line that names one path, or none.
func only(p string) []string {
	if p == "" {
		return nil
	}
	return []string{"--", p}
}

// revision is what may name a commit: a name or hash, then steps to parents. Nothing in it
// is an option, a range, a path, a date, or a search.
var revision = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*(?:[~^][0-9]{0,4}){0,16}$`)

// checkRevision refuses what is no revision by its shape.
func checkRevision(rev string) error {
	if len(rev) > MaxRevision || !revision.MatchString(rev) || strings.Contains(rev, "..") {
		return refuse("revision %s must be HEAD, a branch, a tag or a commit's hash, with ~N or ^N at its end if a parent is meant", quoted(rev))
	}
	return nil
}

// lines is the number of context lines that is asked for.
func lines(asked *int64) (int64, error) {
	switch {
	case asked == nil:
		return dflContext, nil
	case *asked < 0 || *asked > MaxContext:
		return 0, refuse("context must be from 0 to %d", MaxContext)
	}
	return *asked, nil
}
