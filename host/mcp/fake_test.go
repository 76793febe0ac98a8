package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

var (
	token   = strings.Repeat("a1", 32)
	expired = strings.Repeat("e0", 32)
	broken  = strings.Repeat("b0", 32) // the store errs when it is looked up
	slow    = strings.Repeat("50", 32) // the look-up runs into its deadline
	blind   = strings.Repeat("b1", 32) // a session whose registry reads fail
	late    = strings.Repeat("1a", 32) // a session whose registry reads time out
	empty   = strings.Repeat("00", 32) // a session that sees nothing
	failing = strings.Repeat("fa", 32) // a session whose tools fail, each in its own way
	wide    = strings.Repeat("64", 32) // a session that sees a name of exactly the longest
	wider   = strings.Repeat("65", 32) // a session that sees a name one byte longer
	nobody  = strings.Repeat("ff", 32)
)

func yes() *bool { b := true; return &b }

// What the sessions see. Descriptors keep their pointers, as a registry's do.
var (
	echo = &world.Descriptor{
		ID: "tools.echo", Title: "Echo", Description: "Gives back what it gets.",
		InputSchema:  []byte(`{"additionalProperties":true,"maxProperties":3}`),
		OutputSchema: []byte(`{"properties":{"echo":{"type":"object"}},"required":["echo"],"type":"object"}`),
		Annotations:  &world.Annotations{ReadOnlyHint: yes(), IdempotentHint: yes()},
	}
	read = &world.Descriptor{
		ID: "ailang-read", Title: "Read (sandboxed)", Description: "Reads a file <of> the worktree.",
		InputSchema:     []byte(`{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}`),
		OutputSchema:    []byte(`{"additionalProperties":false,"properties":{"content":{"type":"string"},"ok":{"type":"boolean"}},"type":"object"}`),
		DeclaredEffects: []world.Need{{Effect: "Workspace.Read", Scope: "worktree", Cost: 1}},
	}
	gone   = &world.Descriptor{ID: "tools/gone_1"}
	views  = map[string][]*world.Descriptor{token: {read, echo, gone}, empty: nil, wide: {named(64)}, wider: {echo, named(65)}}
	failed = failingTools()
)

func named(n int) *world.Descriptor { return &world.Descriptor{ID: strings.Repeat("n", n-2) + "."} }

func failingTools() []*world.Descriptor {
	all := []*world.Descriptor{{ID: "fail/unrecorded"}, {ID: "fail/panic"}}
	for _, k := range world.Kinds() {
		all = append(all, &world.Descriptor{ID: "fail/" + k.String()})
	}
	return all
}

// fakeHost stands for all that is behind the surface, and fails the test when it is not
// called as its contract says.
type fakeHost struct {
	t *testing.T

	mu    sync.Mutex
	lines []string
	views int
	calls []coordinator.Call
	// invoke, unless nil, is what Invoke does.
	invoke func(ctx context.Context, c coordinator.Call) (coordinator.Result, error)
}

func (f *fakeHost) config() Config {
	return Config{Sessions: f, Tools: f, Calls: f, Logf: f.logf, Version: "0.1.0"}
}

func (f *fakeHost) logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

func (f *fakeHost) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.lines, "\n")
}

func (f *fakeHost) within(ctx context.Context, bound time.Duration) {
	f.t.Helper()
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > bound {
		f.t.Errorf("a call's deadline is %v, %v; want at most %v", at, ok, bound)
	}
}

func (f *fakeHost) Resolve(ctx context.Context, authorization []string) (world.Session, error) {
	f.within(ctx, surface.CredentialDeadline)
	const op = "authority.Resolve"
	if len(authorization) == 0 {
		return world.Session{}, world.Errorf(world.KindSessionAbsent, op, "session credential is absent: send Authorization: Bearer <session-credential>")
	}
	bearer, ok := strings.CutPrefix(authorization[0], "Bearer ")
	if !ok || len(authorization) != 1 || len(bearer) != 64 {
		return world.Session{}, world.Errorf(world.KindSessionBad, op, "malformed Authorization header: expected Bearer <64-hex-credential>")
	}
	switch bearer {
	case expired:
		return world.Session{}, world.Errorf(world.KindSessionExpired, op, "session credential has expired")
	case nobody:
		return world.Session{}, world.Errorf(world.KindSessionUnknown, op, "unknown session credential")
	case broken:
		return world.Session{}, world.Wrap(world.KindIntegrity, op, errors.New("row 3 of sessions does not prove itself"))
	case slow:
		return world.Session{}, world.Wrap(world.KindTimeout, op, context.DeadlineExceeded)
	}
	return world.Session{ID: hashref.SumString(bearer), Episode: bearer}, nil
}

func (f *fakeHost) View(ctx context.Context, s world.Session) ([]*world.Descriptor, error) {
	f.within(ctx, ViewDeadline)
	f.mu.Lock()
	f.views++
	f.mu.Unlock()
	switch s.Episode {
	case blind:
		return nil, world.Wrap(world.KindIntegrity, "registry.View", errors.New("the head object is damaged"))
	case late:
		return nil, world.Wrap(world.KindTimeout, "registry.View", context.DeadlineExceeded)
	case failing:
		return failed, nil
	}
	seen, ok := views[s.Episode]
	if !ok {
		f.t.Errorf("a view was asked for a session that was not resolved: %v", s)
	}
	return seen, nil
}

func (f *fakeHost) Invoke(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
	f.within(ctx, CallbackDeadline)
	canonical, err := hashref.CanonicalObject(c.Args)
	if err != nil || !bytes.Equal(canonical, c.Args) {
		f.t.Errorf("arguments are not canonical: %s", c.Args)
	}
	if c.Surface != world.SurfaceMCP || c.Session.Episode == "" || c.Task != "" || !c.Pin.IsNone() {
		f.t.Errorf("not a call of this surface: %+v", c)
	}
	release, err := c.Slot(ctx)
	if err != nil {
		return coordinator.Result{}, err
	}
	defer release()
	c.Slot = nil
	f.mu.Lock()
	f.calls = append(f.calls, c)
	f.mu.Unlock()
	if f.invoke != nil {
		return f.invoke(ctx, c)
	}
	return serve(c)
}

// serve echoes for tools.echo, answers for ailang-read as its handler would, and fails as
// other names say.
func serve(c coordinator.Call) (coordinator.Result, error) {
	res := coordinator.Result{Invocation: "a2a:ep1:random", World: hashref.Sum(c.Args), Entry: 3}
	switch c.Skill {
	case "tools.echo":
		res.Output = []byte(`{"echo":` + string(c.Args) + `}`)
		return res, nil
	case "ailang-read":
		res.Output = []byte("{\"content\":\"a\\\"b\\n\u2028\",\"ok\":true," + worldOutput + "}")
		return res, nil
	case "fail/unrecorded":
		return coordinator.Result{}, world.Wrap(world.KindDeadline, "coordinator.Invoke", &world.EffectsUnrecordedError{
			Refs:  []world.Ref{hashref.SumString("record 1"), hashref.SumString("record 2")},
			Cause: errors.New("finish failed\nbadly"),
		})
	case "fail/panic":
		panic("a secret cause")
	}
	for _, k := range world.Kinds() {
		if c.Skill == "fail/"+k.String() {
			return coordinator.Result{}, world.Wrap(k, "coordinator.Invoke", errors.New("a secret cause"))
		}
	}
	return coordinator.Result{}, world.Errorf(world.KindNotAuthorized, "coordinator.Invoke", "")
}
