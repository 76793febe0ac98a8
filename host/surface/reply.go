package surface

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"ailang.dev/world/host/world"
)

// WriteTimeout bounds the writing of one answer, so that a client that never reads holds
// a connection no longer than that.
const WriteTimeout = 30 * time.Second

// firstRead is how many bytes are set aside for a body before any of it has come.
const firstRead = 64 << 10

// Media types of answers.
const (
	TypeJSON = "application/json"
	TypeText = "text/plain; charset=utf-8"
	TypeSSE  = "text/event-stream"
)

// Reply is one whole answer. It is made before any of it is written, so that nothing a
// call holds is held while a slow client reads.
type Reply struct {
	Status int
	Type   string // "" for an answer without a body
	Body   []byte
	Header map[string]string // further headers
	Close  bool              // end the connection after it
	Unread bool              // given without the request's body; what is left of it is not waited for long
}

// LeftUnread is the reply, given before the body was read.
func (p Reply) LeftUnread() Reply {
	p.Unread = true
	return p
}

// Text is a reply of plain text.
func Text(status int, text string) Reply {
	return Reply{Status: status, Type: TypeText, Body: []byte(text)}
}

// JSON is a reply of JSON.
func JSON(status int, body []byte) Reply {
	return Reply{Status: status, Type: TypeJSON, Body: body}
}

// RPCError is a reply of one JSON-RPC error.
func RPCError(status int, id ID, e Error) Reply {
	return JSON(status, AppendError(nil, id, e))
}

// Write sends the reply within WriteTimeout.
func (p Reply) Write(w http.ResponseWriter) {
	// A recorder in a test has no connection, and so no deadline to set.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTimeout))
	h := w.Header()
	for name, value := range p.Header {
		h.Set(name, value)
	}
	if p.Type != "" {
		h.Set("Content-Type", p.Type)
		h.Set("X-Content-Type-Options", "nosniff")
	}
	if p.Close {
		h.Set("Connection", "close")
	}
	h.Set("Content-Length", strconv.Itoa(len(p.Body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.Body) // the client that is gone is told nothing
}

// LimitReading makes every read of the request fail from a moment on: also the reading of
// what a handler left unread.
func LimitReading(w http.ResponseWriter, until time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(until)
}

// ReadBody reads a body of at most max bytes and then lifts the limit of LimitReading. A
// larger body is KindTooLarge, one that did not come in time KindDeadline, one that broke
// off KindBadRequest.
func ReadBody(w http.ResponseWriter, r *http.Request, max int64) ([]byte, error) {
	const op = "surface.ReadBody"
	if r.ContentLength > max {
		return nil, world.Errorf(world.KindTooLarge, op, "the body is larger than %d bytes", max)
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, firstRead)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, max))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		LimitReading(w, time.Time{})
		return buf.Bytes(), nil
	case errors.As(err, &large):
		return nil, world.Errorf(world.KindTooLarge, op, "the body is larger than %d bytes", max)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, world.Wrap(world.KindDeadline, op, err)
	}
	return nil, world.Wrap(world.KindBadRequest, op, err)
}
