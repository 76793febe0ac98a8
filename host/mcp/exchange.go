package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// exchange is one POST of a known caller.
type exchange struct {
	h       *Handler
	ctx     context.Context
	session world.Session

	viewed bool
	seen   []*world.Descriptor // what the session sees, once viewed
	wait   time.Duration       // unless 0, why the last call was refused: its rate class had none left until then
}

// single answers a body that is one message.
func (x *exchange) single(body []byte) surface.Reply {
	msg, err := surface.ParseMessage(body)
	if errors.Is(err, surface.ErrParse) {
		return badParse()
	}
	if err != nil {
		return badEnvelope(err.Error())
	}
	if msg.Kind != surface.Request {
		return surface.Reply{Status: http.StatusAccepted}
	}
	answer, err := x.append(nil, msg)
	if err != nil {
		return x.h.fail(msg.ID, msg.Method, err)
	}
	if x.wait > 0 {
		return surface.RateLimitedReply(msg.ID, x.wait)
	}
	return event(answer)
}

// batch answers a body that is an array: its requests one after another, in one event.
// Nothing runs before every item was found good. A callback that fails ends it, and the
// answers before it are not told.
func (x *exchange) batch(body []byte) surface.Reply {
	items, err := surface.ParseBatch(body, MaxBatch)
	if errors.Is(err, surface.ErrParse) {
		return badParse()
	}
	if err != nil {
		return badEnvelope(fmt.Sprintf("a batch has 1 to %d messages", MaxBatch))
	}
	var requests []surface.Message
	for i, item := range items {
		msg, err := surface.ParseMessage(item)
		if err != nil {
			return badEnvelope(fmt.Sprintf("item %d of the batch: %v", i, err))
		}
		if msg.Kind == surface.Request {
			requests = append(requests, msg)
		}
	}
	if len(requests) == 0 {
		return surface.Reply{Status: http.StatusAccepted}
	}
	answers := []byte{'['}
	for i, msg := range requests {
		if i > 0 {
			answers = append(answers, ',')
		}
		if answers, err = x.append(answers, msg); err != nil {
			return x.h.fail("", msg.Method, err)
		}
	}
	return event(append(answers, ']'))
}

// append answers one request. Its error is a host callback that failed.
func (x *exchange) append(dst []byte, msg surface.Message) ([]byte, error) {
	if err := x.ctx.Err(); err != nil {
		return nil, err
	}
	result, err := x.run(msg)
	var refusal surface.Error
	switch {
	case errors.As(err, &refusal):
		dst = surface.AppendError(dst, msg.ID, refusal)
	case err != nil:
		return nil, err
	default:
		dst = surface.AppendResult(dst, msg.ID, result)
	}
	if len(dst) > MaxAnswer {
		return nil, world.Errorf(world.KindTooLarge, "mcp.append", "the answer is larger than %d bytes", MaxAnswer)
	}
	return dst, nil
}

// run is the table of methods. A surface.Error refuses this request alone; any other
// error is a host callback that failed.
func (x *exchange) run(msg surface.Message) ([]byte, error) {
	switch msg.Method {
	case "initialize":
		return x.h.initialize(msg.Params)
	case "ping":
		return ping(msg.Params)
	case "tools/list":
		return x.listTools(msg.Params)
	case "tools/call":
		return x.callTool(msg.Params)
	}
	return nil, surface.Error{Code: surface.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", msg.Method)}
}

// view is what the session sees, read once for the whole POST. A name that no client may
// be shown refuses all of it.
func (x *exchange) view() ([]*world.Descriptor, error) {
	if x.viewed {
		return x.seen, nil
	}
	ctx, cancel := context.WithTimeout(x.ctx, ViewDeadline)
	defer cancel()
	seen, err := surface.Within(ctx, 0, x.h.door.Late("view"), func(ctx context.Context) ([]*world.Descriptor, error) {
		return x.h.cfg.Tools.View(ctx, x.session)
	})
	if err != nil {
		return nil, err
	}
	for _, d := range seen {
		if n := registry.ToolNameLen(d.ID); n > registry.MaxToolName {
			return nil, &world.Error{
				Op: "mcp.view", Kind: world.KindBadRequest, Subject: d.ID,
				Msg:  fmt.Sprintf("its tool name has %d bytes, more than %d", n, registry.MaxToolName),
				Hint: "publish it under a shorter id, or grant this session less",
			}
		}
	}
	x.seen, x.viewed = seen, true
	return seen, nil
}
