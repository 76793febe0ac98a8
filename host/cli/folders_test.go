package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPrivateFolder: what is made is this user's alone, what is empty becomes so, and a
// folder that others may be using is left as it is.
func TestPrivateFolder(t *testing.T) {
	top := t.TempDir()
	shared, empty, fresh := filepath.Join(top, "shared"), filepath.Join(top, "empty"), filepath.Join(top, "a", "fresh")
	for _, d := range []string{filepath.Join(shared, "of others"), empty} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for d, want := range map[string]os.FileMode{shared: 0o755, empty: 0o700, fresh: 0o700, filepath.Dir(fresh): 0o700} {
		err := privateFolder(d)
		st, serr := os.Stat(d)
		if serr != nil || st.Mode().Perm() != want || (err != nil) != (d == shared) {
			t.Errorf("%s: %v, mode %v, want %v: %v", d, err, st.Mode(), want, serr)
		}
	}
}
