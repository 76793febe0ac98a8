// Package mcp owns POST /mcp/: a stateless MCP server over Streamable HTTP whose tools are
// the transitions that a session's grants admit. It translates: who is calling, what is
// seen and what a call does are asked of the interfaces in Config. It never judges a
// tool's arguments beyond their being canonical JSON, never retries, keeps nothing between
// requests but rendered tools, and knows nothing of the other surfaces. Answers
// spec/08-mcp.md.
package mcp

import (
	"context"
	"time"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// Bounds of a request.
const (
	MaxBody          = 4 << 20                   // bytes of a POST
	MaxBatch         = 1024                      // items of a batch
	MaxAnswer        = 32 << 20                  // bytes of all answers to one POST
	Slots            = 8                         // invocations that run at once
	MaxWaiting       = 256                       // invocations that wait for a slot when one more is turned away
	MaxQueue         = 512                       // that ever wait for one: more than MaxWaiting come out of their episodes' queues
	PostDeadline     = coordinator.CallDeadline  // a whole POST
	CallbackDeadline = coordinator.CallDeadline  // one invocation, inside it
	ViewDeadline     = coordinator.AdmitDeadline // the first admission, inside it
	Grace            = coordinator.Aftermath     // how long past its deadline a call that had an effect may still answer
)

// ToolViewer tells what a session sees, in registry byte order. A descriptor that has not
// changed keeps its pointer, and is itself never changed.
type ToolViewer interface {
	View(ctx context.Context, s world.Session) ([]*world.Descriptor, error)
}

// Invoker runs one call to its committed entry.
type Invoker interface {
	Invoke(ctx context.Context, c coordinator.Call) (coordinator.Result, error)
}

// Limiter takes one call out of a session's pool of a rate class; wait is when there will be
// one if there is none now, in whole seconds. A minted session has no pool.
type Limiter interface {
	Admit(s world.Session, class string) (wait time.Duration)
}

// Config is all that the surface needs. Every field but Limits, Refused and Challenge is required.
type Config struct {
	Sessions surface.SessionResolver
	Tools    ToolViewer
	Calls    Invoker
	Limits   Limiter // nil limits nobody
	// Refused is told of a call that was refused before it was one of Calls.
	Refused func(kind world.Kind)
	// Logf writes one line to the operator.
	Logf func(format string, args ...any)
	// Version is the daemon's.
	Version string
	// Challenge, unless "", is the WWW-Authenticate of every 401.
	Challenge string
}
