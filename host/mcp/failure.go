package mcp

import (
	"net/http"

	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// The four texts of a host callback that gave no answer. The cause is never among them.
const (
	msgFailed   = "host callback failed"
	msgTimedOut = "host callback timed out"
	msgCanceled = "host callback canceled"
	msgCapacity = "host callback capacity exceeded"
)

// failures says for every kind what the caller is told when a callback fails with it.
var failures = map[world.Kind]string{
	world.KindInternal:     msgFailed,
	world.KindBadRequest:   msgFailed,
	world.KindNotFound:     msgFailed,
	world.KindTooLarge:     msgFailed,
	world.KindHeadConflict: msgFailed,
	world.KindTimeout:      msgTimedOut,
	world.KindUncertain:    msgFailed,
	world.KindIndexMissing: msgFailed,

	world.KindSessionAbsent:  msgFailed,
	world.KindSessionBad:     msgFailed,
	world.KindSessionUnknown: msgFailed,
	world.KindSessionExpired: msgFailed,

	world.KindNotAuthorized:     msgFailed, // of an invocation it is an unknown tool instead
	world.KindPinMismatch:       msgFailed,
	world.KindTaskIDUsed:        msgFailed,
	world.KindNoWorld:           msgFailed,
	world.KindEngineMissing:     msgFailed,
	world.KindNoHandler:         msgFailed,
	world.KindConvention:        msgFailed,
	world.KindExecution:         msgFailed,
	world.KindBadOutput:         msgFailed,
	world.KindDeadline:          msgTimedOut,
	world.KindCanceled:          msgCanceled,
	world.KindUnconfirmed:       msgFailed,
	world.KindNotCommitted:      msgFailed,
	world.KindCapacity:          msgCapacity,
	world.KindEffectsUnrecorded: msgFailed,

	world.KindIntegrity: msgFailed,
	world.KindStoreFull: msgFailed,
	world.KindLocked:    msgFailed,
	world.KindSchema:    msgFailed,
}

// denials are the kinds that say who is calling is not known.
var denials = map[world.Kind]bool{
	world.KindSessionAbsent:  true,
	world.KindSessionBad:     true,
	world.KindSessionUnknown: true,
	world.KindSessionExpired: true,
}

// fail answers a whole POST with the fixed envelope, and tells the operator the cause.
func (h *Handler) fail(id surface.ID, what string, err error) surface.Reply {
	h.door.Log(what, err)
	text, ok := failures[surface.KindOf(err)]
	if !ok {
		text = msgFailed
	}
	reply := surface.RPCError(http.StatusOK, id, surface.Error{Code: surface.CodeInternal, Message: text})
	reply.Close = text == msgTimedOut
	return reply
}

// deny answers a request whose caller is not known.
func (h *Handler) deny(err error) surface.Reply {
	if surface.HasCause(err) {
		h.door.Log("credential", err)
	}
	reply := surface.Text(http.StatusUnauthorized, world.Message(err))
	if h.cfg.Challenge != "" {
		reply.Header = map[string]string{"WWW-Authenticate": h.cfg.Challenge}
	}
	return reply
}
