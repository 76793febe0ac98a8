package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"ailang.dev/world/host/capsule/ailang/ailangtest"
	"ailang.dev/world/host/daemon"
)

// TestTheArchiveIsTheStores: a store has one archive, by whatever name it is opened.
func TestTheArchiveIsTheStores(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	db, link := filepath.Join(dir, "real", "world.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink(db, link); err != nil {
		t.Fatal(err)
	}
	standin, err := ailangtest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	open := func(path, bin string) *daemon.Core {
		t.Helper()
		core, err := daemon.OpenCore(context.Background(), daemon.CoreConfig{DB: path, AilangBin: bin, Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		return core
	}
	first := open(db, standin)
	pinned := first.Ailang.Identity().Ref
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(link, "")
	defer second.Close()
	if len(second.Past) != 1 || second.Past[0].Identity().Ref != pinned {
		t.Errorf("through the link it has %d binaries, want %s", len(second.Past), pinned)
	}
	if _, err := os.Stat(db + daemon.ArchiveSuffix); err != nil {
		t.Error(err)
	}
}
