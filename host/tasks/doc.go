// Package tasks owns the task dialect of A2A: POST /api/v1/a2a with message/send, tasks/get
// and tasks/cancel for users with tokens. It turns a message into one call of a skill and
// what came of the call into a finished task, keeps that task for a day under its owner, and
// answers a message that comes again with the same task. It translates: who is calling, what
// is seen, what a call does and how many calls a plan allows are asked of the interfaces in
// Config. It knows nothing of the other surfaces. Answers spec/19-tasks.md.
package tasks

import (
	"context"
	"sync"
	"time"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// Path is where the endpoint is.
const Path = "/api/v1/a2a"

// DefaultSkill is what a message is for that names no skill.
const DefaultSkill = "catholic_qa"

// Bounds of requests and tasks.
const (
	MaxBody      = 1 << 20                   // bytes of a POST
	MaxParts     = 64                        // of a message
	MaxID        = 256                       // bytes of a message or context id
	MaxRunning   = 64                        // calls that run at once
	MaxFlights   = 1024                      // messages under way; of others nothing is begun
	OwnRunning   = MaxRunning / 2            // of one user's calls
	OwnFlights   = MaxFlights / 4            // of one user's messages
	Kept         = 24 * time.Hour            // how long a task can be had again
	BodyDeadline = 20 * time.Second          // the arrival of a POST
	CallDeadline = coordinator.TaskDeadline  // one call
	ViewDeadline = coordinator.AdmitDeadline // reading the registry
	StoreTimeout = 10 * time.Second          // reading or keeping a task
	Grace        = coordinator.Aftermath     // how long past its deadline a call that had an effect may still answer
	PostDeadline = CallDeadline + Grace + 2*StoreTimeout + ViewDeadline + BodyDeadline
	SweepEvery   = time.Minute // how often ended tasks are forgotten
	SteadyFor    = time.Hour   // how long after a jump of the clock nothing is forgotten
	maxSweeps    = 20          // pages of one sweep
)

// SkillViewer tells what a session sees.
type SkillViewer interface {
	View(ctx context.Context, s world.Session) ([]*world.Descriptor, error)
}

// Invoker runs one call to its committed entry.
type Invoker interface {
	Invoke(ctx context.Context, c coordinator.Call) (coordinator.Result, error)
}

// Keeper keeps finished tasks, and knows of each call whether it was begun.
type Keeper interface {
	Kept(ctx context.Context, kind string, key world.Ref) (store.Kept, error)
	Keep(ctx context.Context, k store.Kept, replace bool) (store.Kept, error)
	SweepKept(ctx context.Context, ended time.Time, limit int) (int, error)
	Invocation(ctx context.Context, id world.InvocationID) (store.Invocation, error)
}

// Gate says whether a plan may use the endpoint.
type Gate func(plan string) bool

// Limiter takes one call out of a session's pool; wait is when there will be one if there
// is none now, in whole seconds.
type Limiter interface {
	Admit(s world.Session, class string) (wait time.Duration)
}

// Config is all that the surface needs. Every field but Challenge is required.
type Config struct {
	Users  surface.SessionResolver
	Gate   Gate
	Open   []string // the plans that Gate lets in, for the refusal of others
	Limits Limiter
	Skills SkillViewer
	Calls  Invoker
	Tasks  Keeper
	Now    func() time.Time
	// Logf writes one line to the operator.
	Logf func(format string, args ...any)
	// Challenge is what a 401's WWW-Authenticate adds to "Bearer", for example where the
	// metadata of the protected resource is; "" adds nothing.
	Challenge string
}

// Handler answers the endpoint.
type Handler struct {
	cfg  Config
	door surface.Door

	slots   chan struct{}
	mu      sync.Mutex
	flights map[world.Ref]*flight
	owners  map[string]*owner // of what is under way, by episode
	running sync.WaitGroup
	ctx     context.Context // ends the calls under way
	cancel  context.CancelFunc
}

// New makes the surface.
func New(cfg Config) *Handler {
	h := &Handler{
		cfg:     cfg,
		door:    surface.Door{Surface: world.SurfaceTasks, Sessions: cfg.Users, Logf: cfg.Logf},
		slots:   make(chan struct{}, MaxRunning),
		flights: make(map[world.Ref]*flight), owners: make(map[string]*owner),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Cancel ends the calls under way, as the ends of their deadlines would.
func (h *Handler) Cancel() { h.cancel() }

// Wait returns when no call is under way any more, or with ctx's error when that ends first.
// No request may come meanwhile.
func (h *Handler) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		h.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sweep forgets what is kept past its end until ctx ends, a bounded number of rows every
// SweepEvery. It is for the store as a whole: ended tokens and allowances go too. A clock
// that jumps ahead ends what it should not, so nothing is forgotten for SteadyFor after it did.
func (h *Handler) Sweep(ctx context.Context) {
	tick := time.NewTicker(SweepEvery)
	defer tick.Stop()
	for clock := h.newPace(); ; {
		if clock.steady() {
			if err := h.sweep(ctx); err != nil && ctx.Err() == nil {
				h.door.Log("sweep", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// pace tells whether the clock goes as fast as time does.
type pace struct {
	now        func() time.Time
	wall, mono time.Time // when it was last asked, by the clock and by time that never jumps
	until      time.Time // the clock jumped; it is not believed before this
}

func (h *Handler) newPace() *pace {
	return &pace{now: h.cfg.Now, wall: h.cfg.Now().Round(0), mono: time.Now()}
}

func (p *pace) steady() bool {
	wall, mono := p.now().Round(0), time.Now()
	if ahead := wall.Sub(p.wall) - mono.Sub(p.mono); ahead > SweepEvery {
		p.until = mono.Add(SteadyFor)
	}
	p.wall, p.mono = wall, mono
	return !mono.Before(p.until)
}

func (h *Handler) sweep(ctx context.Context) error {
	for range maxSweeps {
		n, err := h.cfg.Tasks.SweepKept(ctx, h.cfg.Now(), store.MaxPage)
		if err != nil || n < store.MaxPage {
			return err
		}
	}
	return nil
}
