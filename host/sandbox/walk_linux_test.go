package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"ailang.dev/world/host/world"
)

// TestOneLargeFolder: a folder with more names than are looked at is not read whole first.
func TestOneLargeFolder(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 * ctxEvery {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("a-name-that-takes-its-place-", i)), nil, 0o600))
	}
	for most, refused := range map[int]bool{10: true, 3 * ctxEvery: false} {
		top, err := os.Open(dir)
		must(t, err)
		defer top.Close()
		seen := 0
		w := &walker{ctx: t.Context(), tree: &Tree{Path: dir}, most: most, visit: func(*os.File, string, fs.DirEntry, bool) error {
			seen++
			return nil
		}}
		err = w.dir(top, nil)
		left, rerr := top.ReadDir(1)
		switch {
		case !refused && (err != nil || seen != most || len(left) != 0):
			t.Errorf("%v, %d names, %d left: %v", err, seen, len(left), rerr)
		case refused && (world.KindOf(err) != world.KindTooLarge || seen > 0 || len(left) == 0):
			t.Errorf("%v, %d names, %d left: %v", err, seen, len(left), rerr)
		}
	}
}
