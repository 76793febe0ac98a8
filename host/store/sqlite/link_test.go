package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// TestAHardLinkIsNoSecondStore: one file has one writer under all its names, in other
// folders too.
func TestAHardLinkIsNoSecondStore(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "w.db"), filepath.Join(t.TempDir(), "x.db")
	s := openTiny(t, path, nil)
	commit(t, s, storetest.Genesis())
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() error{
		"open":    func() error { _, err := Open(context.Background(), Options{Path: other}); return err },
		"reindex": func() error { _, err := Reindex(context.Background(), Options{Path: other}); return err },
	} {
		if err := open(); world.KindOf(err) != world.KindLocked {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(context.Background(), Options{Path: other, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
