package daemon

import (
	"fmt"
	"io"
	"slices"

	"ailang.dev/world/host/capsule/starlark"
	"ailang.dev/world/host/capsule/wasm"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// Names of the embedded engines, as a worker's command line has them.
const (
	engineStarlark = "starlark"
	engineWasm     = "wasm"
)

// openEmbedded makes the engines that are part of this binary.
func (c *Core) openEmbedded() error {
	trusted := packs.Trusted()
	star, err := starlark.New(starlark.Config{
		Trusted:       func(r world.Ref) bool { return trusted[r] },
		WorkerCommand: c.workerCommand(engineStarlark),
	})
	if err != nil {
		return fmt.Errorf("starlark engine: %w", err)
	}
	c.Engines = append(c.Engines, star)
	modules, err := wasm.New(wasm.Config{WorkerCommand: c.workerCommand(engineWasm)})
	if err != nil {
		return fmt.Errorf("wasm engine: %w", err)
	}
	c.Engines = append(c.Engines, modules)
	return nil
}

func (c *Core) workerCommand(engine string) []string {
	if len(c.Config.WorkerCommand) == 0 {
		return nil
	}
	return append(slices.Clone(c.Config.WorkerCommand), engine)
}

// WorkerMain is a worker of the engine of that name, over stdin and stdout, until stdin ends.
func WorkerMain(engine string, stdin io.Reader, stdout io.Writer) error {
	switch engine {
	case engineStarlark:
		return starlark.WorkerMain(stdin, stdout)
	case engineWasm:
		return wasm.WorkerMain(stdin, stdout)
	}
	return world.Errorf(world.KindBadRequest, "daemon.WorkerMain", "no embedded engine is called %q", engine)
}
