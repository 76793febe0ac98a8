package tasks

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// ServeHTTP answers one request. Pages of any origin may call and read the answer, whatever
// it is: what a caller may do follows from the bearer token alone.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	AllowOrigins(w.Header())
	switch r.Method {
	case http.MethodPost:
		h.servePost(w, r)
	case http.MethodOptions:
		w.Header().Set("Allow", allowedMethods)
		w.Header().Set("Access-Control-Max-Age", "86400")
		surface.Reply{Status: http.StatusNoContent}.Write(w)
	default:
		reply := surface.RPCError(http.StatusMethodNotAllowed, "", errMethodNotPost)
		reply.Header = map[string]string{"Allow": allowedMethods}
		reply.Write(w)
	}
}

const allowedMethods = "POST, OPTIONS"

// AllowOrigins lets pages of any origin read an answer of the endpoint.
func AllowOrigins(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization")
	h.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate")
}

func (h *Handler) servePost(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), PostDeadline)
	defer cancel()
	surface.LimitReading(w, time.Now().Add(BodyDeadline))
	reply := h.post(ctx, w, r)
	if reply.Unread {
		surface.LimitReading(w, time.Now().Add(surface.UnreadGrace))
	}
	reply.Write(w)
}

// post makes the answer; whatever happens to it, there is one. Who is calling, and by which
// plan, is known before a byte of the body is read.
func (h *Handler) post(ctx context.Context, w http.ResponseWriter, r *http.Request) (reply surface.Reply) {
	var id surface.ID
	defer func() {
		if p := recover(); p != nil {
			h.door.Log("request", surface.Panicked(p))
			reply = refuse(id, errInternal)
		}
	}()
	session, err := h.door.Session(ctx, r)
	if err != nil {
		return h.deny(err).LeftUnread()
	}
	if !h.cfg.Gate(session.Plan) {
		return refuse("", planRequired(h.cfg.Open)).LeftUnread()
	}
	if kind, _, err := mime.ParseMediaType(strings.Join(r.Header.Values("Content-Type"), ", ")); err != nil || kind != surface.TypeJSON {
		return refuse("", errContentType).LeftUnread()
	}
	msg, refusal := h.read(w, r)
	if refusal != nil {
		return *refusal
	}
	id = msg.ID
	result, err := h.run(ctx, session, msg)
	if err == nil {
		return surface.JSON(http.StatusOK, surface.AppendResult(nil, id, result))
	}
	var rate limited
	if errors.As(err, &rate) {
		return surface.RateLimitedReply(id, rate.wait)
	}
	var told surface.Error
	if !errors.As(err, &told) {
		h.door.Log(msg.Method, err)
		told = errInternal
	}
	return refuse(id, told)
}

// read takes the one request out of the body.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (surface.Message, *surface.Reply) {
	bad := func(e surface.Error, ends bool) (surface.Message, *surface.Reply) {
		reply := refuse("", e)
		reply.Close = ends
		return surface.Message{}, &reply
	}
	body, err := surface.ReadBody(w, r, MaxBody)
	switch {
	case err == nil:
	case surface.KindOf(err) == world.KindTooLarge:
		return bad(errTooLarge, true)
	case surface.KindOf(err) == world.KindDeadline:
		return bad(errSlowBody, true)
	default:
		return bad(errBrokenBody, true)
	}
	msg, err := surface.ParseMessage(body)
	switch {
	case errors.Is(err, surface.ErrParse):
		return bad(errParse, false)
	case surface.IsArray(body):
		return bad(errBatch, false)
	case err != nil || msg.Kind == surface.Response:
		return bad(errEnvelope, false)
	case msg.Kind == surface.Notification:
		return bad(errNotification, false)
	}
	return msg, nil
}

// run is the table of methods.
func (h *Handler) run(ctx context.Context, s world.Session, msg surface.Message) ([]byte, error) {
	switch msg.Method {
	case "message/send":
		return h.send(ctx, s, msg.Params)
	case "tasks/get":
		return h.get(ctx, s, msg.Params)
	case "tasks/cancel":
		return h.cancelTask(ctx, s, msg.Params)
	}
	return nil, surface.Error{Code: surface.CodeMethodNotFound, Message: "Method not found: there are message/send, tasks/get and tasks/cancel"}
}

// deny answers a caller that is not known, or cannot be.
func (h *Handler) deny(err error) surface.Reply {
	kind := surface.KindOf(err)
	text, known := unauthorized[kind]
	if !known || surface.HasCause(err) {
		h.door.Log("credential", err)
	}
	if !known {
		return refuse("", errUnidentified)
	}
	reply := refuse("", surface.Error{Code: CodeUnauthorized, Message: "Unauthorized: " + text})
	challenge := []string{}
	if kind != world.KindSessionAbsent {
		challenge = append(challenge, `error="invalid_token"`)
	}
	if h.cfg.Challenge != "" {
		challenge = append(challenge, h.cfg.Challenge)
	}
	reply.Header = map[string]string{"WWW-Authenticate": strings.TrimSpace("Bearer " + strings.Join(challenge, ", "))}
	return reply
}
