package git

import (
	"os"
	"testing"
)

// BenchmarkStatus holds a status against plain git's, on the same worktree.
func BenchmarkStatus(b *testing.B) {
	h, tree, plain := forBench(b)
	b.Run("handler", func(b *testing.B) {
		for b.Loop() {
			if _, err := h.Perform(b.Context(), request("status", nil)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			cmd := plain(tree, "status", "--porcelain=v2", "-z", "--untracked-files=all")
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCommit makes commits of one small file.
func BenchmarkCommit(b *testing.B) {
	h, tree, _ := forBench(b)
	n := 0
	for b.Loop() {
		n++
		if err := os.WriteFile(tree+"/a.txt", []byte{byte(n), byte(n >> 8), 1}, 0o644); err != nil {
			b.Fatal(err)
		}
		if _, err := h.Perform(b.Context(), request("commit", map[string]any{"message": "m"})); err != nil {
			b.Fatal(err)
		}
	}
}
