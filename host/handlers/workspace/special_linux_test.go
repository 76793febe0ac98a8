package workspace

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"ailang.dev/world/host/world"
)

// nobody is a user id without rights.
const nobody = 65534

// asNobody runs f on a thread whose file accesses are those of a user without rights.
// Without the right to change that, the tests already run as such a user.
func asNobody(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			syscall.Syscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		}
		f()
	}()
	<-done
}

func TestDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a device")
	}
	r := newRig(t)
	must(t, syscall.Mknod(filepath.Join(r.tree, "null"), syscall.S_IFCHR|0o666, 1<<8|3))
	for _, payload := range []obj{read("null"), write("null", "x"), edit("null", "a", "b")} {
		r.refused(payload, `path "null" is a device, not a file`)
	}
}

func TestPermissionDenied(t *testing.T) {
	r := newRig(t)
	for dir := r.tree; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	r.put(map[string]string{"closed": "hit", "open": "hit", "dir/f": "hit", "locked/f": "hit"})
	must(t, os.Chmod(filepath.Join(r.tree, "closed"), 0o200))
	must(t, os.Chmod(filepath.Join(r.tree, "dir"), 0o555))
	must(t, os.Chmod(filepath.Join(r.tree, "locked"), 0))
	asNobody(func() {
		r.refused(read("closed"), `path "closed" cannot be read: permission denied`)
		r.refused(write("dir/g", "x"), `path "dir/g" cannot be written: permission denied`)
		r.refused(write("dir/f", "x"), `path "dir/f" cannot be written: permission denied`)
		r.refused(write("dir/n/g", "x"), `path "dir/n/g" cannot be written: permission denied`)
		r.refused(read("locked/f"), `path "locked/f" cannot be opened: permission denied`)
		r.refused(list("locked"), `path "locked" cannot be opened: permission denied`)
		// A walk goes round what it may not read, and says that it left something out.
		r.want(obj{"op": "grep", "pattern": "hit"}, obj{"ok": true, "truncated": true, "matches": []obj{
			{"path": "dir/f", "line": 1, "text": "hit", "before": []any{}, "after": []any{}},
			{"path": "open", "line": 1, "text": "hit", "before": []any{}, "after": []any{}}}})
	})
	for _, dir := range []string{"locked", "dir"} { // so that they can be looked into and removed
		must(t, os.Chmod(filepath.Join(r.tree, dir), 0o755))
	}
	r.tidy()
}

// A real full disk: the old file stays whole, nothing is left.
func TestDiskFull(t *testing.T) {
	r := newRig(t)
	if err := syscall.Mount("tmpfs", r.tree, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system (%v); TestFailedWritesLeaveNothing stages the same error", err)
	}
	defer syscall.Unmount(r.tree, 0)
	r.want(write("a", "old"), obj{"ok": true, "created": true, "bytes": 3})
	for range 3 {
		for _, p := range []obj{write("a", strings.Repeat("x", 1<<20)), write("n/b", strings.Repeat("x", 1<<20))} {
			if _, err := r.perform(p); world.KindOf(err) != world.KindStoreFull {
				t.Errorf("got %v", err)
			}
		}
	}
	r.want(list("."), obj{"ok": true, "entries": []any{obj{"name": "a", "type": "file", "size": 3}}, "truncated": false})
	r.want(edit("a", "old", "new"), obj{"ok": true, "replaced": 1, "line": 1, "bytes": 3})
	r.tidy()
}
