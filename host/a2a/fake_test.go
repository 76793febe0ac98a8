package a2a

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
	nobody  = strings.Repeat("ff", 32)
)

var source = hashref.SumString("source")

// fakeHost stands for all that is behind the surface, and fails the test when it is not
// called as its contract says.
type fakeHost struct {
	t *testing.T

	mu    sync.Mutex
	lines []string
	calls []coordinator.Call
	// invoke, unless nil, is what Invoke does.
	invoke func(ctx context.Context, c coordinator.Call) (coordinator.Result, error)
}

func (f *fakeHost) config() Config {
	return Config{Sessions: f, Skills: f, Calls: f, Logf: f.logf, Listen: "127.0.0.1:7644", Version: "0.1.0"}
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
	case token, blind, late, empty:
		return world.Session{ID: hashref.SumString(bearer), Episode: "ep1"}, nil
	case expired:
		return world.Session{}, world.Errorf(world.KindSessionExpired, op, "session credential has expired")
	case broken:
		return world.Session{}, world.Wrap(world.KindIntegrity, op, errors.New("row 3 of sessions does not prove itself"))
	case slow:
		return world.Session{}, world.Wrap(world.KindTimeout, op, context.DeadlineExceeded)
	}
	return world.Session{}, world.Errorf(world.KindSessionUnknown, op, "unknown session credential")
}

func (f *fakeHost) View(ctx context.Context, s world.Session) ([]*world.Descriptor, error) {
	f.within(ctx, ViewDeadline)
	switch s.ID {
	case hashref.SumString(blind):
		return nil, world.Wrap(world.KindIntegrity, "registry.View", errors.New("the head object is damaged"))
	case hashref.SumString(late):
		return nil, world.Wrap(world.KindTimeout, "registry.View", context.DeadlineExceeded)
	case hashref.SumString(empty):
		return nil, nil
	case hashref.SumString(token):
		return []*world.Descriptor{
			{ID: "ailang-read", Title: "Read (sandboxed)", Description: "Reads a file <of> the worktree."},
			{ID: "tools.echo"},
		}, nil
	}
	f.t.Errorf("a view was asked for a session that was not resolved: %v", s)
	return nil, nil
}

func (f *fakeHost) Invoke(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
	f.within(ctx, PostDeadline)
	canonical, err := hashref.CanonicalObject(c.Args)
	if err != nil || !bytes.Equal(canonical, c.Args) {
		f.t.Errorf("arguments are not canonical: %s", c.Args)
	}
	if c.Surface != world.SurfaceA2A || c.Session.Episode != "ep1" || !coordinator.ValidTask(c.Task) || c.Slot == nil {
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

// serve echoes for tools.echo, checks the pin, and fails as the skill's name says.
func serve(c coordinator.Call) (coordinator.Result, error) {
	const op = "coordinator.Invoke"
	if name, ok := strings.CutPrefix(c.Skill, "fail/"); ok {
		return coordinator.Result{}, failure(name)
	}
	if c.Skill != "tools.echo" {
		return coordinator.Result{}, world.Errorf(world.KindNotAuthorized, op, "")
	}
	if !c.Pin.IsNone() && c.Pin != source {
		return coordinator.Result{}, world.Errorf(world.KindPinMismatch, op, "")
	}
	return coordinator.Result{
		Invocation: world.AgentInvocation("ep1", c.Task),
		Output:     []byte(`{"echo":` + string(c.Args) + `}`),
		World:      hashref.Sum(c.Args),
		Entry:      3,
	}, nil
}

func failure(name string) error {
	if name == "unrecorded" {
		return world.Wrap(world.KindDeadline, "coordinator.Invoke", &world.EffectsUnrecordedError{
			Refs:  []world.Ref{hashref.SumString("record 1"), hashref.SumString("record 2")},
			Cause: errors.New("finish failed\nbadly"),
		})
	}
	for _, k := range world.Kinds() {
		if k.String() == name {
			return world.Wrap(k, "coordinator.Invoke", errors.New("a secret cause"))
		}
	}
	panic("no such failure: " + name)
}
