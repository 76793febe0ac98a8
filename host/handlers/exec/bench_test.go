package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

// BenchmarkPerform is what a call costs that runs true, in an empty worktree and in one of
// 100,000 files in 2,000 folders, which is looked through before the run and after it.
func BenchmarkPerform(b *testing.B) {
	for _, folders := range []int{0, 2000} {
		b.Run(fmt.Sprintf("files=%d", folders*50), func(b *testing.B) {
			root, exe := b.TempDir(), must1(os.Executable())(b)
			for i := range max(folders, 1) {
				dir := filepath.Join(root, episode, fmt.Sprintf("package-%d", i%100), fmt.Sprintf("folder-%d", i))
				must(b, os.MkdirAll(dir, 0o755))
				for j := 0; j < 50 && folders > 0; j++ {
					must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("some-source-file-%d.js", j)), nil, 0o644))
				}
			}
			h, err := New(b.Context(), Config{Root: root, Profiles: []Profile{{Name: "true", Argv: []string{"true"}}}, Slots: capsule.NewSlots(1),
				Now: time.Now, Sandbox: sandbox.New(sandbox.Config{Command: []string{exe, verb}})})
			must(b, err)
			payload := hashref.MustMarshal(obj{"profile": "true"})
			for b.Loop() {
				_, err := h.Perform(b.Context(), broker.Request{Episode: episode, Need: world.Need{Effect: Effect, Scope: Scope}, Payload: payload})
				must(b, err)
			}
			must(b, h.Close(b.Context()))
		})
	}
}

func must1[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		must(t, err)
		return v
	}
}
