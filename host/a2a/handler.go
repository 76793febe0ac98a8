package a2a

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// method is the one that this dialect has.
const method = "tasks/send"

// Handler answers POST /a2a/ and the agent card.
type Handler struct {
	cfg   Config
	door  surface.Door
	slots chan struct{}
}

// New makes the surface.
func New(cfg Config) *Handler {
	return &Handler{
		cfg:   cfg,
		door:  surface.Door{Surface: world.SurfaceA2A, Sessions: cfg.Sessions, Logf: cfg.Logf},
		slots: make(chan struct{}, MaxCalls),
	}
}

// ServeHTTP answers POST /a2a/: one JSON-RPC request, always with HTTP 200. The caller is
// known before a byte of the body is read.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.door.Post(w, r, PostDeadline, func(ctx context.Context) surface.Reply { return h.post(ctx, w, r) })
}

// post makes the answer; whatever happens to it, there is one.
func (h *Handler) post(ctx context.Context, w http.ResponseWriter, r *http.Request) (reply surface.Reply) {
	var id surface.ID
	defer func() {
		if p := recover(); p != nil {
			reply = h.refuse(id, "request", surface.Panicked(p))
		}
	}()
	session, err := h.door.Session(ctx, r)
	if err != nil {
		return h.refuse("", "credential", err).LeftUnread()
	}
	body, err := surface.ReadBody(w, r, MaxBody)
	if err != nil && timedOut(err) {
		return h.refuse("", "body", err)
	}
	if err != nil {
		return surface.RPCError(http.StatusOK, "", errInvalidRequest)
	}
	msg, err := surface.ParseMessage(body)
	if err != nil || msg.Kind != surface.Request {
		return surface.RPCError(http.StatusOK, "", errInvalidRequest)
	}
	id = msg.ID
	if msg.Method != method {
		return surface.RPCError(http.StatusOK, id, errMethod)
	}
	s, err := parseSend(msg.Params)
	if err != nil {
		return surface.RPCError(http.StatusOK, id, errInvalidParams)
	}
	return h.send(ctx, session, id, s)
}

// send runs the call. Its deadline is the request's.
func (h *Handler) send(ctx context.Context, session world.Session, id surface.ID, s send) surface.Reply {
	what := s.skill + " " + s.task
	res, err := surface.Within(ctx, Grace, h.door.Late(what), func(ctx context.Context) (coordinator.Result, error) {
		return h.cfg.Calls.Invoke(ctx, coordinator.Call{
			Surface: world.SurfaceA2A,
			Session: session,
			Skill:   s.skill,
			Pin:     s.pin,
			Task:    s.task,
			Args:    s.args,
			Slot:    h.slot,
		})
	})
	if err != nil {
		return h.refuse(id, what, err)
	}
	return surface.JSON(http.StatusOK, surface.AppendResult(nil, id, appendTask(nil, s.task, res)))
}

// appendTask writes the completed task that a committed call is.
func appendTask(dst []byte, task string, res coordinator.Result) []byte {
	dst = append(dst, `{"id":`...)
	dst = surface.AppendString(dst, task)
	dst = append(dst, `,"status":{"state":"completed"},"artifacts":[{"parts":[{"type":"data","data":`...)
	dst = append(dst, res.Output...)
	dst = append(dst, `}]}],"metadata":{"invocation_id":`...)
	dst = surface.AppendString(dst, string(res.Invocation))
	dst = append(dst, `,"world_ref":`...)
	dst = surface.AppendString(dst, res.World.String())
	dst = append(dst, `,"entry_index":`...)
	dst = strconv.AppendInt(dst, res.Entry, 10)
	return append(dst, "}}"...)
}

// refuse answers an error, and tells the operator what the caller is not told.
func (h *Handler) refuse(id surface.ID, what string, err error) surface.Reply {
	e := rpcError(err)
	if surface.HasCause(err) || e.Message == msgUnavailable {
		h.door.Log(what, err)
	}
	reply := surface.RPCError(http.StatusOK, id, e)
	reply.Close = timedOut(err)
	return reply
}

// slot is for one of the calls that run at once. It is asked for after it is known that the
// task is none that ran before, so that a refusal can say that nothing was committed.
func (h *Handler) slot(context.Context) (release func(), err error) {
	select {
	case h.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-h.slots }), nil
	default:
		return nil, world.Errorf(world.KindCapacity, "a2a.slot", "%d calls run already", MaxCalls)
	}
}
