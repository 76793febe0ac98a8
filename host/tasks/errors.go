package tasks

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// The error codes of this dialect, beside those of JSON-RPC.
const (
	CodeTaskNotFound  = -32001
	CodeSkillNotFound = -32002
	CodeUnauthorized  = -32004
	CodePlanRequired  = -32005
)

var (
	errTaskNotFound  = surface.Error{Code: CodeTaskNotFound, Message: "Task not found"}
	errUncancelable  = surface.Error{Code: surface.CodeInvalidParams, Message: "Invalid state transition"}
	errParse         = surface.Error{Code: surface.CodeParse, Message: "Parse error: the body is not valid JSON"}
	errInternal      = surface.Error{Code: surface.CodeInternal, Message: "Internal error"}
	errUnidentified  = surface.Error{Code: surface.CodeInternal, Message: "Internal error: who is calling cannot be found out now; try again later"}
	errOtherContent  = invalidParams("this messageId was used for a message with other content")
	errNotification  = invalidRequest("id is missing: notifications are not answered here")
	errBatch         = invalidRequest("batches are not supported; send one request a POST")
	errContentType   = invalidRequest("Content-Type must be application/json")
	errEnvelope      = invalidRequest(`the body must be an object with jsonrpc "2.0", a method, and an id that is a string or an integer`)
	errResend        = surface.Error{Code: surface.CodeInternal, Message: "Internal error: whether the call was made is not known; send the same message again"}
	errNotRun        = surface.Error{Code: surface.CodeInternal, Message: "Internal error: the skill was not run; send the same message again"}
	errUnavailable   = surface.Error{Code: surface.CodeInternal, Message: "Internal error: the skill cannot be run in this daemon now"}
	errSlowBody      = invalidRequest("the body did not arrive in time")
	errBrokenBody    = invalidRequest("the body broke off")
	errTooLarge      = invalidRequest(fmt.Sprintf("the body is larger than %d bytes", MaxBody))
	errMethodNotPost = invalidRequest("the endpoint is called with POST")
)

func invalidRequest(text string) surface.Error {
	return surface.Error{Code: surface.CodeInvalidRequest, Message: "Invalid request: " + text}
}

func invalidParams(format string, args ...any) surface.Error {
	return surface.Error{Code: surface.CodeInvalidParams, Message: "Invalid params: " + fmt.Sprintf(format, args...)}
}

// builtInPlans are the plans that open the endpoint where the operator names none.
var builtInPlans = []string{"enterprise", "organization", "pro"}

// planRequired names the plans that open the endpoint.
func planRequired(plans []string) surface.Error {
	need := "one of the plans " + strings.Join(plans, ", ")
	switch {
	case slices.Equal(plans, builtInPlans):
		need = "a Pro, Organization or Enterprise plan"
	case len(plans) == 0:
		need = "a plan that opens it, and this daemon has none"
	}
	return surface.Error{Code: CodePlanRequired, Message: "Paid plan required: A2A needs " + need}
}

// maxEchoed bounds what a caller gets back of its own words, in bytes.
const maxEchoed = 256

func skillNotFound(id string) surface.Error {
	if len(id) > maxEchoed {
		id = strings.ToValidUTF8(id[:maxEchoed], "") + "…"
	}
	return surface.Error{Code: CodeSkillNotFound, Message: fmt.Sprintf("Skill not found: %q", id)}
}

// unauthorized is what a caller that is not known is told.
var unauthorized = map[world.Kind]string{
	world.KindSessionAbsent:  "send Authorization: Bearer <user token>",
	world.KindSessionBad:     "the Authorization header is not Bearer <user token>",
	world.KindSessionUnknown: "the token is not valid",
	world.KindSessionExpired: "the token has expired",
}

// statuses are the HTTP statuses of the errors that have one of their own.
var statuses = map[int]int{
	CodeUnauthorized: http.StatusUnauthorized,
	CodePlanRequired: http.StatusForbidden,
}

// refuse is the answer that an error is.
func refuse(id surface.ID, e surface.Error) surface.Reply {
	status, ok := statuses[e.Code]
	if !ok {
		status = http.StatusOK
	}
	return surface.RPCError(status, id, e)
}

// ending is what a failed call means: a failed task with a reason, or, where the skill has
// no part in it and the same message may yet succeed, an error.
type ending struct {
	failed string
	err    surface.Error
}

// endings says for every kind what the caller is told of a call that failed with it.
var endings = map[world.Kind]ending{
	world.KindInternal:     {err: errInternal},
	world.KindBadRequest:   {err: invalidParams("the arguments are past a bound")},
	world.KindNotFound:     {err: errUnavailable},
	world.KindTooLarge:     {err: errUnavailable},
	world.KindHeadConflict: {err: errNotRun},
	world.KindTimeout:      {err: errNotRun},
	world.KindUncertain:    {err: errResend},
	world.KindIndexMissing: {err: errUnavailable},

	world.KindSessionAbsent:  {err: errInternal}, // the caller was known
	world.KindSessionBad:     {err: errInternal},
	world.KindSessionUnknown: {err: errInternal},
	world.KindSessionExpired: {err: errInternal},

	world.KindNotAuthorized: {}, // skill not found, by its name
	world.KindPinMismatch:   {err: errInternal},
	world.KindTaskIDUsed:    {err: errOtherContent},
	world.KindNoWorld:       {err: errUnavailable},
	world.KindEngineMissing: {err: errUnavailable},
	world.KindNoHandler:     {err: errUnavailable},
	world.KindConvention:    {failed: "the skill broke its calling convention"},
	world.KindExecution:     {failed: "the skill raised an error, or went over its bounds of time, steps, memory or output"},
	world.KindBadOutput:     {failed: "the skill's output is not a JSON object"},
	world.KindDeadline:      {failed: fmt.Sprintf("the skill took longer than %v", CallDeadline)},
	world.KindCanceled:      {err: errResend},
	world.KindUnconfirmed:   {err: errResend},
	world.KindNotCommitted:  {err: errNotRun},
	world.KindCapacity: {err: surface.Error{Code: surface.CodeInternal, Message: "Internal error: too much is under way; send the same message again later",
		Data: jsontext.Value(`{"retryAfter":1}`)}},
	// What was done stands in the journal, and for ever under this message's id.
	world.KindEffectsUnrecorded: {failed: "effects were requested but the invocation was not confirmed committed; effect records:"},

	world.KindIntegrity: {err: errUnavailable},
	world.KindStoreFull: {err: errUnavailable},
	world.KindLocked:    {err: errUnavailable},
	world.KindSchema:    {err: errUnavailable},
}
