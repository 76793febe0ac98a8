package packtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/handlers/ailang"
	"ailang.dev/world/host/handlers/exec"
	"ailang.dev/world/host/sandbox"
)

// sandboxVerb is what a test binary is started with to be process 1 of a sandbox.
const sandboxVerb = "sandbox-init"

// Main is the TestMain of a package that calls ServeExec or ServeAilang.
func Main(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == sandboxVerb {
		if err := sandbox.Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ServeExec lets the tools of the bench run commands in its worktree. No job is possible.
func (b *Bench) ServeExec(profiles ...exec.Profile) {
	b.T.Helper()
	h, err := exec.New(b.T.Context(), exec.Config{Root: filepath.Dir(b.Tree), Profiles: profiles, Slots: capsule.NewSlots(1), Sandbox: b.sandbox()})
	Must(b.T, err)
	b.T.Cleanup(func() { Must(b.T, h.Close(context.Background())) })
	b.handlers[exec.Effect] = h
}

func (b *Bench) sandbox() *sandbox.Sandbox {
	exe, err := os.Executable()
	Must(b.T, err)
	return sandbox.New(sandbox.Config{Command: []string{exe, sandboxVerb}, Logf: b.T.Logf})
}

// ServeAilang lets the tools of the bench use a toolchain in its worktree, and a folder of
// examples, "" for none.
func (b *Bench) ServeAilang(toolchain, examples string) {
	b.T.Helper()
	h, err := ailang.New(b.T.Context(), ailang.Config{Root: filepath.Dir(b.Tree), Binary: toolchain, Archive: b.T.TempDir(), Examples: examples,
		Slots: capsule.NewSlots(1), Sandbox: b.sandbox(), Logf: b.T.Logf})
	Must(b.T, err)
	b.T.Cleanup(func() { Must(b.T, h.Close(context.Background())) })
	for _, e := range h.Effects() {
		b.handlers[e] = h
	}
}
