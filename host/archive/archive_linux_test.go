package archive

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/world"
)

// TestUnsealedIsTold: where what is executed is no sealed copy the operator is told, once
// for as long as it is so. What may pass is tried again at each run; what will not is not.
func TestUnsealedIsTold(t *testing.T) {
	dir := t.TempDir()
	ref := archived(t, dir, "program")
	path := Path(dir, ref)
	for _, tt := range []struct {
		why   error
		tries int // of three runs
	}{
		{unix.EACCES, 1}, {unix.EPERM, 1}, {unix.ENOSYS, 1}, {unix.EINVAL, 1}, {unix.ENOMEM, 3}, {unix.EMFILE, 3},
	} {
		var told []string
		tries, why := 0, tt.why
		b := &Binary{
			path: path, ref: ref, name: "test",
			logf: func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) },
			seal: func(path string, ref world.Ref) (*image, error) {
				if tries++; why == nil {
					return newImage(path, ref)
				}
				return &image{path: path, unsealed: &os.PathError{Op: "memfd_create", Path: path, Err: why}}, nil
			},
		}
		for range 3 {
			if at, err := b.Ready(); err != nil || at != path {
				t.Errorf("%v: %q, %v", tt.why, at, err)
			}
		}
		if tries != tt.tries || len(told) != 1 || !strings.Contains(told[0], fmt.Sprintf("no sealed copy of %s can be had (%v)", b.ref, tt.why)) {
			t.Errorf("%v: %d tries, told %q", tt.why, tries, told)
		}
		why = nil
		at, err := b.Ready()
		if err != nil || (at != path) != (tt.tries == 3) {
			t.Errorf("%v passed: %q, %v", tt.why, at, err)
		}
		b.Close()
	}
}

// TestSealed: what is executed is a copy that nobody can change, and it is let go only when
// the file under its name is still what the name says.
func TestSealed(t *testing.T) {
	dir := t.TempDir()
	ref := archived(t, dir, "program")
	b := New(dir, ref, "test", t.Logf)
	defer b.Close()
	f, err := b.Sealed()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err != nil || string(text) != "program" {
		t.Errorf("%q, %v", text, err)
	}
	f.Close()
	at, err := b.Ready()
	if err != nil {
		t.Fatal(err)
	}
	if w, err := os.OpenFile(at, os.O_RDWR, 0); err == nil {
		if _, err := w.WriteString("x"); err == nil {
			t.Error("a sealed copy was written to")
		}
		w.Close()
	}
	for name, change := range map[string]func() error{
		"changed": func() error { return os.WriteFile(Path(dir, ref), []byte("prograM"), 0o500) },
		"gone":    func() error { return os.Remove(Path(dir, ref)) },
		"a link":  func() error { return os.Symlink("/bin/true", Path(dir, ref)) },
	} {
		_ = os.Remove(Path(dir, ref))
		archived(t, dir, "program")
		if err := b.Prove(); err != nil {
			t.Fatal(err)
		}
		_ = os.Chmod(Path(dir, ref), 0o700)
		if name != "changed" {
			_ = os.Remove(Path(dir, ref))
		}
		if err := change(); name != "gone" && err != nil {
			t.Fatal(err)
		}
		if f, err := b.Sealed(); err == nil {
			f.Close()
			t.Errorf("%s: the copy is still let go", name)
		}
	}
	unsealed := New(dir, archived(t, dir, "other"), "test", t.Logf)
	unsealed.seal = func(path string, _ world.Ref) (*image, error) {
		return &image{path: path, unsealed: unix.ENOSYS}, nil
	}
	if _, err := unsealed.Sealed(); err == nil || !strings.Contains(err.Error(), "no sealed copy") {
		t.Errorf("no seal: %v", err)
	}
}
