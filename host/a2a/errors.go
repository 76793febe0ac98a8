package a2a

import (
	"errors"
	"strings"

	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// Messages of refusals that are decided here.
const (
	msgInvalidRequest = "invalid JSON-RPC request"
	msgMethod         = "method not found"
	msgInvalidParams  = "invalid params"
	msgUnavailable    = "transition invocation is not available in this daemon"
	msgDeadline       = "invocation exceeded its deadline"
	msgUncertain      = "invocation outcome is not confirmed; resend the same task id"
	msgNotCommitted   = "invocation was not committed; send a new task id"
	msgUnrecorded     = "effects were requested but the invocation was not confirmed committed; effect records:"
)

var (
	errInvalidRequest = surface.Error{Code: surface.CodeInvalidRequest, Message: msgInvalidRequest}
	errMethod         = surface.Error{Code: surface.CodeMethodNotFound, Message: msgMethod}
	errInvalidParams  = surface.Error{Code: surface.CodeInvalidParams, Message: msgInvalidParams}
)

// codeSession is the code of a session that is absent, unknown or expired.
const codeSession = -32001

// outcome is a row of the table: what the wire says of a kind. A row without a message
// passes on the one that the error brings.
type outcome struct {
	code    int
	message string
}

// outcomes says for every kind what the caller is told. What tells a caller nothing he
// could act on is "not available": its cause stands on stderr.
var outcomes = map[world.Kind]outcome{
	world.KindInternal:   {surface.CodeInternal, msgUnavailable},
	world.KindBadRequest: {surface.CodeInvalidParams, msgInvalidParams},
	world.KindNotFound:   {surface.CodeInternal, msgUnavailable},
	world.KindTooLarge:   {surface.CodeInternal, msgUnavailable},
	world.KindHeadConflict: {surface.CodeInternal,
		"world head moved during invocation; not committed; send a new task id"},
	world.KindTimeout:      {surface.CodeInternal, msgDeadline},
	world.KindUncertain:    {surface.CodeInternal, msgUncertain},
	world.KindIndexMissing: {surface.CodeInternal, msgUnavailable},

	world.KindSessionAbsent:  {codeSession, ""},
	world.KindSessionBad:     {surface.CodeInvalidRequest, ""},
	world.KindSessionUnknown: {codeSession, ""},
	world.KindSessionExpired: {codeSession, ""},

	world.KindNotAuthorized: {surface.CodeInvalidParams, "not authorized"},
	world.KindPinMismatch:   {surface.CodeInvalidParams, "proposal does not match the registered transition"},
	world.KindTaskIDUsed:    {surface.CodeInvalidParams, "task id already used in this session"},
	world.KindNoWorld:       {surface.CodeInternal, "no world is selected; commit a genesis world first"},
	world.KindEngineMissing: {surface.CodeInternal, msgUnavailable},
	world.KindNoHandler: {surface.CodeInternal,
		"transition declares an effect this daemon has no handler for"},
	world.KindConvention: {surface.CodeInternal,
		"transition does not implement the invocation calling convention"},
	world.KindExecution: {surface.CodeInternal, "transition execution failed"},
	world.KindBadOutput: {surface.CodeInternal, "transition output is not a JSON object"},
	world.KindDeadline:  {surface.CodeInternal, msgDeadline},
	// Nobody is left to read it; resending reconciles, whatever had been reached.
	world.KindCanceled:     {surface.CodeInternal, msgUncertain},
	world.KindUnconfirmed:  {surface.CodeInternal, msgUncertain},
	world.KindNotCommitted: {surface.CodeInternal, msgNotCommitted},
	// The call was turned away before anything ran.
	world.KindCapacity:          {surface.CodeInternal, msgNotCommitted},
	world.KindEffectsUnrecorded: {surface.CodeInternal, msgUnrecorded},

	world.KindIntegrity: {surface.CodeInternal, msgUnavailable},
	world.KindStoreFull: {surface.CodeInternal, msgUnavailable},
	world.KindLocked:    {surface.CodeInternal, msgUnavailable},
	world.KindSchema:    {surface.CodeInternal, msgUnavailable},
}

// rpcError is what the wire says of an error.
func rpcError(err error) surface.Error {
	kind := surface.KindOf(err)
	row, ok := outcomes[kind]
	if !ok {
		row = outcomes[world.KindInternal]
	}
	e := surface.Error{Code: row.code, Message: row.message}
	if e.Message == "" {
		e.Message = world.Message(err)
	}
	if kind == world.KindEffectsUnrecorded {
		e.Message = unrecorded(err)
	}
	return e
}

// unrecorded names the effect records of a call that is no entry, and not its cause.
func unrecorded(err error) string {
	var e *world.EffectsUnrecordedError
	if !errors.As(err, &e) {
		return msgUnrecorded
	}
	var b strings.Builder
	b.WriteString(msgUnrecorded)
	for _, ref := range e.Refs {
		b.WriteByte(' ')
		b.WriteString(ref.String())
	}
	return b.String()
}

// timedOut tells whether the answer to err also ends the connection.
func timedOut(err error) bool {
	kind := surface.KindOf(err)
	return kind == world.KindDeadline || kind == world.KindTimeout
}
