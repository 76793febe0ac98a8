package wasm

import (
	"io"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/capsule/worker"
	"ailang.dev/world/host/world"
)

// Config is how an Engine is to run modules.
type Config struct {
	// WorkerCommand is the command line, its program an absolute path, of a process that
	// does nothing but call WorkerMain. Without one, every run fails.
	WorkerCommand []string
}

// Engine implements capsule.Engine.
type Engine struct {
	*worker.Front
	identity capsule.Identity
}

var _ capsule.Engine = (*Engine)(nil)

// New makes an engine after it has reproduced the golden vectors, which takes a few
// milliseconds. Workers are started when first needed.
func New(cfg Config) (*Engine, error) {
	if err := proveVectors(); err != nil {
		return nil, &world.Error{Op: "wasm.New", Kind: world.KindInternal, Err: err,
			Hint: "this binary was built with another runtime than its golden vectors are of"}
	}
	return &Engine{
		identity: newIdentity(),
		Front:    worker.NewFront(worker.Config{Name: "wasm", SourceName: sourceName, Command: cfg.WorkerCommand}),
	}, nil
}

// WorkerMain is what the hidden verb of Config.WorkerCommand does; see worker.Main.
func WorkerMain(stdin io.Reader, stdout io.Writer) error {
	return worker.Main(stdin, stdout, func() (worker.Machine, error) { return newMachine(compileBytes) })
}

// Identity is the hash of the engine object.
func (e *Engine) Identity() capsule.Identity { return e.identity }

// Extension is ".wasm".
func (e *Engine) Extension() string { return ".wasm" }
