package workbench_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/worldtest"
	"ailang.dev/world/host/worldtest/wire"
)

// differs is what differs from run to run: hashes, and moments.
var differs = regexp.MustCompile(`[0-9a-f]{64}|\b[0-9a-f]{12}\b|\d{4}-\d\d-\d\d \d\d:\d\d UTC`)

// TestPagesAreAsTheyWere holds two pages to every byte. Run it with -update, and read the
// difference like code.
func TestPagesAreAsTheyWere(t *testing.T) {
	s := worked(t, worldtest.Options{})
	for name, path := range map[string]string{"timeline.html": "/workbench", "entry.html": "/workbench?entry=2", "denied.html": "/workbench?entry=5"} {
		got := differs.ReplaceAllString(s.get(path, 200), "…")
		file := filepath.Join("testdata", name)
		if wire.Updating() {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
