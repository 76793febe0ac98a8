// Package capsuletest is the one suite that every capsule.Engine passes: purity, the
// bounds, the kinds of its errors, and that nothing a source does harms the process it is
// called from. An engine's own test is a table of sources, one a purpose, and a function
// that makes an engine. It never looks inside an engine. Answers spec/04-capsule.md.
package capsuletest

import (
	"context"
	"errors"
	"testing"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/world"
)

// Bounds that the suite holds engines to.
const (
	// MaxGrowth is how many bytes the calling process may grow by while a source asks for
	// gigabytes.
	MaxGrowth = 64 << 20
	// Prompt is how long after the end of its context, or of its engine, a run may take.
	Prompt = 3 * time.Second
	// Patience is the deadline of runs that are expected to end by themselves.
	Patience = 60 * time.Second
)

// Program is a source and what it is given.
type Program struct {
	Source []byte
	Input  string // "" is {}
}

// Text is a program whose source is a text, on the input {}.
func Text(source string) Program { return Program{Source: []byte(source)} }

func (p Program) input() []byte {
	if p.Input == "" {
		return []byte("{}")
	}
	return []byte(p.Input)
}

// Language is the sources of one language by purpose. Every field is needed; what an
// engine cannot have is named in Without with the reason.
type Language struct {
	// Echo returns its input as it is.
	Echo []byte
	// Length returns {"length":N}, N the bytes of its input.
	Length []byte
	// Compute returns an object made with all that could tempt an implementation into
	// being undetermined: the order of maps and sets, sorting, floats, hashes. Steady is
	// what it must return, canonical.
	Compute Program
	Steady  string
	// Remember tries to keep something from one run to the next. It returns an object
	// that shows it, or fails.
	Remember Program
	// Unreachable are sources, by the name of what they reach for: files, clock,
	// randomness, environment, network, other modules, output, processes. Each must not
	// load, or fail, or return exactly {"reached":false}.
	Unreachable map[string]Program
	// Broken are sources that must not load: bad syntax, no main, main of a wrong shape.
	Broken map[string][]byte
	// Fails ends by an error of the program whose text holds FailText.
	Fails    Program
	FailText string
	// NotText returns something that is no text.
	NotText map[string]Program
	// Endless runs over whatever bounds a program's length, without a context's help.
	Endless Program
	// Long takes longer than a minute in a way that only a context ends.
	Long Program
	// Gigabytes are sources that ask for more memory than they may have.
	Gigabytes map[string]Program
	// TooMuch returns more than capsule.MaxOutput bytes.
	TooMuch Program
	// MaxInput is how many blanks an input may hold where that is less than
	// capsule.MaxInput; 0 where it is not. Full then returns capsule.MaxOutput bytes, which
	// Echo cannot be given.
	MaxInput int
	Full     Program
	// Hostile are sources meant to bring down whatever runs them: deep nestings, cycles,
	// collisions. They may end in any way that the contract knows.
	Hostile map[string]Program
	// Without names fields of this struct, in lower case, that an engine cannot have, with
	// the reason.
	Without map[string]string
}

// Run holds an engine to the contract of capsule.Engine. open makes a new engine each time
// it is called; Run closes it.
func Run(t *testing.T, lang Language, open func(t *testing.T) capsule.Engine) {
	s := &suite{lang: lang, open: open}
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"identity", s.identity},
		{"verbatim", s.verbatim},
		{"steady", s.steady},
		{"together", s.together},
		{"forgets", s.forgets},
		{"unreachable", s.unreachable},
		{"broken", s.broken},
		{"fails", s.fails},
		{"outputs", s.outputs},
		{"nottext", s.notText},
		{"endless", s.endless},
		{"long", s.long},
		{"gigabytes", s.gigabytes},
		{"toomuch", s.tooMuch},
		{"bounds", s.bounds},
		{"hostile", s.hostile},
		{"contexts", s.contexts},
		{"close", s.close},
	} {
		if why, ok := lang.Without[part.name]; ok {
			t.Logf("%s: this engine is without it: %s", part.name, why)
			continue
		}
		t.Run(part.name, part.test)
	}
}

func (l Language) maxInput() int {
	if l.MaxInput == 0 {
		return capsule.MaxInput
	}
	return l.MaxInput
}

type suite struct {
	lang Language
	open func(t *testing.T) capsule.Engine
}

func (s *suite) engine(t *testing.T) capsule.Engine {
	t.Helper()
	e := s.open(t)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

func run(t *testing.T, e capsule.Engine, p Program) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	return e.Run(ctx, capsule.NewSource(p.Source), p.input())
}

func mustRun(t *testing.T, e capsule.Engine, p Program) []byte {
	t.Helper()
	out, err := run(t, e, p)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return out
}

// wantKind holds an error to one of the kinds, and to a run's error telling the client
// nothing: what a surface says of a failed run is fixed, and causes are for stderr.
func wantKind(t *testing.T, err error, kinds ...world.Kind) {
	t.Helper()
	var e *world.Error
	if !errors.As(err, &e) {
		t.Errorf("got error %v, want a *world.Error of kind %v", err, kinds)
		return
	}
	for _, k := range kinds {
		if e.Kind == k {
			return
		}
	}
	t.Errorf("got kind %v, want %v: %v", e.Kind, kinds, err)
}

// alive shows that the engine still works after what was done to it.
func (s *suite) alive(t *testing.T, e capsule.Engine) {
	t.Helper()
	if got := mustRun(t, e, Program{s.lang.Echo, `{"alive":true}`}); string(got) != `{"alive":true}` {
		t.Errorf("afterwards the engine gives %q", got)
	}
}
