package workbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"ailang.dev/world/host/world"
)

// policy lets a page load its style sheet and icon, and send its search form, and nothing
// else: no script, no frame, nothing from elsewhere.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// request is one reading of a page.
type request struct {
	*http.Request
	ctx   context.Context
	query query
}

// page is what a handler answers: the template that shows data, or where to go instead.
type page struct {
	title    string
	nav      string // the place in the menu
	template string
	data     any
	redirect string // "" is none
	note     string // at its foot; "" is none
}

// serve makes a handler of a page. Who is asking comes first, then the parameters.
func (p *Pages) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		pg, err := p.make(w, r, rt)
		status := http.StatusOK
		if err != nil {
			pg, status = p.failure(r, err)
		}
		p.write(w, r, pg, status)
	})
}

func headers(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func (p *Pages) make(w http.ResponseWriter, r *http.Request, rt route) (pg *page, err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			panic(v)
		default:
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	if r.ContentLength != 0 {
		// A recorder has no connection, and nothing to wait for.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(BodyTimeout))
	}
	if p.cfg.PrivateReads {
		if err := p.admit(r); err != nil {
			return nil, err
		}
	}
	q, err := parseQuery(r, rt.params)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), ReadTimeout)
	defer cancel()
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, &world.Error{Op: "workbench", Kind: world.KindTimeout, Msg: "too many pages are being made; try again", Err: ctx.Err()}
	}
	pg, err = rt.handle(p, &request{Request: r, ctx: ctx, query: q})
	if err == nil && p.cfg.Note != nil {
		pg.note = p.cfg.Note(ctx)
	}
	return pg, err
}

// browserLogin makes a browser ask for a name, which may be any, and for a password, which is
// the session's credential.
const browserLogin = `Basic realm="world: any name, and a session as the password", charset="UTF-8"`

// admit demands a live session, named as for every other route or as a browser names it.
func (p *Pages) admit(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), CredentialTimeout)
	defer cancel()
	lines := r.Header.Values("Authorization")
	_, password, basic := r.BasicAuth()
	if basic && len(lines) == 1 {
		lines = []string{"Bearer " + strings.TrimSpace(password)}
	}
	_, err := p.cfg.Resolve(ctx, lines)
	if basic && world.KindOf(err) == world.KindSessionBad {
		// The browser asks again after a 401 alone.
		return &world.Error{Op: "workbench.admit", Kind: world.KindSessionUnknown, Msg: "the password must be the 64 hex digits of a session", Err: err}
	}
	return err
}

// write gives a whole page to a client that must take it within its time.
func (p *Pages) write(w http.ResponseWriter, r *http.Request, pg *page, status int) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTimeout))
	if pg.redirect != "" {
		w.Header().Set("Location", pg.redirect)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	var b bytes.Buffer
	if err := render(&b, pg); err != nil {
		p.cfg.Logf("workbench: %s %s: %v", r.Method, r.URL.EscapedPath(), err)
		pg, status = internal(), http.StatusInternalServerError
		b.Reset()
		if err := render(&b, pg); err != nil {
			b.Reset()
		}
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", browserLogin)
	}
	body := inertPage(b.Bytes())
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// file serves bytes that change with the binary alone; their name holds their hash.
func file(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		headers(h)
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})
}

// refusal is the data of an error's page.
type refusal struct {
	Status  int
	Class   string
	Message string
	Do      string // what to do now
	Command string // that does it; "" if none does
}

// failure is the page of an error. What is our side's is told the log.
func (p *Pages) failure(r *http.Request, err error) (*page, int) {
	f := explain(err)
	if f.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		p.cfg.Logf("workbench: %s %s: %s: %v", r.Method, r.URL.EscapedPath(), f.Class, err)
	}
	return &page{title: f.Class, template: "refusal", data: f}, f.Status
}

func internal() *page {
	return &page{title: "Internal", template: "refusal", data: explain(errors.New("internal"))}
}

// explain is the one table from kinds to pages.
func explain(err error) refusal {
	msg := world.Message(err)
	or := func(text string) string {
		if msg != "" {
			return msg
		}
		return text
	}
	kind := world.KindOf(err)
	if kind == world.KindInternal && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		kind = world.KindTimeout
	}
	const withSession = `curl -H "Authorization: Bearer $WORLD_SESSION" http://127.0.0.1:7644/workbench`
	switch kind {
	case world.KindBadRequest:
		return refusal{400, "BadRequest", or("malformed request"), "Correct the address, or begin again at the timeline.", ""}
	case world.KindSessionBad:
		return refusal{400, "InvalidSession", or("malformed Authorization header"), "Send one line: Authorization: Bearer and the 64 hex digits of a session.", withSession}
	case world.KindSessionAbsent:
		return refusal{401, "SessionAbsent", or("session credential is absent"), "This daemon was started with --private-reads: its pages need a live session.", withSession}
	case world.KindSessionUnknown:
		return refusal{401, "SessionUnknown", or("unknown session credential"), "It was never minted here, or it was revoked. Use another session, or mint one.", withSession}
	case world.KindSessionExpired:
		return refusal{401, "SessionExpired", or("session credential has expired"), "Its time is over. Mint another one.", withSession}
	case world.KindNotFound:
		if msg == "object not found" {
			return refusal{404, "NotFound", msg, "A hash that stands in a payload need not be that of an object: it may be the digest of something that is kept elsewhere, or nowhere.", ""}
		}
		return refusal{404, "NotFound", or("not found"), "It is well formed, but this store does not have it. Look at the timeline, or search.", ""}
	case world.KindNoWorld:
		return refusal{404, "NotFound", "no world head has been selected yet", "The store is empty. Its first entry is the genesis.", "ailang-worldd genesis --db FILE"}
	case world.KindTimeout:
		return refusal{503, "Timeout", or("the deadline ended before the page was made"), "Nothing was changed. Load the page again.", ""}
	case world.KindIndexMissing:
		return refusal{503, "LookupIndexUnavailable", "an index of the store is absent or incompatible", "Stop the daemon, and rebuild its indexes from the log.", "ailang-worldd store reindex --db FILE"}
	case world.KindIntegrity:
		// The pages are for operators, and what is damaged is what they must know.
		return refusal{500, "Integrity", "a stored row does not prove itself: " + err.Error(), "Stop the daemon, keep a copy of the store as it is, and restore it from a backup.", ""}
	}
	return refusal{500, "Internal", "internal store failure", "The cause is on the daemon's stderr.", ""}
}
