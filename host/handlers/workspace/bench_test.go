package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// BenchmarkPerform is what one effect costs on a tree of 2,000 files in 100 folders.
func BenchmarkPerform(b *testing.B) {
	root := b.TempDir()
	for i := range 2000 {
		at := filepath.Join(root, episode, fmt.Sprintf("d%02d/sub/f%04d.go", i%100, i))
		must(b, os.MkdirAll(filepath.Dir(at), 0o755))
		must(b, os.WriteFile(at, []byte(strings.Repeat("some line of text\n", 200)), 0o644))
	}
	h, err := New(Config{Root: root})
	must(b, err)
	for _, c := range []struct {
		name, effect string
		payload      obj
	}{
		{"read", EffectRead, read("d07/sub/f0007.go")},
		{"list", EffectRead, list("d07/sub")},
		{"glob", EffectRead, obj{"op": "glob", "pattern": "**/*7.go"}},
		{"grep", EffectRead, obj{"op": "grep", "pattern": "no such [a-z]+ here"}},
		{"write", EffectWrite, write("d07/sub/new.go", "text\n")},
	} {
		payload := hashref.MustMarshal(c.payload)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := h.Perform(b.Context(), broker.Request{Episode: episode, Payload: payload,
					Need: world.Need{Effect: c.effect, Scope: Scope, Cost: 1}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
