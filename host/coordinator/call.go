package coordinator

import (
	"context"
	"regexp"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/world"
)

// Bounds of a call.
const (
	CallDeadline   = 20 * time.Second // a whole call on /mcp/ or /a2a/
	TaskDeadline   = 2 * time.Minute  // a whole call on the task endpoint
	AdmitDeadline  = 10 * time.Second // re-admission inside it
	DetachedBudget = 4 * time.Second  // all that follows an effect
	MaxWaiting     = 32               // calls that may wait for one episode
	MaxArgs        = 4 << 20          // bytes of the arguments, canonical
	// Aftermath is how long past the end of its context Invoke may still go on, so that what
	// an effect did is told truthfully: a handler stops, and then its outcome, the finish
	// phase and the commit have their budget.
	Aftermath = broker.StopGrace + DetachedBudget + time.Second
)

// Call is one request to run a transition, as a surface hands it over. The surface has
// resolved the session; the coordinator rebuilds the view and admits.
type Call struct {
	Surface world.Surface
	Session world.Session
	Skill   string
	// Pin, unless None, must be the registered source's hash.
	Pin world.Ref
	// Task is the idempotency key within the episode; "" lets the coordinator make a random
	// one.
	Task string
	// Args is a canonical JSON object.
	Args []byte
	// Slot, unless nil, is taken after the episode's lock and given back at the end. Its
	// error, KindCapacity or that of ctx, ends the call before anything ran.
	Slot func(ctx context.Context) (release func(), err error)
}

// id is what the call is named by for ever.
func (c *Call) id(task string) world.InvocationID {
	if c.Surface == world.SurfaceTasks {
		return world.TaskInvocation(c.Session.Episode, task)
	}
	return world.AgentInvocation(c.Session.Episode, task)
}

func (c *Call) deadline() time.Duration {
	if c.Surface == world.SurfaceTasks {
		return TaskDeadline
	}
	return CallDeadline
}

// Result is one committed call.
type Result struct {
	Invocation world.InvocationID
	// Output is canonical JSON, an object.
	Output []byte
	World  world.Ref
	Entry  int64
	// Replayed says that the task had been committed before, and nothing ran.
	Replayed bool
}

var taskID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// ValidTask tells whether a text may be a task id.
func ValidTask(s string) bool { return taskID.MatchString(s) }
