package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sealed is a program in memory that nobody can change.
func sealed(t *testing.T, path string) *os.File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	mem := os.NewFile(uintptr(fd), "program")
	defer mem.Close()
	if _, err := mem.Write(text); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(mem.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", mem.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestProgramAndReadOnlyTree: what is executed is the descriptor, whatever Argv names, and
// nothing in a tree that is read-only can be changed, made, spoken to, or is swept.
func TestProgramAndReadOnlyTree(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "shut"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "shut"), 0o700) })
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `echo "$0 $1"; ls /proc/self/fd | tr '\n' ' '; echo
cat a; echo
for f in a new shut/x .git sock; do (echo x >$f) 2>/dev/null && echo wrote $f; done
chmod 777 a 2>/dev/null && echo chmod
mv a b 2>/dev/null && echo mv
for f in sock fifo; do test -f $f && echo $f is covered; done
echo x >/tmp/x && echo tmp`
	s := New(Config{Command: []string{testBinary(t), verb}, Logf: t.Logf})
	for _, readOnly := range []bool{true, false} {
		spec := Spec{Argv: []string{"/no/such", "-c", script, "called", "one"}, Program: sealed(t, "/bin/sh"),
			Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir, Tree: &Tree{Path: dir, ReadOnly: readOnly}, Limits: limits()}
		res, err := s.Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		out := string(res.Stdout.Text)
		const common = "called one\n0 1 2 3 \nbefore\n"
		if readOnly {
			if want := common + "sock is covered\nfifo is covered\ntmp\n"; out != want || res.Exit != 0 {
				t.Errorf("exit %d\n%s\nwant\n%s%s", res.Exit, out, want, res.Stderr.Text)
			}
			if st, err := os.Stat(filepath.Join(dir, "shut")); err != nil || st.Mode().Perm() != 0 {
				t.Errorf("a folder that nobody may read was opened: %v, %v", st.Mode(), err)
			}
			if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
				t.Error("something was made")
			}
			continue
		}
		// The control: what was tried can be done where the tree is not read-only.
		if !strings.HasPrefix(out, common) || !strings.Contains(out, "wrote a\n") || !strings.Contains(out, "wrote .git\n") || !strings.Contains(out, "mv\n") {
			t.Errorf("%s", out)
		}
	}
}
