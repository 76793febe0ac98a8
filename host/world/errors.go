package world

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is why something was refused or failed. Each surface maps kinds to its wire once.
// The list is closed and only ever grows at its end.
type Kind int

// The kinds.
const (
	KindInternal Kind = iota // anything unmapped: the client learns nothing of it

	KindBadRequest     // the input is malformed; the message says what
	KindNotFound       // well formed, but not there
	KindTooLarge       // over a named bound
	KindHeadConflict   // the observed head is not the selected one
	KindTimeout        // a wait ended before anything was done
	KindUncertain      // a wait ended while it was being done
	KindIndexMissing   // a derived index cannot be used now
	KindSessionAbsent  // no credential
	KindSessionBad     // a header that is no credential
	KindSessionUnknown // no such session, or revoked
	KindSessionExpired // past its end

	KindNotAuthorized     // unknown to, or not visible to, this session
	KindPinMismatch       // transition_fn is not what is registered
	KindTaskIDUsed        // the task id stands for another call, or for one in flight
	KindNoWorld           // nothing was committed yet
	KindEngineMissing     // no engine of this daemon runs that interpreter
	KindNoHandler         // a declared effect has no handler here (rule R8)
	KindConvention        // the transition does not keep the calling convention
	KindExecution         // the capsule's run failed
	KindBadOutput         // the output is no JSON object within the laws
	KindDeadline          // the call's deadline ended
	KindCanceled          // the caller went away
	KindUnconfirmed       // whether the call was committed is not known
	KindNotCommitted      // the call is known not to be committed
	KindCapacity          // every slot is busy, or too many wait
	KindEffectsUnrecorded // effects ran, but no entry was committed

	KindIntegrity // a stored row does not prove itself
	KindStoreFull // the disk, or a bound of the store
	KindLocked    // another process holds the store
	KindSchema    // the store's file is of another format or version

	kindEnd
)

// Kinds lists every kind, for the tests that walk the surfaces' tables.
func Kinds() []Kind {
	var all []Kind
	for k := KindInternal; k < kindEnd; k++ {
		all = append(all, k)
	}
	return all
}

// Error is the one error struct. Msg may be shown to the client; Err is the cause and
// goes to stderr only.
type Error struct {
	Op      string // what was being done: "store.Append"
	Kind    Kind
	Subject string // what it was about: a ref, a path, an id
	Msg     string // for the client, complete in itself; "" if there is nothing to tell
	Hint    string // for the operator: what to do next
	Err     error
}

func (e *Error) Error() string {
	var parts []string
	for _, p := range []string{e.Op, e.Subject, e.Msg} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	s := strings.Join(parts, ": ")
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error whose message is for the client.
func Errorf(kind Kind, op, format string, args ...any) *Error {
	return &Error{Op: op, Kind: kind, Msg: fmt.Sprintf(format, args...)}
}

// Wrap gives a cause a kind.
func Wrap(kind Kind, op string, err error) *Error { return &Error{Op: op, Kind: kind, Err: err} }

// KindOf is the kind of the outermost Error in err's chain; KindInternal without one.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

// Message is what a client may be told of err: the first Msg in its chain, or "".
func Message(err error) string {
	var e *Error
	for errors.As(err, &e) {
		if e.Msg != "" {
			return e.Msg
		}
		err = e.Err
	}
	return ""
}

// HeadConflictError carries both heads of a stale commit.
type HeadConflictError struct {
	Observed, Selected Ref
}

func (e *HeadConflictError) Error() string {
	return fmt.Sprintf("observed head %q is not the selected head %q", e.Observed, e.Selected)
}

// EffectsUnrecordedError says that effects ran and were recorded, but the call that
// planned them is no entry. Refs are their effect records in order; an effect whose
// outcome is unknown is named by its effect request.
type EffectsUnrecordedError struct {
	Refs  []Ref
	Cause error
}

func (e *EffectsUnrecordedError) Error() string {
	refs := make([]string, len(e.Refs))
	for i, r := range e.Refs {
		refs[i] = r.String()
	}
	s := "effects were requested but the invocation was not confirmed committed; effect records: " + strings.Join(refs, " ")
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *EffectsUnrecordedError) Unwrap() error { return e.Cause }
