package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mounted gives a folder on a small file system of its own, or skips the test.
func mounted(t *testing.T, mount func(dir string) error) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	dir := t.TempDir()
	if err := mount(dir); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	return store
}

// TestFullDisk fills the file system of the store under a daemon at work, and makes room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	store := mounted(t, func(dir string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=0700") })
	s := newSite(t, store)
	s.start()
	s.allDone("before", s.load("before", 3))
	filler := filepath.Join(store, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for _, err = f.Write(make([]byte, 1<<12)); err == nil; _, err = f.Write(make([]byte, 1<<12)) {
	}
	if err := f.Close(); err != nil {
		t.Logf("the filler: %v", err)
	}
	refused := 0
	for round := 0; refused == 0 && round < 40; round++ { // what the log's file had room for already
		told := answers(s.load(fmt.Sprint("full", round), 6))
		refused += told["invocation was not committed"] + told[unrecorded]
	}
	if refused == 0 {
		t.Error("the disk does not fill")
	}
	hurt := s.load("full", 6)
	s.reads("on a full disk")
	t.Logf("%d calls until it was full, then %v", len(s.tasks), answers(hurt))
	if answers(hurt)["done"] == len(hurt) {
		t.Error("a full disk was not noticed")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.allDone("with room", s.load("room", 3))
	s.settle()
}

// TestReadOnlyDisk makes the file system of the store read-only under a daemon at work, as
// the kernel does when a disk fails. Nothing is acknowledged from then on, reads go on, and
// what was acknowledged is there when it is mounted anew.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "image")
	var device string
	mount := func(image, dir string) error {
		out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	store := mounted(t, func(dir string) error {
		device = dir
		if err := os.WriteFile(image, nil, 0o600); err != nil {
			return err
		}
		if err := allocate(image, 32<<20); err != nil {
			return err
		}
		if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return mount(image, dir)
	})
	s := newSite(t, store)
	s.start()
	s.allDone("before", s.load("before", 3))
	if err := unix.Mount("", device, "", unix.MS_REMOUNT, "abort"); err != nil {
		t.Skipf("a file system cannot be made read-only under its writers here: %v", err)
	}
	// The kernel may finish it by a worker of its own.
	for until := time.Now().Add(startTimeout); os.WriteFile(filepath.Join(store, "x"), nil, 0o600) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the file system does not become read-only")
		}
	}
	hurt := s.load("hurt", 6)
	t.Logf("read-only: %v", answers(hurt))
	for _, tk := range hurt {
		if tk.acked {
			t.Errorf("%s was acknowledged on a read-only disk", tk.id)
		}
	}
	s.reads("on a read-only disk")
	s.kill()
	// Starting there is refused, with the way out.
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.bin, "serve", "--db", s.db, "--bind", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "read-only") && !strings.Contains(string(out), "writable") {
		t.Errorf("a start on a read-only disk: %v, %s", err, out)
	}
	// A copy is mounted, as after a loss of power: whoever holds the old one still, a mount of the same
	// file would be that one again. Its journal is played again.
	for until := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Unmount(device, 0)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
			t.Fatal(err)
		}
	}
	disk, err := os.ReadFile(image)
	if err == nil {
		err = os.WriteFile(image+".copy", disk, 0o600)
	}
	if err == nil {
		err = mount(image+".copy", device)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	s.allDone("mounted anew", s.load("anew", 3))
	s.settle()
}

// allocate makes a file have its blocks: a device over it must not run out of space.
func allocate(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Close())
}
