package capsuletest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

func (s *suite) identity(t *testing.T) {
	a, b := s.engine(t), s.engine(t)
	id := a.Identity()
	if diff := cmp.Diff(id, b.Identity(), cmp.Comparer(func(x, y world.Ref) bool { return x == y })); diff != "" {
		t.Errorf("two engines of one binary differ:\n%s", diff)
	}
	if id.Name == "" || id.Ref.IsNone() || id.Version == "" {
		t.Errorf("identity is not complete: %+v", id)
	}
	if o := id.Object; !o.Hash.IsNone() {
		want := world.NewObject(world.SemInterpreter, o.Provenance, o.Payload)
		if o.ObjectMeta != want.ObjectMeta || id.Ref != o.Hash {
			t.Errorf("the engine object is not what the identity addresses: %+v", o.ObjectMeta)
		}
		if c, err := hashref.CanonicalObject(o.Payload); err != nil || !bytes.Equal(c, o.Payload) {
			t.Errorf("the engine object is not a canonical JSON object: %v", err)
		}
	}
	if ext := a.Extension(); !strings.HasPrefix(ext, ".") || len(ext) < 2 {
		t.Errorf("extension %q", ext)
	}
}

// verbatim: the input reaches main byte for byte.
func (s *suite) verbatim(t *testing.T) {
	e := s.engine(t)
	for _, input := range []string{
		`{}`, ` { "a" : 1.0 } `, "{\"tab\":\t1}\n", `{"é":"日本語 \u00e9 😀"}`, `{"quote":"\"\\/\b' $(x) %s"}`, `{"a":1,"a":2}`,
		"{\"line\":\"\u2028\",\"nul\":\"\\u0000\"}", `{"big":"` + strings.Repeat("é", min(1<<20, s.lang.maxInput()-100)/2) + `"}`,
	} {
		if got := mustRun(t, e, Program{s.lang.Echo, input}); string(got) != input {
			t.Errorf("input %.40q came back as %.40q (%d bytes for %d)", input, got, len(got), len(input))
		}
	}
}

// steady: the same bytes again and again, from one engine and from another, alone and in
// parallel.
func (s *suite) steady(t *testing.T) {
	a, b := s.engine(t), s.engine(t)
	first := mustRun(t, a, s.lang.Compute)
	canonical, err := hashref.CanonicalObject(first)
	if err != nil {
		t.Fatalf("%v: %s", err, first)
	}
	if diff := cmp.Diff(s.lang.Steady, string(canonical)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i := range 30 {
		e := a
		if i%2 == 1 {
			e = b
		}
		if got := mustRun(t, e, s.lang.Compute); !bytes.Equal(got, first) {
			t.Fatalf("run %d gave other bytes:\n%s\n%s", i, first, got)
		}
	}
}

// together: many runs of several sources at once do not disturb one another.
func (s *suite) together(t *testing.T) {
	e := s.engine(t)
	want := mustRun(t, e, s.lang.Compute)
	var wg sync.WaitGroup
	for i := range 48 {
		wg.Go(func() {
			switch i % 4 {
			case 0, 1:
				in := fmt.Sprintf(`{"n":%d}`, i)
				if out, err := run(t, e, Program{s.lang.Echo, in}); err != nil || string(out) != in {
					t.Errorf("echo %d: %q, %v", i, out, err)
				}
			case 2:
				if out, err := run(t, e, s.lang.Compute); err != nil || !bytes.Equal(out, want) {
					t.Errorf("compute %d: %q, %v", i, out, err)
				}
			case 3:
				if _, err := run(t, e, s.lang.Fails); err == nil {
					t.Errorf("fails %d: no error", i)
				} else {
					wantKind(t, err, world.KindExecution)
				}
			}
		})
	}
	wg.Wait()
}

// forgets: nothing is carried from one run to the next.
func (s *suite) forgets(t *testing.T) {
	e := s.engine(t)
	first, firstErr := run(t, e, s.lang.Remember)
	for range 10 {
		got, err := run(t, e, s.lang.Remember)
		if !bytes.Equal(got, first) || (err == nil) != (firstErr == nil) || world.KindOf(err) != world.KindOf(firstErr) {
			t.Fatalf("first %q, %v; later %q, %v", first, firstErr, got, err)
		}
	}
}

// unreachable: no capability is in reach, and nothing is written where the caller's own
// output goes.
func (s *suite) unreachable(t *testing.T) {
	e := s.engine(t)
	if len(s.lang.Unreachable) == 0 {
		t.Fatal("the language tries nothing")
	}
	written := captureOutput(t, func() {
		for name, p := range s.lang.Unreachable {
			for range 2 {
				out, err := run(t, e, p)
				if err != nil {
					wantKind(t, err, world.KindConvention, world.KindExecution, world.KindBadOutput)
				} else if string(out) != `{"reached":false}` {
					t.Errorf("%s: %s", name, out)
				}
			}
		}
	})
	if written != "" {
		t.Errorf("the sources wrote: %q", written)
	}
	s.alive(t, e)
}

// captureOutput gives what f makes this process write to os.Stdout and os.Stderr.
func captureOutput(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = file, file
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	f()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// broken: what does not load is refused at publish with a reason for its author, and a run
// of it is the same kind without one.
func (s *suite) broken(t *testing.T) {
	e := s.engine(t)
	for name, source := range s.lang.Broken {
		t.Run(name, func(t *testing.T) {
			err := e.Check(t.Context(), capsule.NewSource(source))
			wantKind(t, err, world.KindConvention)
			if world.Message(err) == "" {
				t.Errorf("Check has no message for the author: %v", err)
			}
			_, err = run(t, e, Program{Source: source})
			wantKind(t, err, world.KindConvention)
			if msg := world.Message(err); msg != "" {
				t.Errorf("Run tells the client %q", msg)
			}
		})
	}
	for name, source := range map[string][]byte{"echo": s.lang.Echo, "compute": s.lang.Compute.Source, "fails": s.lang.Fails.Source} {
		if err := e.Check(t.Context(), capsule.NewSource(source)); err != nil {
			t.Errorf("Check of %s: %v", name, err)
		}
	}
}

// fails: a program's error is KindExecution; its text is for stderr, not for the client.
func (s *suite) fails(t *testing.T) {
	e := s.engine(t)
	for range 3 {
		_, err := run(t, e, s.lang.Fails)
		wantKind(t, err, world.KindExecution)
		if err == nil || !strings.Contains(err.Error(), s.lang.FailText) {
			t.Errorf("the cause %v does not hold %q", err, s.lang.FailText)
		}
		if msg := world.Message(err); msg != "" {
			t.Errorf("the client is told %q", msg)
		}
	}
	s.alive(t, e)
}
