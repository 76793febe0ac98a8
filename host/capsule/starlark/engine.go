package starlark

import (
	"io"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/world"
)

// Config is how an Engine is to run sources.
type Config struct {
	// Trusted names the sources that ship inside the binary and may run in this process.
	// nil trusts none.
	Trusted func(world.Ref) bool
	// WorkerCommand is the command line, its program an absolute path, of a process that
	// does nothing but call WorkerMain. Without one, sources that are not trusted fail.
	WorkerCommand []string
}

// Engine implements capsule.Engine. Its Check tells the author file, line and column of
// what is wrong. Of a Run the step limit is the end, unless a single builtin call is long.
type Engine struct {
	*worker.Front
	identity capsule.Identity
}

var _ capsule.Engine = (*Engine)(nil)

// New makes an engine after it has reproduced the golden vectors, which takes a few
// milliseconds. Workers are started when first needed.
func New(cfg Config) (*Engine, error) {
	local, err := newMachine()
	if err == nil {
		err = local.proveVectors()
	}
	if err != nil {
		return nil, &world.Error{Op: "starlark.New", Kind: world.KindInternal, Err: err,
			Hint: "this binary was built with another interpreter than its golden vectors are of"}
	}
	local.loaded = newCache()
	return &Engine{
		identity: newIdentity(),
		Front: worker.NewFront(worker.Config{
			Name: "starlark", SourceName: sourceName, Local: local, Trusted: cfg.Trusted, Command: cfg.WorkerCommand,
		}),
	}, nil
}

// WorkerMain is what the hidden verb of Config.WorkerCommand does; see worker.Main.
func WorkerMain(stdin io.Reader, stdout io.Writer) error {
	return worker.Main(stdin, stdout, func() (worker.Machine, error) { return newMachine() })
}

// Identity is the hash of the engine object.
func (e *Engine) Identity() capsule.Identity { return e.identity }

// Extension is ".star".
func (e *Engine) Extension() string { return ".star" }
