package starlark

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/world"
)

// TestCheckMessages: an author is told what is wrong and where, the same in both ways.
func TestCheckMessages(t *testing.T) {
	local, remote := newEngine(t, trustAll), newEngine(t, nil)
	defer local.Close()
	defer remote.Close()
	tests := []struct{ name, source, want string }{
		{"good", "def main(text):\n    return text\n", ""},
		{"lambda", "main = lambda text: text\n", ""},
		{"syntax", "def main(text):\n    x = [1,\n    }\n", "main.star:3:6: got '}', want ']'"},
		{"undefined", "def main(text):\n    return os.getenv(x)\n", "main.star:2:12: undefined: os\nmain.star:2:22: undefined: x"},
		{"load", "load(\"m.star\", \"a\")\n\ndef main(text):\n    return a\n", "main.star:1:1: load is refused: a source stands alone"},
		{"while", "def main(text):\n    while True:\n        pass\n", "main.star:2:5: this Starlark dialect does not support while loops"},
		{"no main", "def mian(text):\n    return text\n", "main.star: no main: define main(text)"},
		{"empty", "", "main.star: no main: define main(text)"},
		{"not a function", "main = {}\n", "main.star: main is of type dict, not a function of the source"},
		{"two parameters", "X = 1\n\ndef main(a, b):\n    return a\n", "main.star:3:1: main must take exactly one required positional parameter: main(text)"},
		{"a default", "def main(a = 1):\n    return a\n", "main.star:1:1: main must take exactly one required positional parameter: main(text)"},
		{"top level fails", "def f(x):\n    return 1 // x\n\nX = f(0)\n\ndef main(text):\n    return text\n", "main.star:2:14: floored division by zero"},
		{"top level prints", "print(1)\n", "main.star:1:6: print: a transition has no output but the text that main returns"},
		{"top level is long", "X = [i for i in range(9000000)]\n", "main.star: loading it takes more than 5000000 steps"},
		{"bad bytes", "\xff", "main.star: the source is not UTF-8 text"},
	}
	slow := fmt.Sprintf("main.star: loading it takes longer than %v", capsule.PhaseTimeout)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := capsule.NewSource([]byte(tt.source))
			for _, e := range []*Engine{local, remote} {
				err := e.Check(t.Context(), src)
				got := world.Message(err)
				if worker.Shadow > 1 && got == slow {
					got = tt.want // an instrumented build may need more than its time for so many steps
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if (err == nil) != (tt.want == "") {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

// TestCheckOfWhatKills: a source whose loading needs more than a worker has does not load.
func TestCheckOfWhatKills(t *testing.T) {
	e := newEngine(t, nil)
	defer e.Close()
	tests := []struct{ source, want string }{
		{"X = list(range(1 << 31))\n", "main.star: loading it takes more memory than a run may have"},
		{"X = max(range(1 << 62))\n", "main.star: loading it takes longer than 2s"},
	}
	for _, tt := range tests {
		err := e.Check(t.Context(), capsule.NewSource([]byte(tt.source)))
		if world.Message(err) != tt.want || world.KindOf(err) != world.KindConvention {
			t.Errorf("%q: %v", tt.source, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.Check(ctx, capsule.NewSource([]byte(tests[1].source))); world.KindOf(err) != world.KindDeadline {
		t.Errorf("the caller's own deadline: %v", err)
	}
}

// TestBothWaysAreTheSame runs every golden vector and every broken source both ways.
func TestBothWaysAreTheSame(t *testing.T) {
	local, remote := newEngine(t, trustAll), newEngine(t, nil)
	defer local.Close()
	defer remote.Close()
	vectors, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range language().Broken {
		vectors = append(vectors, vector{Name: name, Source: string(source), Input: "{}"})
	}
	for _, v := range vectors {
		src := capsule.NewSource([]byte(v.Source))
		a, aErr := local.Run(t.Context(), src, []byte(v.Input))
		b, bErr := remote.Run(t.Context(), src, []byte(v.Input))
		if diff := cmp.Diff(string(a), string(b)); diff != "" {
			t.Errorf("%s: in-process and worker differ:\n%s", v.Name, diff)
		}
		if diff := cmp.Diff(fmt.Sprint(aErr), fmt.Sprint(bErr)); diff != "" || world.KindOf(aErr) != world.KindOf(bErr) {
			t.Errorf("%s: errors in-process and in the worker differ:\n%s", v.Name, diff)
		}
	}
}

// TestInProcessDeadline: a trusted run, too, ends with its context.
func TestInProcessDeadline(t *testing.T) {
	e := newEngine(t, trustAll)
	defer e.Close()
	src := capsule.NewSource(language().Endless.Source)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := e.Run(ctx, src, []byte("{}")); world.KindOf(err) != world.KindDeadline {
		t.Errorf("after a millisecond: %v", err)
	}
	if _, err := e.Run(t.Context(), src, []byte("{}")); world.KindOf(err) != world.KindExecution {
		t.Errorf("without a deadline: %v", err)
	}
}

// TestCacheIsBounded: the oldest sources go, and a source is loaded once while it is there.
func TestCacheIsBounded(t *testing.T) {
	m := testMachine(t)
	source := func(i int) capsule.Source {
		return capsule.NewSource(fmt.Appendf(nil, "def main(text):\n    return \"%d\"\n", i))
	}
	for i := range cacheEntries + 10 {
		if res := m.run(t.Context(), source(i), nil); string(res.Out) != fmt.Sprint(i) {
			t.Fatalf("source %d gives %q", i, res.Out)
		}
	}
	if n, _ := m.loaded.Len(); n != cacheEntries {
		t.Errorf("the cache holds %d sources, want %d", n, cacheEntries)
	}
	_, oldest := m.loaded.Get(source(0).Ref)
	if _, newest := m.loaded.Get(source(cacheEntries).Ref); oldest || !newest {
		t.Error("not the oldest went")
	}
	large := func(b byte) capsule.Source {
		text := make([]byte, 0, capsule.MaxSource)
		text = append(text, "def main(text):\n    return text\n#"...)
		for len(text) < capsule.MaxSource {
			text = append(text, b)
		}
		return capsule.NewSource(text)
	}
	for b := byte('a'); b <= 'z'; b++ {
		if res := m.run(t.Context(), large(b), nil); res.Status != worker.OK {
			t.Fatal(res.Msg, res.Cause)
		}
	}
	if _, bytes := m.loaded.Len(); bytes > cacheBytes {
		t.Errorf("the cache holds %d bytes", bytes)
	}
	first, _ := m.loaded.Get(large('z').Ref)
	m.run(t.Context(), large('z'), nil)
	if again, _ := m.loaded.Get(large('z').Ref); again != first {
		t.Error("a loaded source was loaded again")
	}
}
