package starlark

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"go.starlark.net/resolve"
	star "go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/hashref"
)

// StepLimit is how many interpreter steps loading a source, and a call of its main, may
// each take. It decides, and is part of the identity: about a tenth of a second.
const StepLimit = 5_000_000

// Bounds of the cache of loaded sources, in each process.
const (
	cacheEntries = 256
	cacheBytes   = 16 << 20 // of source text
)

func newCache() *worker.Cache[*star.Function] {
	return worker.NewCache[*star.Function](cacheEntries, cacheBytes, nil)
}

// sourceName is what positions in messages begin with.
const sourceName = "main.star"

// dialect is fixed here and stands in the identity by way of the golden vectors. None of
// what is off is needed by a pure function, and without it every program ends.
func dialect() *syntax.FileOptions { return &syntax.FileOptions{Set: true} }

//go:embed std.star
var stdSource []byte

// machine loads and runs sources in the process it is in. It is what the engine's own
// process and its workers share, so that both give the same bytes.
type machine struct {
	predeclared star.StringDict
	loaded      *worker.Cache[*star.Function]
}

func newMachine() (*machine, error) {
	jsonModule := newJSON()
	std, err := loadStd(jsonModule)
	if err != nil {
		return nil, err
	}
	predeclared := star.StringDict{
		"json":  jsonModule,
		"std":   std,
		"print": star.NewBuiltin("print", refusePrint),
	}
	predeclared.Freeze()
	return &machine{predeclared: predeclared, loaded: newCache()}, nil
}

// loadStd runs std.star, which alone sees struct, and takes its exports.
func loadStd(jsonModule *starlarkstruct.Module) (*starlarkstruct.Module, error) {
	env := star.StringDict{"json": jsonModule, "struct": star.NewBuiltin("struct", starlarkstruct.Make)}
	globals, err := star.ExecFileOptions(dialect(), &star.Thread{Name: "std"}, "std.star", stdSource, env)
	if err != nil {
		return nil, fmt.Errorf("std.star: %w", err)
	}
	exports, ok := globals["exports"].(*star.Dict)
	if !ok {
		return nil, errors.New("std.star: exports is no dict")
	}
	std := &starlarkstruct.Module{Name: "std", Members: star.StringDict{}}
	for _, item := range exports.Items() {
		name, ok := star.AsString(item[0])
		if !ok {
			return nil, errors.New("std.star: an export's name is no string")
		}
		std.Members[name] = item[1]
	}
	return std, nil
}

// refusePrint makes the absence of output an error that the author sees, not a silence.
func refusePrint(*star.Thread, *star.Builtin, star.Tuple, []star.Tuple) (star.Value, error) {
	return nil, errors.New("print: a transition has no output but the text that main returns")
}

// Handle implements worker.Machine.
func (m *machine) Handle(ctx context.Context, req worker.Request) worker.Result {
	if req.Op == worker.OpCheck {
		return m.check(ctx, req.Source)
	}
	return m.run(ctx, req.Source, req.Input)
}

// check loads a source.
func (m *machine) check(ctx context.Context, src capsule.Source) worker.Result {
	return m.guard(ctx, func(t *thread) worker.Result {
		_, res := m.load(t, src)
		return res
	})
}

// run loads a source unless it is loaded, and calls its main.
func (m *machine) run(ctx context.Context, src capsule.Source, input []byte) worker.Result {
	if len(input) > capsule.MaxInput {
		return worker.Failed("the input is longer than %d bytes", capsule.MaxInput)
	}
	main, ok := m.loaded.Get(src.Ref)
	if !ok {
		res := m.guard(ctx, func(t *thread) (res worker.Result) {
			main, res = m.load(t, src)
			return res
		})
		if res.Status != worker.OK {
			return res
		}
	}
	return m.guard(ctx, func(t *thread) worker.Result { return t.call(main, input) })
}

// thread is one bounded Starlark computation.
type thread struct {
	star.Thread
	tooLong bool        // the step limit was reached
	stopped atomic.Bool // ctx ended
}

// guard gives f a thread that ends with ctx or at the step limit, and turns a panic of the
// interpreter into a failure.
func (m *machine) guard(ctx context.Context, f func(*thread) worker.Result) (res worker.Result) {
	t := &thread{Thread: star.Thread{Name: "main"}}
	t.SetMaxExecutionSteps(StepLimit + 1) // the interpreter stops when it is reached
	t.OnMaxSteps = func(*star.Thread) {
		t.tooLong = true
		t.Cancel("too many steps")
	}
	release := context.AfterFunc(ctx, func() {
		t.stopped.Store(true)
		t.Cancel("stopped")
	})
	defer release()
	defer func() {
		if p := recover(); p != nil {
			res = worker.Failed("the interpreter panicked: %v", p)
		}
		res.Steps = t.Steps
	}()
	return f(t)
}

// load parses, resolves, compiles and executes a source's top level, and finds its main.
func (m *machine) load(t *thread, src capsule.Source) (*star.Function, worker.Result) {
	prog, err := m.compile(src)
	if err != nil {
		return nil, worker.Unloadable(err.Error())
	}
	globals, err := prog.Init(&t.Thread, m.predeclared)
	switch {
	case t.tooLong:
		return nil, worker.Unloadable(fmt.Sprintf("%s: loading it takes more than %d steps", sourceName, StepLimit))
	case err != nil && t.stopped.Load():
		return nil, worker.Result{Status: worker.Stopped}
	case err != nil:
		return nil, worker.Unloadable(place(err))
	}
	globals.Freeze()
	main, err := findMain(globals)
	if err != nil {
		return nil, worker.Unloadable(err.Error())
	}
	m.loaded.Put(src.Ref, main, len(src.Text))
	return main, worker.Result{}
}

// compile reports errors as file:line:col: message.
func (m *machine) compile(src capsule.Source) (*star.Program, error) {
	switch {
	case len(src.Text) > capsule.MaxSource:
		return nil, fmt.Errorf("%s: the source is longer than %d bytes", sourceName, capsule.MaxSource)
	case hashref.Sum(src.Text) != src.Ref:
		return nil, fmt.Errorf("%s: the source is not the one that its hash names", sourceName)
	case !utf8.Valid(src.Text):
		return nil, fmt.Errorf("%s: the source is not UTF-8 text", sourceName)
	}
	file, err := dialect().Parse(sourceName, src.Text, 0)
	if err != nil {
		return nil, err
	}
	for _, stmt := range file.Stmts {
		if load, ok := stmt.(*syntax.LoadStmt); ok {
			return nil, fmt.Errorf("%s: load is refused: a source stands alone", load.Load)
		}
	}
	prog, err := star.FileProgram(file, m.predeclared.Has)
	var list resolve.ErrorList
	if errors.As(err, &list) {
		lines := make([]string, len(list))
		for i, e := range list {
			lines[i] = e.Error()
		}
		return nil, errors.New(strings.Join(lines, "\n"))
	}
	return prog, err
}

func findMain(globals star.StringDict) (*star.Function, error) {
	v := globals["main"]
	if v == nil {
		return nil, fmt.Errorf("%s: no main: define main(text)", sourceName)
	}
	main, ok := v.(*star.Function)
	if !ok {
		return nil, fmt.Errorf("%s: main is of type %s, not a function of the source", sourceName, v.Type())
	}
	if main.NumParams() != 1 || main.NumKwonlyParams() != 0 || main.HasVarargs() || main.HasKwargs() || main.ParamDefault(0) != nil {
		return nil, fmt.Errorf("%s: main must take exactly one required positional parameter: main(text)", main.Position())
	}
	return main, nil
}

// call runs main. Steps and output are judged before ctx, so that a result that is there
// is given.
func (t *thread) call(main *star.Function, input []byte) worker.Result {
	v, err := star.Call(&t.Thread, main, star.Tuple{star.String(input)}, nil)
	switch {
	case t.tooLong:
		return worker.Failed("more than %d steps", StepLimit)
	case err != nil && t.stopped.Load():
		return worker.Result{Status: worker.Stopped}
	case err != nil:
		return worker.Failed("%s", backtrace(err))
	}
	text, ok := star.AsString(v)
	switch {
	case !ok:
		return worker.Result{Status: worker.BadOutput, Cause: fmt.Sprintf("main returned a value of type %s, want string", v.Type())}
	case len(text) > capsule.MaxOutput:
		return worker.Failed("the output is longer than %d bytes", capsule.MaxOutput)
	case !utf8.ValidString(text):
		return worker.Result{Status: worker.BadOutput, Cause: "main returned a string that is not UTF-8 text"}
	}
	return worker.Result{Out: []byte(text)}
}

// place gives an evaluation error the position of the innermost line of the source.
func place(err error) string {
	var eval *star.EvalError
	if !errors.As(err, &eval) {
		return fmt.Sprintf("%s: %s", sourceName, err)
	}
	for i := range eval.CallStack {
		if pos := eval.CallStack.At(i).Pos; pos.Filename() == sourceName {
			return fmt.Sprintf("%s: %s", pos, eval.Msg)
		}
	}
	return fmt.Sprintf("%s: %s", sourceName, eval.Msg)
}

// backtrace puts the message first: what is clipped are the outermost calls.
func backtrace(err error) string {
	var eval *star.EvalError
	if !errors.As(err, &eval) {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(worker.Clip(place(err), worker.MaxCause/2))
	for i := range eval.CallStack {
		if b.Len() > worker.MaxCause {
			break
		}
		frame := eval.CallStack.At(i)
		fmt.Fprintf(&b, "\n  %s: in %s", frame.Pos, frame.Name)
	}
	return b.String()
}
