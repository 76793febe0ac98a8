package capsuletest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// nested is an array of n levels.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// outputs: RunObject takes JSON objects within the laws, as canonical bytes, and nothing
// else. Echo returns each of these texts.
func (s *suite) outputs(t *testing.T) {
	e := s.engine(t)
	src := capsule.NewSource(s.lang.Echo)
	for text, want := range map[string]string{
		` { "b" : 1.0, "a" : "\u00e9" } `:          `{"a":"é","b":1}`,
		`{"n":9007199254740991}`:                   `{"n":9007199254740991}`,
		`{"n":-9007199254740991,"f":1e-7}`:         `{"f":1e-7,"n":-9007199254740991}`,
		`{"a":` + nested(hashref.MaxDepth-1) + `}`: `{"a":` + nested(hashref.MaxDepth-1) + `}`,
		`{"😀":"\ud83d\ude00"}`:                     `{"😀":"😀"}`,
	} {
		got, err := capsule.RunObject(t.Context(), e, src, []byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%.60s: got %.60q, %v", text, got, err)
		}
	}
	for _, text := range []string{
		`[]`, `"text"`, `1`, `null`, `true`, ` `, `{`, `{"a":1,}`, `{"a":1} {}`, `not JSON`,
		`{"a":1,"a":2}`, `{"a":{"b":1,"\u0062":2}}`,
		`{"n":9007199254740992}`, `{"n":-9007199254740992}`, `{"n":1e400}`, `{"n":NaN}`,
		`{"s":"\ud800"}`, `{"s":"\udc00\ud800"}`,
		`{"a":` + nested(hashref.MaxDepth) + `}`,
	} {
		got, err := capsule.RunObject(t.Context(), e, src, []byte(text))
		if err == nil {
			t.Errorf("%.60s was taken as %.60q", text, got)
			continue
		}
		wantKind(t, err, world.KindBadOutput)
	}
}

func (s *suite) notText(t *testing.T) {
	e := s.engine(t)
	for name, p := range s.lang.NotText {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, e, p)
			wantKind(t, err, world.KindBadOutput)
		})
	}
	s.alive(t, e)
}

// endless: a program that does not end is ended by what bounds its length.
func (s *suite) endless(t *testing.T) {
	e := s.engine(t)
	for range 2 {
		_, err := run(t, e, s.lang.Endless)
		wantKind(t, err, world.KindExecution)
	}
	s.alive(t, e)
}

// long: wall time ends a run that nothing else ends, soon after.
func (s *suite) long(t *testing.T) {
	e := s.engine(t)
	s.alive(t, e)
	const allowed = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), allowed)
	defer cancel()
	begun := time.Now()
	_, err := e.Run(ctx, capsule.NewSource(s.lang.Long.Source), s.lang.Long.input())
	wantKind(t, err, world.KindDeadline)
	if took := time.Since(begun); took > allowed+Prompt {
		t.Errorf("a run of %v took %v", allowed, took)
	}
	s.alive(t, e)
}

// gigabytes: a source that asks for more memory than it may have fails, and what it took
// was not this process's.
func (s *suite) gigabytes(t *testing.T) {
	if len(s.lang.Gigabytes) == 0 {
		t.Fatal("the language has no such source")
	}
	e := s.engine(t)
	s.alive(t, e)
	for name, p := range s.lang.Gigabytes {
		t.Run(name, func(t *testing.T) {
			before := memoryTaken()
			_, err := run(t, e, p)
			wantKind(t, err, world.KindExecution)
			if after := memoryTaken(); after > before+MaxGrowth {
				t.Errorf("the calling process grew by %d MiB", (after-before)>>20)
			}
			s.alive(t, e)
		})
	}
}

// memoryTaken is what this process ever took from the system: it does not fall, so a peak
// between two readings shows.
func memoryTaken() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys
}

func (s *suite) tooMuch(t *testing.T) {
	e := s.engine(t)
	_, err := run(t, e, s.lang.TooMuch)
	wantKind(t, err, world.KindExecution)
	s.alive(t, e)
}

// bounds: the largest source and input are taken, one byte more is not, nor a source that
// is not the one its hash names.
func (s *suite) bounds(t *testing.T) {
	e := s.engine(t)
	most := strings.Repeat(" ", s.lang.maxInput())
	want := fmt.Sprintf(`{"length":%d}`, len(most))
	if got, err := run(t, e, Program{s.lang.Length, most}); err != nil || string(got) != want {
		t.Errorf("the largest input: %s, %v; want %s", got, err, want)
	}
	_, err := run(t, e, Program{s.lang.Length, most + " "})
	wantKind(t, err, world.KindExecution)
	if len(most) < capsule.MaxOutput {
		if got, err := run(t, e, s.lang.Full); err != nil || len(got) != capsule.MaxOutput {
			t.Errorf("the largest output: %d bytes, %v", len(got), err)
		}
	} else if got, err := run(t, e, Program{s.lang.Echo, most[:capsule.MaxOutput]}); err != nil || string(got) != most[:capsule.MaxOutput] {
		t.Errorf("the largest output: %d bytes, %v", len(got), err)
	}

	large := capsule.NewSource(bytes.Repeat([]byte("\n"), capsule.MaxSource+1))
	wantKind(t, e.Check(t.Context(), large), world.KindConvention)
	_, err = e.Run(t.Context(), large, []byte("{}"))
	wantKind(t, err, world.KindConvention)

	forged := capsule.Source{Ref: hashref.SumString("another"), Text: s.lang.Echo}
	_, err = e.Run(t.Context(), forged, []byte("{}"))
	wantKind(t, err, world.KindConvention)
	s.alive(t, e)
}

// hostile: whatever a source does, its run ends within Patience in a way that the contract
// knows, and the engine works on.
func (s *suite) hostile(t *testing.T) {
	e := s.engine(t)
	for name, p := range s.lang.Hostile {
		t.Run(name, func(t *testing.T) {
			before := memoryTaken()
			ctx, cancel := context.WithTimeout(t.Context(), capsule.PhaseTimeout)
			defer cancel()
			src := capsule.NewSource(p.Source)
			if err := e.Check(ctx, src); err != nil {
				wantKind(t, err, world.KindConvention, world.KindDeadline)
			}
			begun := time.Now()
			_, err := e.Run(ctx, src, p.input())
			if err != nil {
				wantKind(t, err, world.KindConvention, world.KindExecution, world.KindBadOutput, world.KindDeadline)
			}
			if took := time.Since(begun); took > capsule.PhaseTimeout+Prompt {
				t.Errorf("took %v", took)
			}
			if after := memoryTaken(); after > before+MaxGrowth {
				t.Errorf("the calling process grew by %d MiB", (after-before)>>20)
			}
			s.alive(t, e)
		})
	}
}

// contexts: one that has ended lets nothing run; one that ends in the middle ends the run.
func (s *suite) contexts(t *testing.T) {
	e := s.engine(t)
	s.alive(t, e)
	src := capsule.NewSource(s.lang.Echo)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for _, tt := range []struct {
		ctx  context.Context
		want world.Kind
	}{{canceled, world.KindCanceled}, {expired, world.KindDeadline}} {
		out, err := e.Run(tt.ctx, src, []byte("{}"))
		wantKind(t, err, tt.want)
		if out != nil {
			t.Errorf("an ended context still gives %q", out)
		}
		wantKind(t, e.Check(tt.ctx, src), tt.want)
	}
	if why, ok := s.lang.Without["long"]; ok {
		t.Logf("no context ends in the middle of a run: %s", why)
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(ctx, capsule.NewSource(s.lang.Long.Source), s.lang.Long.input())
		ended <- err
	}()
	// The run beside it shows that the first one is under way or soon will be; canceling
	// may come at any moment of it.
	s.alive(t, e)
	cancel()
	wantKind(t, within(t, ended), world.KindCanceled)
	s.alive(t, e)
}

// close: no process is left, what ran has ended, and a closed engine answers.
func (s *suite) close(t *testing.T) {
	before := children(t)
	e := s.open(t)
	s.alive(t, e)
	ended := make(chan error, 1)
	if _, ok := s.lang.Without["long"]; !ok {
		go func() {
			_, err := e.Run(t.Context(), capsule.NewSource(s.lang.Long.Source), s.lang.Long.input())
			ended <- err
		}()
	} else {
		ended <- &world.Error{Kind: world.KindCanceled}
	}
	s.alive(t, e)
	for range 2 {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	wantKind(t, within(t, ended), world.KindCanceled, world.KindExecution)
	if after := children(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("children before %v, after Close %v", before, after)
	}
	if out, err := run(t, e, Program{s.lang.Echo, `{}`}); err != nil {
		wantKind(t, err, world.KindCanceled, world.KindExecution)
	} else if string(out) != `{}` {
		t.Errorf("a closed engine gives %q", out)
	}
}

func within(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(Prompt):
		t.Fatalf("the run did not end within %v", Prompt)
		return nil
	}
}
