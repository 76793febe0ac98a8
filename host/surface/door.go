package surface

import (
	"context"
	"errors"
	"net/http"
	"time"

	"ailang.dev/world/host/world"
)

// CredentialDeadline bounds the finding of a session.
const CredentialDeadline = 3 * time.Second

// SessionResolver finds the session that the Authorization headers of a request name. Its
// refusals are the four session kinds, whose messages go to the caller as they are.
type SessionResolver interface {
	Resolve(ctx context.Context, authorization []string) (world.Session, error)
}

// UnreadGrace is how long an answer that needs no body waits for the rest of it, before the
// connection is ended instead.
const UnreadGrace = time.Second

// Door is how a request comes in, whatever it speaks: how long it may take, who it is
// from, and where the operator is told what its caller is not.
type Door struct {
	Surface  world.Surface
	Sessions SessionResolver
	// Logf writes one line to the operator.
	Logf func(format string, args ...any)
}

// Post answers a POST within a deadline, and any other method with 405. The deadline holds
// for the reading too; an answer that comes past it ends the connection.
func (d Door) Post(w http.ResponseWriter, r *http.Request, deadline time.Duration, answer func(context.Context) Reply) {
	if r.Method != http.MethodPost {
		NotAllowed(http.MethodPost).Write(w)
		return
	}
	until := time.Now().Add(deadline)
	ctx, cancel := context.WithDeadline(r.Context(), until)
	defer cancel()
	LimitReading(w, until)
	reply := answer(ctx)
	if reply.Unread {
		LimitReading(w, time.Now().Add(UnreadGrace))
	}
	reply.Close = reply.Close || errors.Is(ctx.Err(), context.DeadlineExceeded)
	reply.Write(w)
}

// Session is who a request is from, found within CredentialDeadline.
func (d Door) Session(ctx context.Context, r *http.Request) (world.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, CredentialDeadline)
	defer cancel()
	return Within(ctx, 0, d.Late("credential"), func(ctx context.Context) (world.Session, error) {
		return d.Sessions.Resolve(ctx, r.Header.Values("Authorization"))
	})
}

// Log tells the operator why something was refused.
func (d Door) Log(what string, err error) {
	d.Logf("%s", RefusalLine(d.Surface, what, err))
}

// Late is Log for what a call fails with that nobody waits for any more.
func (d Door) Late(what string) func(error) {
	return func(err error) { d.Log(what, err) }
}

// NotAllowed refuses a method; allow lists those that there are.
func NotAllowed(allow string) Reply {
	reply := Text(http.StatusMethodNotAllowed, "Method Not Allowed")
	reply.Header = map[string]string{"Allow": allow}
	return reply
}
