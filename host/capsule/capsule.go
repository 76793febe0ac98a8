// Package capsule is the contract of pure code: an Engine runs one pinned source with no
// capability at all, no clock, no randomness, no files, no network, no environment, so
// that the same source and input give the same bytes for ever. Engines live in subfolders
// and pass the one suite in capsuletest. Nothing here knows stores, sessions or effects.
// Answers spec/04-capsule.md.
package capsule

import (
	"context"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of one run.
const (
	PhaseTimeout = 2 * time.Second // wall time of one pure phase; it kills, it never decides a result
	MaxSource    = 1 << 20         // bytes of a source
	MaxInput     = 9 << 20         // bytes of an input text: arguments, an effect's output, and what frames them
	MaxOutput    = 4 << 20         // bytes of an output text
)

// Source is a transition's text under its hash.
type Source struct {
	Ref  world.Ref
	Text []byte
}

// NewSource addresses a text.
func NewSource(text []byte) Source { return Source{Ref: hashref.Sum(text), Text: text} }

// Identity is what a replay depends on.
type Identity struct {
	Name    string    // "starlark"
	Ref     world.Ref // what descriptors and entries pin
	Version string    // for people
	// Object is the engine object that Ref addresses; its zero value for engines that are
	// identified by an archived binary.
	Object world.Object
}

// Engine runs sources of one language. Methods may be called from any goroutine.
//
// Errors are *world.Error of three kinds: KindConvention, the source does not load, or its
// main is missing or of the wrong shape; KindExecution, the run failed: the program erred,
// or went over its steps, time, memory or output; KindBadOutput, main returned no text.
// An engine whose interpreter is a file that cannot be used any more is KindEngineMissing.
// A context that ends is KindDeadline or KindCanceled. Causes are for stderr.
type Engine interface {
	Identity() Identity
	// Extension is the ending of this engine's source files, with its dot; "" if it runs
	// what was published for it and takes nothing new.
	Extension() string
	// Check tells whether a source could be published. It runs no main.
	Check(ctx context.Context, src Source) error
	// Run calls main with input and gives the text it returned.
	Run(ctx context.Context, src Source, input []byte) ([]byte, error)
	// Close ends what the engine keeps running.
	Close() error
}

// Preparer is an Engine that stores sources in another form than their authors write.
type Preparer interface {
	// Prepare gives the text to be stored. What it gave it gives back unchanged. A text that
	// it cannot take is KindConvention, with a message for the author.
	Prepare(text []byte) ([]byte, error)
}

// RunObject runs a source and canonicalises what it returned, which must be a JSON object
// within the laws of canonical JSON; anything else is KindBadOutput. A run past PhaseTimeout
// is KindExecution.
func RunObject(ctx context.Context, e Engine, src Source, input []byte) ([]byte, error) {
	phase, cancel := context.WithTimeout(ctx, PhaseTimeout)
	defer cancel()
	raw, err := e.Run(phase, src, input)
	if err != nil {
		if phase.Err() != nil && ctx.Err() == nil {
			return nil, &world.Error{Op: "capsule.RunObject", Kind: world.KindExecution, Subject: src.Ref.String(), Err: err}
		}
		return nil, err
	}
	out, err := hashref.CanonicalObject(raw)
	if err != nil {
		return nil, &world.Error{Op: "capsule.RunObject", Kind: world.KindBadOutput, Subject: src.Ref.String(), Err: err}
	}
	return out, nil
}

// Set is the engines of one daemon.
type Set []Engine

// ByRef is the engine that an identity pins, or nil.
func (s Set) ByRef(ref world.Ref) Engine {
	for _, e := range s {
		if e.Identity().Ref == ref {
			return e
		}
	}
	return nil
}

// ByExtension is the engine for a file's ending, or nil: the first, so that of several
// interpreters of one language the current one is put first.
func (s Set) ByExtension(ext string) Engine {
	for _, e := range s {
		if ext != "" && e.Extension() == ext {
			return e
		}
	}
	return nil
}

// Close closes every engine; the first error is returned.
func (s Set) Close() error {
	var first error
	for _, e := range s {
		if err := e.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
