package admin_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/admin"
)

// dialAs connects as another user: the kernel tells the peer who the thread was that connected.
func dialAs(uid int, path string) (net.Conn, error) {
	type result struct {
		c   net.Conn
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			done <- result{nil, e}
			return
		}
		c, err := net.Dial("unix", path)
		done <- result{c, err}
	}()
	r := <-done
	return r.c, r.err
}

// TestOnlyItsUserMayUseTheSocket: the socket is its user's alone, and where its mode does not keep another user out, who
// connects is looked at.
func TestOnlyItsUserMayUseTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := admin.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may use the socket: %v, %v", info.Mode(), err)
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIP: only root can be another user, and try")
	}
	// An abstract name has no mode that would keep anybody out.
	open := fmt.Sprintf("@world-admin-%d", os.Getpid())
	if l, err = net.Listen("unix", open); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	// An operation of no name is answered without asking anything of the operations.
	s := admin.Serve(l, nil, func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf(format, args...))
	})
	defer s.Shutdown(context.Background())
	for _, c := range []struct {
		uid      int
		answered bool
	}{{0, true}, {65534, false}, {0, true}} {
		conn, err := dialAs(c.uid, open)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(conn, "POST /no-such-operation HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		buf := make([]byte, 64)
		n, _ := conn.Read(buf)
		conn.Close()
		if got := strings.HasPrefix(string(buf[:n]), fmt.Sprintf("HTTP/1.1 %d", http.StatusNotFound)); got != c.answered || (!c.answered && n > 0) {
			t.Errorf("user %d was answered %q", c.uid, buf[:n])
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(said) != 1 || !strings.Contains(said[0], "user 65534 may not use the admin socket") {
		t.Errorf("the operator was told %q", said)
	}
}
