package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

// Bounds of what is told of a failure, in bytes.
const (
	MaxMsg   = 1 << 10
	MaxCause = 4 << 10
)

// Op is what is asked for.
type Op byte

const (
	OpCheck Op = 1 // load the source
	OpRun   Op = 2 // load it, and call its main with the input
)

// Request is one operation. It crosses the pipe to a worker as it is.
type Request struct {
	Op     Op
	Source capsule.Source
	Input  []byte
}

// Machine does what a request asks for, in the process that it is in. A worker calls it
// from one goroutine, an engine's front from any.
type Machine interface {
	Handle(ctx context.Context, req Request) Result
}

// Status is how an operation ended.
type Status byte

const (
	OK         Status = iota
	Convention        // the source does not load
	Execution         // the run failed
	BadOutput         // main returned no text
	Stopped           // ctx ended; only within one process
)

// Result is the outcome of one operation. It crosses the pipe from a worker as it is.
type Result struct {
	Status Status
	Msg    string // of a source that does not load: for its author, at most MaxMsg
	Cause  string // of other failures: for stderr, at most MaxCause
	Out    []byte
	// What follows does not cross.
	Steps uint64 // that the run took
	died  bool   // the operation killed its worker
}

// Failed is a run that failed.
func Failed(format string, args ...any) Result {
	return Result{Status: Execution, Cause: Clip(fmt.Sprintf(format, args...), MaxCause)}
}

// Unloadable is a source that does not load; msg is for its author.
func Unloadable(msg string) Result { return Result{Status: Convention, Msg: Clip(msg, MaxMsg)} }

// Clip keeps the first max bytes of a text, and valid UTF-8.
func Clip(s string, max int) string {
	if len(s) > max {
		s = s[:max] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// asError is the result as the contract's error; nil if it is none. Only a check tells the
// client why a source does not load.
func (r Result) asError(op string, ref world.Ref, tell bool) error {
	e := &world.Error{Op: op, Subject: ref.String()}
	cause := r.Cause
	switch r.Status {
	case OK:
		return nil
	case Convention:
		e.Kind = world.KindConvention
		if tell {
			e.Msg = r.Msg
		} else {
			cause = r.Msg
		}
	case BadOutput:
		e.Kind = world.KindBadOutput
	default:
		e.Kind = world.KindExecution
	}
	if cause != "" {
		e.Err = errors.New(cause)
	}
	return e
}
