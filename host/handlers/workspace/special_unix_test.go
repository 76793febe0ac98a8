//go:build unix

package workspace

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// mkfifo puts a FIFO in place of whatever is there.
func (r *rig) mkfifo(name string) {
	r.t.Helper()
	at := filepath.Join(r.tree, name)
	os.Remove(at)
	must(r.t, syscall.Mkfifo(at, 0o644))
}

// Nothing that is no file is opened, waited for, or replaced.
func TestSpecialFiles(t *testing.T) {
	r := newRig(t)
	r.mkfifo("fifo")
	r.link("fifo", "tofifo")
	t.Chdir(r.tree) // a socket's path is short
	l, err := net.Listen("unix", "sock")
	must(t, err)
	defer l.Close()
	for p, what := range map[string]string{"fifo": "a FIFO", "tofifo": "a FIFO", "sock": "a socket"} {
		text := `path "` + p + `" is ` + what + `, not a file`
		for _, payload := range []obj{read(p), write(p, "x"), edit(p, "a", "b"), {"op": "read", "path": p, "from": 1}, {"op": "grep", "pattern": "x", "path": p}} {
			r.refused(payload, text)
		}
	}
	r.want(obj{"op": "grep", "pattern": "."}, obj{"ok": true, "matches": []any{}, "truncated": false})
	r.want(obj{"op": "glob", "pattern": "*"}, obj{"ok": true, "paths": []string{"tofifo"}, "truncated": false})
	r.refused(read("fifo/x"), `path "fifo/x" does not exist: "fifo" is not a directory`)
}
