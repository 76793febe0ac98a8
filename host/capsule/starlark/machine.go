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
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// StepLimit is how many interpreter steps loading a source, and a call of its main, may
// each take. It decides, and is part of the identity: about a tenth of a second.
const StepLimit = 5_000_000

// Bounds of what is told of a failure, in bytes.
const (
	maxMsg   = 1 << 10
	maxCause = 4 << 10
)

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
	loaded      *cache
}

// status is how an operation ended.
type status byte

const (
	statusOK status = iota
	statusConvention
	statusExecution
	statusBadOutput
	statusStopped // ctx ended; only within one process
)

// result is the outcome of one operation. It crosses the pipe from a worker as it is.
type result struct {
	status status
	msg    string // of a source that does not load: for its author
	cause  string // of other failures: for stderr
	out    []byte
	// What follows does not cross.
	steps uint64 // of a run
	died  bool   // the operation killed its worker
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

// check loads a source.
func (m *machine) check(ctx context.Context, src capsule.Source) result {
	return m.guard(ctx, func(t *thread) result {
		_, res := m.load(t, src)
		return res
	})
}

// run loads a source unless it is loaded, and calls its main.
func (m *machine) run(ctx context.Context, src capsule.Source, input []byte) result {
	if len(input) > capsule.MaxInput {
		return failed("the input is longer than %d bytes", capsule.MaxInput)
	}
	main := m.loaded.get(src.Ref)
	if main == nil {
		res := m.guard(ctx, func(t *thread) (res result) {
			main, res = m.load(t, src)
			return res
		})
		if res.status != statusOK {
			return res
		}
	}
	return m.guard(ctx, func(t *thread) result { return t.call(main, input) })
}

// thread is one bounded Starlark computation.
type thread struct {
	star.Thread
	tooLong bool        // the step limit was reached
	stopped atomic.Bool // ctx ended
}

// guard gives f a thread that ends with ctx or at the step limit, and turns a panic of the
// interpreter into a failure.
func (m *machine) guard(ctx context.Context, f func(*thread) result) (res result) {
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
			res = failed("the interpreter panicked: %v", p)
		}
		res.steps = t.Steps
	}()
	return f(t)
}

// load parses, resolves, compiles and executes a source's top level, and finds its main.
func (m *machine) load(t *thread, src capsule.Source) (*star.Function, result) {
	prog, err := m.compile(src)
	if err != nil {
		return nil, unloadable(err.Error())
	}
	globals, err := prog.Init(&t.Thread, m.predeclared)
	switch {
	case t.tooLong:
		return nil, unloadable(fmt.Sprintf("%s: loading it takes more than %d steps", sourceName, StepLimit))
	case err != nil && t.stopped.Load():
		return nil, result{status: statusStopped}
	case err != nil:
		return nil, unloadable(place(err))
	}
	globals.Freeze()
	main, err := findMain(globals)
	if err != nil {
		return nil, unloadable(err.Error())
	}
	m.loaded.put(src.Ref, main, len(src.Text))
	return main, result{}
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
func (t *thread) call(main *star.Function, input []byte) result {
	v, err := star.Call(&t.Thread, main, star.Tuple{star.String(input)}, nil)
	switch {
	case t.tooLong:
		return failed("more than %d steps", StepLimit)
	case err != nil && t.stopped.Load():
		return result{status: statusStopped}
	case err != nil:
		return failed("%s", backtrace(err))
	}
	text, ok := star.AsString(v)
	switch {
	case !ok:
		return result{status: statusBadOutput, cause: fmt.Sprintf("main returned a value of type %s, want string", v.Type())}
	case len(text) > capsule.MaxOutput:
		return failed("the output is longer than %d bytes", capsule.MaxOutput)
	case !utf8.ValidString(text):
		return result{status: statusBadOutput, cause: "main returned a string that is not UTF-8 text"}
	}
	return result{out: []byte(text)}
}

func failed(format string, args ...any) result {
	return result{status: statusExecution, cause: clip(fmt.Sprintf(format, args...), maxCause)}
}

func unloadable(msg string) result {
	return result{status: statusConvention, msg: clip(msg, maxMsg)}
}

// clip keeps the beginning of a text, and valid UTF-8.
func clip(s string, max int) string {
	if len(s) > max {
		s = s[:max] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
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
	b.WriteString(clip(place(err), maxCause/2))
	for i := range eval.CallStack {
		if b.Len() > maxCause {
			break
		}
		frame := eval.CallStack.At(i)
		fmt.Fprintf(&b, "\n  %s: in %s", frame.Pos, frame.Name)
	}
	return b.String()
}

// asError is the result as the contract's error; nil if it is none. Only a check tells the
// client why a source does not load.
func (r result) asError(op string, ref world.Ref, tell bool) error {
	e := &world.Error{Op: op, Subject: ref.String()}
	cause := r.cause
	switch r.status {
	case statusOK:
		return nil
	case statusConvention:
		e.Kind = world.KindConvention
		if tell {
			e.Msg = r.msg
		} else {
			cause = r.msg
		}
	case statusBadOutput:
		e.Kind = world.KindBadOutput
	default:
		e.Kind = world.KindExecution
	}
	if cause != "" {
		e.Err = errors.New(cause)
	}
	return e
}
