// Package a2a owns the session dialect of A2A: POST /a2a/ with its one method, tasks/send,
// and the session's agent card. It translates: who is calling, what is seen and what a
// call does are asked of the interfaces in Config. It never judges a skill's arguments
// beyond their being canonical JSON, never retries, keeps nothing between requests, and
// knows nothing of the other surfaces. Answers spec/09-a2a.md.
package a2a

import (
	"context"
	"strings"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// Bounds of a request.
const (
	MaxBody      = 1 << 20                   // bytes of a POST
	PostDeadline = coordinator.CallDeadline  // a whole POST
	ViewDeadline = coordinator.AdmitDeadline // reading the registry for a card
	MaxCalls     = 256                       // calls that run at once; one more is turned away at once
	Grace        = coordinator.Aftermath     // how long past its deadline a call that had an effect may still answer
)

// SkillViewer tells what a session sees, in registry byte order.
type SkillViewer interface {
	View(ctx context.Context, s world.Session) ([]*world.Descriptor, error)
}

// Invoker runs one call to its committed entry.
type Invoker interface {
	Invoke(ctx context.Context, c coordinator.Call) (coordinator.Result, error)
}

// Config is all that the surface needs. Every field but PublicURL is required.
type Config struct {
	Sessions surface.SessionResolver
	Skills   SkillViewer
	Calls    Invoker
	// Logf writes one line to the operator.
	Logf func(format string, args ...any)
	// PublicURL is what the card names; "" makes it http://<Listen>.
	PublicURL string
	// Listen is host and port of the listener.
	Listen string
	// Version is the daemon's.
	Version string
}

// url is where the card says the daemon is, without a path's closing slash.
func (c Config) url() string {
	if c.PublicURL != "" {
		return strings.TrimRight(c.PublicURL, "/")
	}
	return "http://" + c.Listen
}
