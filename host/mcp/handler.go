package mcp

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// Handler answers POST /mcp/.
type Handler struct {
	cfg   Config
	door  surface.Door
	slots chan struct{}
	// waiting are calls that wait for a slot.
	waiting atomic.Int64
	tools   toolCache
}

// New makes the surface.
func New(cfg Config) *Handler {
	return &Handler{
		cfg:   cfg,
		door:  surface.Door{Surface: world.SurfaceMCP, Sessions: cfg.Sessions, Logf: cfg.Logf},
		slots: make(chan struct{}, Slots),
	}
}

// ServeHTTP answers one POST. Who is calling is asked before anything else of the request
// is looked at.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.door.Post(w, r, PostDeadline, func(ctx context.Context) surface.Reply { return h.post(ctx, w, r) })
}

// post makes the answer; whatever happens to it, there is one.
func (h *Handler) post(ctx context.Context, w http.ResponseWriter, r *http.Request) (reply surface.Reply) {
	defer func() {
		if p := recover(); p != nil {
			reply = h.fail("", "request", surface.Panicked(p))
		}
	}()
	session, err := h.door.Session(ctx, r)
	if denials[surface.KindOf(err)] {
		return h.deny(err).LeftUnread()
	}
	if err != nil {
		return h.fail("", "credential", err).LeftUnread()
	}
	version, refusal := checkHeaders(r.Header)
	if refusal != nil {
		return refusal.LeftUnread()
	}
	body, err := surface.ReadBody(w, r, MaxBody)
	if err != nil {
		return h.unread(err)
	}
	x := &exchange{h: h, ctx: ctx, session: session}
	if !surface.IsArray(body) {
		return x.single(body)
	}
	if version != versionBatch {
		return badEnvelope("batches are accepted only under protocol version " + versionBatch)
	}
	return x.batch(body)
}

// unread answers a body that could not be had.
func (h *Handler) unread(err error) surface.Reply {
	switch surface.KindOf(err) {
	case world.KindDeadline:
		return h.fail("", "body", err)
	case world.KindTooLarge:
		return surface.RPCError(http.StatusRequestEntityTooLarge, "",
			surface.Error{Code: surface.CodeInvalidRequest, Message: "invalid request: " + world.Message(err)})
	}
	return badParse()
}

func badParse() surface.Reply {
	return surface.RPCError(http.StatusBadRequest, "", surface.Error{Code: surface.CodeParse, Message: "parse error"})
}

func badEnvelope(why string) surface.Reply {
	return surface.RPCError(http.StatusBadRequest, "", surface.Error{Code: surface.CodeInvalidRequest, Message: "invalid request: " + why})
}

// room is KindCapacity where so many wait for a slot that one more is not begun. It is asked
// before a call waits for its episode: to be turned away after that would be late.
func (h *Handler) room() error {
	if h.waiting.Load() >= MaxWaiting {
		return world.Errorf(world.KindCapacity, "mcp.room", "%d calls wait for a slot", MaxWaiting)
	}
	return nil
}

// slot takes one of the slots, or waits for one as long as ctx allows, unless MaxQueue wait.
func (h *Handler) slot(ctx context.Context) (release func(), err error) {
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > MaxQueue {
		return nil, world.Errorf(world.KindCapacity, "mcp.slot", "%d calls wait for a slot", MaxQueue)
	}
	select {
	case h.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-h.slots }), nil
	case <-ctx.Done():
		return nil, world.Wrap(world.KindCapacity, "mcp.slot", ctx.Err())
	}
}
