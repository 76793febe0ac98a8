package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/hashref"
)

// What a run may take, beside what every engine's may. Both decide, and belong to the
// identity.
const (
	StepLimit   = 200_000_000
	MemoryPages = 1024 // of 64 KiB: growing over it fails, and the program sees that
)

// maxStderr is how many bytes of what a program writes to stderr are kept: the first.
const maxStderr = 2 << 10

// compileBytes is how many bytes a module may have to be compiled; larger ones are
// interpreted, which gives the same bytes and steps in more time.
const compileBytes = 256 << 10

// Bounds of the cache of compiled modules, in each process.
const (
	cacheEntries = 64
	cacheBytes   = 4 << 20 // of source
)

// features are those of the second version of WebAssembly that compilers use unasked.
// Vector instructions are not: their results that are no number could not be made canonical
// at a bearable price.
const features = api.CoreFeatureMutableGlobal | api.CoreFeatureSignExtensionOps | api.CoreFeatureMultiValue |
	api.CoreFeatureNonTrappingFloatToIntConversion | api.CoreFeatureBulkMemoryOperations | api.CoreFeatureReferenceTypes

// clock is where all clocks stand. Runtimes of some languages refuse to start at 0.
const clock = time.Second

const (
	sourceName = "main.wasm" // what messages begin with
	argv0      = "main"
	start      = "_start"
	memoryName = "memory"
)

// machine loads and runs modules in the process it is in. What runs a module depends on its
// size alone: compiling takes up to a microsecond a byte, and the first call in every worker
// waits for it.
type machine struct {
	compiler, interpreter wazero.Runtime
	compile               int   // bytes of a module that is still compiled
	steps                 int64 // that a run has
	wasi                  map[string]api.FunctionDefinition
	loaded                *worker.Cache[*program]
}

// program is a module that is ready to run.
type program struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	steps   int64
}

// newMachine makes a machine that compiles modules of up to so many bytes to machine code,
// where that can be had.
func newMachine(compile int) (*machine, error) {
	m := &machine{compile: compile, steps: StepLimit}
	var err error
	if m.compiler, err = newRuntime(wazero.NewRuntimeConfig()); err != nil {
		return nil, err
	}
	if m.interpreter, err = newRuntime(wazero.NewRuntimeConfigInterpreter()); err != nil {
		return nil, err
	}
	m.wasi = m.interpreter.Module(wasi_snapshot_preview1.ModuleName).ExportedFunctionDefinitions()
	m.loaded = worker.NewCache(cacheEntries, cacheBytes, func(p *program) {
		_ = p.module.Close(context.Background()) // it frees memory, and cannot fail
	})
	return m, nil
}

func newRuntime(cfg wazero.RuntimeConfig) (wazero.Runtime, error) {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, cfg.WithCoreFeatures(features).WithMemoryLimitPages(MemoryPages).WithDebugInfoEnabled(false))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, rt); err != nil {
		return nil, errors.Join(err, rt.Close(ctx))
	}
	return rt, nil
}

func (m *machine) close() error {
	return errors.Join(m.compiler.Close(context.Background()), m.interpreter.Close(context.Background()))
}

// Handle implements worker.Machine. It does not look at ctx: every run ends by its steps,
// and a worker is killed.
func (m *machine) Handle(ctx context.Context, req worker.Request) (res worker.Result) {
	defer func() {
		if p := recover(); p != nil {
			res = worker.Failed("the runtime panicked: %v", p)
		}
	}()
	if len(req.Input) > capsule.MaxInput {
		return worker.Failed("the input is longer than %d bytes", capsule.MaxInput)
	}
	p, ok := m.loaded.Get(req.Source.Ref)
	if !ok {
		var err error
		if p, err = m.load(ctx, req.Source); err != nil {
			return worker.Unloadable(sourceName + ": " + err.Error())
		}
		m.loaded.Put(req.Source.Ref, p, len(req.Source.Text))
	}
	if req.Op == worker.OpCheck {
		return worker.Result{}
	}
	return p.run(ctx, req.Input)
}

// load meters, validates and compiles a module.
func (m *machine) load(ctx context.Context, src capsule.Source) (*program, error) {
	switch {
	case len(src.Text) > capsule.MaxSource:
		return nil, fmt.Errorf("the source is longer than %d bytes", capsule.MaxSource)
	case hashref.Sum(src.Text) != src.Ref:
		return nil, errors.New("the source is not the one that its hash names")
	}
	metered, err := meter(src.Text, m.steps)
	if err != nil {
		return nil, err
	}
	p := &program{runtime: m.interpreter, steps: m.steps}
	if len(src.Text) <= m.compile {
		p.runtime = m.compiler
	}
	if p.module, err = p.runtime.CompileModule(ctx, metered); err != nil {
		return nil, err
	}
	if err := m.judge(p.module); err != nil {
		_ = p.module.Close(ctx)
		return nil, err
	}
	return p, nil
}

// judge tells whether a module is a WASI command, and nothing but.
func (m *machine) judge(c wazero.CompiledModule) error {
	for _, f := range c.ImportedFunctions() {
		module, name, _ := f.Import()
		have := m.wasi[name]
		if module != wasi_snapshot_preview1.ModuleName || have == nil {
			return fmt.Errorf("import %.40q.%.40q is not of WASI preview 1", module, name)
		}
		if !slices.Equal(f.ParamTypes(), have.ParamTypes()) || !slices.Equal(f.ResultTypes(), have.ResultTypes()) {
			return fmt.Errorf("import %q.%q is of another type", module, name)
		}
	}
	f := c.ExportedFunctions()[start]
	switch {
	case f == nil:
		return errors.New("no _start: a command exports it")
	case len(f.ParamTypes())+len(f.ResultTypes()) > 0:
		return errors.New("_start takes or gives values: a command's does not")
	case c.ExportedMemories()[memoryName] == nil:
		return errors.New("no memory: a command exports it")
	}
	return nil
}

// config is all that a program finds around it: its input, and what is the same for all.
func config(input []byte, stdout *output, stderr *head) wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions().WithArgs(argv0).
		WithStdin(bytes.NewReader(input)).WithStdout(stdout).WithStderr(stderr).
		WithRandSource(rand.NewChaCha8([32]byte{})).
		WithWalltime(func() (int64, int32) { return clock.Nanoseconds() / 1e9, 0 }, 1).
		WithNanotime(clock.Nanoseconds, 1).
		WithNanosleep(func(int64) {}).WithOsyield(func() {})
}

// run calls a new instance's _start. Steps and output are judged before how it ended.
func (p *program) run(ctx context.Context, input []byte) worker.Result {
	stdout, stderr := &output{}, &head{}
	instance, err := p.runtime.InstantiateModule(ctx, p.module, config(input, stdout, stderr))
	if err != nil {
		return worker.Failed("%v", err)
	}
	defer instance.Close(ctx)
	steps := instance.ExportedGlobal(stepsExport)
	_, err = instance.ExportedFunction(start).Call(ctx)
	left := int64(steps.Get())
	res := ended(err, stdout, stderr)
	if left < 0 {
		res = worker.Failed("more than %d steps", p.steps)
	}
	res.Steps = uint64(p.steps - left)
	return res
}

func ended(err error, stdout *output, stderr *head) worker.Result {
	var exit *sys.ExitError
	switch {
	case stdout.over:
		return worker.Failed("the output is longer than %d bytes", capsule.MaxOutput)
	case errors.As(err, &exit) && exit.ExitCode() != 0:
		return worker.Failed("exit code %d: %s", exit.ExitCode(), stderr.text)
	case err != nil && exit == nil:
		return worker.Failed("%v\nstderr: %s", err, stderr.text)
	case len(stdout.text) == 0:
		return worker.Result{Status: worker.BadOutput, Cause: "the program wrote nothing to stdout"}
	case !utf8.Valid(stdout.text):
		return worker.Result{Status: worker.BadOutput, Cause: "what the program wrote to stdout is not UTF-8 text"}
	}
	return worker.Result{Out: stdout.text}
}

// output is stdout: it takes capsule.MaxOutput bytes, and more is an error.
type output struct {
	text []byte
	over bool
}

func (o *output) Write(p []byte) (int, error) {
	if o.over || len(p) > capsule.MaxOutput-len(o.text) {
		o.over = true
		return 0, errors.New("the output is full")
	}
	o.text = append(o.text, p...)
	return len(p), nil
}

// head is stderr: it keeps the first bytes and drops the rest.
type head struct{ text []byte }

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), maxStderr-len(h.text))]...)
	return len(p), nil
}
