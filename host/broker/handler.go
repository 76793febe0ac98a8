package broker

import (
	"context"
	"time"

	"ailang.dev/world/host/world"
)

// HandlerTimeout bounds one effect, MaxPatience that of a handler which is Patient; StopGrace
// is what a handler gets beyond it to stop. The call's own deadline counts too.
const (
	HandlerTimeout = 10 * time.Second
	MaxPatience    = 110 * time.Second
	StopGrace      = time.Second
)

// Bounds of what an effect may answer, in bytes.
const (
	MaxEffectOutput = 4 << 20 // the output
	MaxReason       = 4 << 10 // the reason of a failure; a longer one is cut
)

// Request is one effect to be performed. Its intent is durable before Perform is called.
type Request struct {
	Invocation world.InvocationID
	Episode    string
	EffectID   string
	// Transition and TransitionFn are the transition that planned it.
	Transition   string
	TransitionFn world.Ref
	Need         world.Need
	Payload      []byte // canonical JSON object
}

// Handler performs effects. It is called after authority said yes, the budget was debited
// and the intent is durable; at most once for an intent, and never again after a crash.
// Methods may be called from any goroutine; calls of one episode that write run alone in it.
type Handler interface {
	// Effects are the effect names it performs.
	Effects() []string
	// Ready tells whether it can serve an effect in a scope for an episode; the error says
	// what is missing, for the operator. It is asked before anything runs (rule R8).
	Ready(ctx context.Context, episode, effect, scope string) error
	// Perform does it. A JSON object, also {"ok":false,"refused":"…"}, is the answer; an
	// error, a panic or the end of ctx is a failed effect. Of an error the caller is told
	// world.Message, and its cause goes to stderr.
	Perform(ctx context.Context, r Request) ([]byte, error)
}

// Patient is a Handler some of whose effects may take longer than HandlerTimeout.
type Patient interface {
	// Patience is how long an effect may take; above MaxPatience it is that, and from 0 down
	// HandlerTimeout.
	Patience(effect, scope string) time.Duration
}

// patience is how long a handler gets for an effect.
func patience(h Handler, n world.Need) time.Duration {
	if p, ok := h.(Patient); ok {
		if d := p.Patience(n.Effect, n.Scope); d > 0 {
			return min(d, MaxPatience)
		}
	}
	return HandlerTimeout
}
