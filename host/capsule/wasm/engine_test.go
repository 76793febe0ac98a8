package wasm

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/capsuletest"
	"ailang.dev/world/host/capsule/starlark"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// workerVerb makes the test binary a worker, as the daemon's hidden verb does.
const workerVerb = "wasm-worker"

// spinning is the vector that runs until its steps are spent.
const spinning = "spin.wasm"

func TestMain(m *testing.M) {
	verbs := map[string]func(io.Reader, io.Writer) error{workerVerb: WorkerMain, starlarkVerb: starlark.WorkerMain}
	if len(os.Args) > 1 && verbs[os.Args[1]] != nil {
		if err := verbs[os.Args[1]](os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func newEngine(t testing.TB) *Engine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{WorkerCommand: []string{self, workerVerb}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// built is a module of testdata, or of the golden vectors.
func built(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "bin", name+".wasm"))
	if os.IsNotExist(err) {
		text, err = os.ReadFile(filepath.Join("vectors", name+".wasm"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestModules is the engine suite.
func TestModules(t *testing.T) {
	capsuletest.Run(t, language(t), func(t *testing.T) capsule.Engine { return newEngine(t) })
}

func language(t testing.TB) capsuletest.Language {
	t.Helper()
	program := func(name string) capsuletest.Program { return capsuletest.Program{Source: built(t, name)} }
	lang := capsuletest.Language{
		Echo:     built(t, "echo"),
		Length:   built(t, "length"),
		Compute:  program("numbers"),
		Steady:   vectorOutput(t, "numbers"),
		Remember: program("remember"),
		Unreachable: map[string]capsuletest.Program{
			"import": program("broken-import-env"), "unknown import": program("broken-import-unknown"),
			"memory": program("broken-import-memory"), "global": program("broken-import-global"),
		},
		Broken: map[string][]byte{
			"empty": nil, "text": []byte("def main(text):\n    return text\n"), "cut": built(t, "echo")[:200], "half a section": built(t, "echo")[:len(built(t, "echo"))-1],
			"magic": []byte("\x00asm"), "another version": []byte("\x00asm\x02\x00\x00\x00"), "a component": []byte("\x00asm\x0d\x00\x01\x00"), "no section": []byte("\x00asm\x01\x00\x00\x00"),
			"more behind it": append(built(t, "echo"), 0x0b),
		},
		Fails: program("fails"), FailText: "exit code 3: broken on purpose",
		NotText: map[string]capsuletest.Program{"nothing": program("nothing"), "not UTF-8": program("nottext")},
		Endless: program("spin"),
		Long:    program("long"),
		Gigabytes: map[string]capsuletest.Program{
			"memory": program("greedy"), "a table grows": program("table-grow"), "a table": program("table-declared"), "calls": program("recursion"),
		},
		TooMuch: program("toomuch"),
		Hostile: hostile(),
	}
	for name, what := range map[string]string{"arguments": "a", "environment": "e", "clocks": "c", "chance": "r", "files": "f", "network": "n", "descriptors": "d"} {
		lang.Unreachable[name] = capsuletest.Program{Source: built(t, "reach"), Input: what}
	}
	broken, err := filepath.Glob(filepath.Join("testdata", "bin", "broken-*.wasm"))
	if err != nil || len(broken) < 20 {
		t.Fatalf("%d broken modules, %v", len(broken), err)
	}
	for _, file := range broken {
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		lang.Broken[name] = built(t, name)
	}
	return lang
}

func vectorOutput(t testing.TB, name string) string {
	t.Helper()
	all, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.Name == name {
			canonical, err := hashref.CanonicalObject([]byte(v.Output))
			if err != nil {
				t.Fatal(err)
			}
			return string(canonical)
		}
	}
	t.Fatalf("no vector %q", name)
	return ""
}

// TestCheckMessages: what keeps a module from being published is told to its author.
func TestCheckMessages(t *testing.T) {
	e := newEngine(t)
	defer e.Close()
	for name, want := range map[string]string{
		"broken-no-start":       "main.wasm: no _start: a command exports it",
		"broken-start-value":    "main.wasm: _start takes or gives values: a command's does not",
		"broken-no-memory":      "main.wasm: no memory: a command exports it",
		"broken-start-section":  "main.wasm: a command starts in _start: a start section is not taken",
		"broken-import-env":     `main.wasm: import "env"."system" is not of WASI preview 1`,
		"broken-import-unknown": `main.wasm: import "wasi_snapshot_preview1"."sock_connect" is not of WASI preview 1`,
		"broken-import-type":    `main.wasm: import "wasi_snapshot_preview1"."proc_exit" is of another type`,
		"broken-import-memory":  `main.wasm: import "env"."memory" is no function`,
		"broken-vector":         "main.wasm: function 0: vector instructions are not of the features that are taken: build without simd128",
		"broken-steps-name":     `main.wasm: export "world.steps" is the engine's own name`,
		"broken-steps-set":      "main.wasm: function 0: global 0 is not there",
		"broken-steps-export":   `main.wasm: export "mine" names a global that is not there`,
		"broken-temp-local":     "main.wasm: function 0: local 0 is not there",
		"broken-tail-call":      "main.wasm: function 0: instruction 0x12 is not of the features that are taken",
	} {
		err := e.Check(t.Context(), capsule.NewSource(built(t, name)))
		if world.KindOf(err) != world.KindConvention {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, world.Message(err)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestBothWaysCountAlike: compiled and interpreted, a module gives the same, in the same
// number of steps, also where they end it.
func TestBothWaysCountAlike(t *testing.T) {
	for _, steps := range []int64{0, 1, 1000, 3000, 20_000, 500_000} {
		fast, slow := testMachine(t, capsule.MaxSource), testMachine(t, 0)
		fast.steps, slow.steps = steps, steps
		for _, name := range []string{"spin", "numbers", "surroundings", "echo", "fails", "reach", "trap", "tally", "remember"} {
			req := worker.Request{Op: worker.OpRun, Source: capsule.NewSource(built(t, name)), Input: []byte(`{"text":"a b"}`)}
			a, b := fast.Handle(t.Context(), req), slow.Handle(t.Context(), req)
			if a.Status != b.Status || a.Steps != b.Steps || string(a.Out) != string(b.Out) {
				t.Errorf("%s within %d steps: %d, %d steps, %q, %s; interpreted %d, %d steps, %q, %s",
					name, steps, a.Status, a.Steps, a.Out, a.Cause, b.Status, b.Steps, b.Out, b.Cause)
			}
			if over := a.Steps > uint64(steps); over != strings.HasPrefix(a.Cause, "more than ") {
				t.Errorf("%s within %d steps took %d: %s", name, steps, a.Steps, a.Cause)
			}
		}
	}
}

// TestTally calls the example as a transition is called.
func TestTally(t *testing.T) {
	e := newEngine(t)
	defer e.Close()
	text, err := os.ReadFile(filepath.Join("testdata", "tally", "tally.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]string{
		`{"text":"three small words"}`:      `{"bytes":17,"lines":0,"ok":true,"words":3}`,
		`{"text":"\u00e9 😀\n\ud83d\ude00"}`: `{"bytes":12,"lines":1,"ok":true,"words":3}`,
		`{"text":""}`:                       `{"bytes":0,"lines":0,"ok":true,"words":0}`,
		`{}`:                                `{"ok":false,"refused":"tally needs text, and admits only that"}`,
		`{"text":1}`:                        `{"ok":false,"refused":"text must be a string"}`,
		`{"text":"a","more":1}`:             `{"ok":false,"refused":"tally needs text, and admits only that"}`,
		`{"text":"` + strings.Repeat("a ", 1<<20) + `"}`: `{"bytes":2097152,"lines":0,"ok":true,"words":1048576}`,
	} {
		got, err := capsule.RunObject(t.Context(), e, capsule.NewSource(text), []byte(input))
		if err != nil || string(got) != want {
			t.Errorf("%.40s: %s, %v; want %s", input, got, err, want)
		}
	}
}

// TestCacheIsBounded: modules that are long unused go, and come again when they are.
func TestCacheIsBounded(t *testing.T) {
	m := testMachine(t, compileBytes)
	for i := range cacheEntries + 10 {
		// A section that nobody reads makes another module.
		text := append(built(t, "exits"), 0, 2, 1, byte(i))
		req := worker.Request{Op: worker.OpRun, Source: capsule.NewSource(text)}
		for range 2 {
			if res := m.Handle(context.Background(), req); string(res.Out) != `{"exited":true}` {
				t.Fatalf("module %d: %+v", i, res)
			}
		}
	}
	if n, _ := m.loaded.Len(); n != cacheEntries {
		t.Errorf("the cache holds %d modules, want %d", n, cacheEntries)
	}
	if res := m.Handle(context.Background(), worker.Request{Op: worker.OpRun, Source: capsule.NewSource(append(built(t, "exits"), 0, 2, 1, 0))}); res.Status != worker.OK {
		t.Errorf("the first module again: %+v", res)
	}
}

// moduleOf puts a module together: sections by id in their order.
func moduleOf(sections ...[]byte) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		out = appendSection(out, s[0], s[1:])
	}
	return out
}

func vec(id byte, items ...[]byte) []byte {
	b := appendU32([]byte{id}, uint32(len(items)))
	for _, it := range items {
		b = append(b, it...)
	}
	return b
}

func sized(b []byte) []byte { return append(appendU32(nil, uint32(len(b))), b...) }

// command is a module whose functions have these bodies, locals and instructions; the first
// is _start.
func command(bodies ...[]byte) []byte {
	var types, code [][]byte
	for _, b := range bodies {
		types = append(types, []byte{0})
		code = append(code, sized(b))
	}
	return moduleOf(vec(secType, []byte{0x60, 0, 0}), vec(secFunction, types...), vec(secMemory, []byte{0, 1}),
		vec(secExport, append(sized([]byte(start)), 0, 0), append(sized([]byte(memoryName)), 2, 0)), vec(secCode, code...))
}

func body(instructions string) []byte { return append(append([]byte{0}, instructions...), opEnd) }

// hostile modules are aimed at the reader, the metering, the validator, the compiler and
// the runtime.
func hostile() map[string]capsuletest.Program {
	const most = capsule.MaxSource - 200
	times := func(s string, n int) string { return strings.Repeat(s, n) }
	floats := "\x44\x00\x00\x00\x00\x00\x00\x00\x00" + times("\x44\x00\x00\x00\x00\x00\x00\x00\x00\xa0", most/10) + "\x1a"
	chain := "\x44\x00\x00\x00\x00\x00\x00\x00\x00" + times("\x9f", most) + "\x1a" // sqrt of sqrt of …
	locals := append(appendU32(append(appendU32(nil, 1), appendU32(nil, MaxLocals)...), 0)[:0], appendU32(appendU32(nil, 1), MaxLocals)...)
	locals = append(locals, typeI64)
	var wide, many [][]byte
	for range 2000 {
		wide = append(wide, append(append([]byte{}, locals...), times("\x20\x80\x08\x21\x81\x08", 60)...))
		wide[len(wide)-1] = append(wide[len(wide)-1], opEnd)
	}
	for range most / 5 {
		many = append(many, body(""))
	}
	table := string(appendU32(nil, most/2)) + times("\x00", most/2) + "\x00"
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	all := map[string][]byte{
		"float sums":       command(body(floats)),
		"a chain of roots": command(body(chain)),
		"divisions":        command(body("\x41\x01" + times("\x41\x03\x6d", most/3) + "\x1a")),
		"nested blocks":    command(body(times("\x02\x40", MaxNesting-2) + times("\x0b", MaxNesting-2))),
		"nested loops":     command(body(times("\x03\x40", MaxNesting-2) + times("\x0b", MaxNesting-2))),
		"nested ifs":       command(body(times("\x41\x01\x04\x40", MaxNesting-2) + times("\x0b", MaxNesting-2))),
		"too deep":         command(body(times("\x02\x40", most/3) + times("\x0b", most/3))),
		"many loops":       command(body(times("\x03\x40\x0b", most/3))),
		"many ifs":         command(body(times("\x41\x01\x04\x40\x0b", most/5))),
		"many branches":    command(body("\x02\x40" + times("\x41\x00\x0d\x00", most/4) + "\x0b")),
		"a wide table":     command(body("\x02\x40\x41\x00\x0e" + table + "\x0b")),
		"many tables":      command(body(times("\x02\x40\x41\x00\x0e\x20"+times("\x00", 33)+"\x0b", most/40))),
		"locals":           command(wide...),
		"too many locals":  command(append(append(appendU32([]byte{1}, 1<<32-1), typeI64), opEnd)),
		"many functions":   command(many...),
		"calls":            command(body(times("\x10\x00", most/2))),
		"fills":            command(body("\x03\x40\x41\x00\x41\x00\x41\x80\x80\x04\xfc\x0b\x00\x0c\x00\x0b")),
		"grows":            command(body("\x03\x40\x41\x01\x40\x00\x1a\x0c\x00\x0b")),
		"deep values":      command(body(times("\x41\x00", most/3) + times("\x1a", most/3))),
		"sections":         append([]byte("\x00asm\x01\x00\x00\x00"), times("\x00\x01\x00", most/3)...),
		"a huge count":     moduleOf([]byte{secType, 0xff, 0xff, 0xff, 0xff, 0x0f}),
		"a huge section":   []byte("\x00asm\x01\x00\x00\x00\x01\xff\xff\xff\xff\x0f"),
		"a huge number":    []byte("\x00asm\x01\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff"),
		"names":            append(command(body("")), sized(append(append([]byte{0}, sized([]byte("name"))...), times("\x01\x84\x80\x80\x80\x00", 1000)...))...),
		"noise":            append([]byte("\x00asm\x01\x00\x00\x00"), noise...),
	}
	programs := map[string]capsuletest.Program{}
	for name, text := range all {
		programs[name] = capsuletest.Program{Source: text}
	}
	return programs
}
