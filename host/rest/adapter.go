package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/world"
)

// answer is how one kind looks on this wire. A fixed text is told whatever the error
// says; else text stands in where the error has nothing for the client.
type answer struct {
	status int
	class  string
	text   string
	fixed  bool
}

const internalText = "internal store failure"

// answerTo is the one table from kinds to the wire. Kinds that only other surfaces know
// are Internal here: meeting one is a fault of ours.
func answerTo(k world.Kind) answer {
	switch k {
	case world.KindBadRequest, world.KindTaskIDUsed:
		return answer{http.StatusBadRequest, "BadRequest", "malformed request", false}
	case world.KindSessionBad:
		return answer{http.StatusBadRequest, "InvalidSession", "malformed Authorization header", false}
	case world.KindSessionAbsent:
		return answer{http.StatusUnauthorized, "SessionAbsent", "session credential is absent", false}
	case world.KindSessionUnknown:
		return answer{http.StatusUnauthorized, "SessionUnknown", "unknown session credential", false}
	case world.KindSessionExpired:
		return answer{http.StatusUnauthorized, "SessionExpired", "session credential has expired", false}
	case world.KindNotFound:
		return answer{http.StatusNotFound, "NotFound", "not found", false}
	case world.KindNoWorld:
		return answer{http.StatusNotFound, "NotFound", noHeadText, true}
	case world.KindHeadConflict:
		return answer{http.StatusConflict, "HeadConflict", "observedHead is not the selected head", true}
	case world.KindTooLarge:
		return answer{http.StatusRequestEntityTooLarge, "PayloadTooLarge", "the request is too large", false}
	case world.KindTimeout:
		return answer{http.StatusServiceUnavailable, "Timeout", "the deadline ended before anything was done", false}
	case world.KindUncertain:
		return answer{http.StatusServiceUnavailable, "CommitUncertain", "the outcome of the commit is unknown; reconcile before resending", false}
	case world.KindIndexMissing:
		return answer{http.StatusServiceUnavailable, "LookupIndexUnavailable", "the semantic id index is absent or incompatible", true}
	}
	return answer{http.StatusInternalServerError, "Internal", internalText, true}
}

// kindOf is world.KindOf for this surface: a bare HeadConflictError and a bare end of a
// context have a kind too.
func kindOf(err error) world.Kind {
	var hc *world.HeadConflictError
	if errors.As(err, &hc) {
		return world.KindHeadConflict
	}
	k := world.KindOf(err)
	if k == world.KindInternal && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return world.KindTimeout
	}
	return k
}

// failure is the error envelope.
type failure struct {
	Error failureBody `json:"error"`
}

type failureBody struct {
	Class        string     `json:"class"`
	Message      string     `json:"message"`
	ObservedHead *world.Ref `json:"observedHead,omitzero"`
	SelectedHead *world.Ref `json:"selectedHead,omitzero"`
}

// Adapt makes a handler of a route: it asks for the route's right, runs it, and turns what
// it returns, a panic included, into the error envelope.
func (a *API) Adapt(rt Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if err := a.run(rt, w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

func (a *API) run(rt Route, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := a.boundBody(w, r); err != nil {
		return err
	}
	if rt.Right != Open {
		if err := a.admit(r); err != nil {
			return err
		}
	}
	return rt.Handle(w, r)
}

// boundBody makes what comes of the request's body come within its time, also what no
// handler reads: the server reads that before it lets an answer go. A writer that cannot
// do so is refused, not served unbounded.
func (a *API) boundBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.cfg.Limits.Body)); err != nil {
		return fmt.Errorf("bounding the body's arrival: %w", err)
	}
	return nil
}

// admit demands a live session.
func (a *API) admit(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Limits.Credential)
	defer cancel()
	_, err := a.cfg.Resolve(ctx, r.Header.Values("Authorization"))
	if err != nil && kindOf(err) == world.KindTimeout {
		return &world.Error{Op: "rest.admit", Kind: world.KindTimeout, Msg: credentialTimeoutText, Err: err}
	}
	return err
}

const credentialTimeoutText = "the credential lookup ran out of time; nothing was done"

// fail writes the error envelope, and tells the log what the client is not told.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	ans := answerTo(kindOf(err))
	// A caller that hangs up in mid-read is no event; all else that is our side's is.
	hungUp := ans.class == "Timeout" && r.Context().Err() != nil
	if ans.status >= http.StatusInternalServerError && !hungUp {
		a.cfg.Logf("rest: %s %s: %s: %v", r.Method, r.URL.EscapedPath(), ans.class, err)
	}
	body := failureBody{Class: ans.class, Message: ans.text}
	if msg := world.Message(err); msg != "" && !ans.fixed {
		body.Message = msg
	}
	var hc *world.HeadConflictError
	if errors.As(err, &hc) {
		body.ObservedHead, body.SelectedHead = &hc.Observed, &hc.Selected
	}
	if err := a.writeJSON(w, ans.status, failure{body}); err != nil {
		a.cfg.Logf("rest: %s %s: writing the error: %v", r.Method, r.URL.EscapedPath(), err)
	}
}

// writeJSON writes one value compactly, without a trailing newline. An error means that
// nothing was written. A caller that went away is none: there is nobody to tell.
func (a *API) writeJSON(w http.ResponseWriter, status int, v any) error {
	// Text of outside programs (an interpreter's version) may hold bytes that are no UTF-8;
	// they become U+FFFD instead of failing the answer.
	body, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	a.writeBody(w, status, "application/json", body)
	return nil
}

// writeBody gives a whole answer to a client that must take it within its time.
func (a *API) writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	// A recorder has no connection, and nothing to wait for.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(a.cfg.Limits.Write))
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
