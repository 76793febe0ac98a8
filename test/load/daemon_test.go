// Package load holds what hostile clients do to connections, against a real daemon in a
// process of its own over real sockets: headers and bodies that trickle in, answers that
// nobody takes, peers that vanish, ten thousand connections with nothing to say. All the
// while an honest client must be served, and afterwards descriptors and memory must be as
// they were.
package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/tasks"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

// Bounds of the test itself.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 40 * time.Second
	look         = 50 * time.Millisecond // between two looks at what is waited for
	honestLimit  = 8 * time.Second       // an honest client's call, on a machine that is busy with the test
)

// served is a daemon in a process of its own, with one session.
type served struct {
	t      *testing.T
	cmd    *exec.Cmd
	addr   string // host:port
	token  string // of a session
	user   string // the token of a user
	stderr *tail
}

// tail is what a daemon said last.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.b.Len() > 1<<20 {
		b.b.Reset()
	}
	return b.b.Write(p)
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var program struct {
	once sync.Once
	path string
	err  error
}

// worldd builds the daemon once.
func worldd(t *testing.T) string {
	t.Helper()
	program.once.Do(func() {
		dir, err := os.MkdirTemp("", "worldd")
		if err != nil {
			program.err = err
			return
		}
		program.path = filepath.Join(dir, "ailang-worldd")
		if out, err := exec.Command("go", "build", "-o", program.path, "ailang.dev/world/cmd/ailang-worldd").CombinedOutput(); err != nil {
			program.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if program.path != "" {
		os.RemoveAll(filepath.Dir(program.path))
	}
	os.Exit(code)
}

// serve starts a daemon that may have so many descriptors; 0 leaves it what there is.
func serve(t *testing.T, descriptors int) *served {
	t.Helper()
	dir := t.TempDir()
	s := &served{t: t, stderr: &tail{}}
	db := filepath.Join(dir, "world.db")
	s.furnish(db)
	argv := []string{worldd(t), "serve", "--db", db, "--bind", "127.0.0.1:0"}
	if descriptors > 0 {
		argv = append([]string{"/bin/sh", "-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(descriptors)}, argv...)
	}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	timer := time.AfterFunc(startTimeout, func() { s.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), "http://")
	if err != nil || !ok {
		t.Fatalf("the daemon said %q: %v\n%s", line, err, s.stderr)
	}
	s.addr = url
	return s
}

// furnish makes a store with a genesis, an echo and a session.
func (s *served) furnish(db string) {
	s.t.Helper()
	ctx := s.t.Context()
	core, err := daemon.OpenCore(ctx, daemon.CoreConfig{DB: db, Logf: s.t.Logf})
	if err != nil {
		s.t.Fatal(err)
	}
	ops := core.Ops("")
	p, err := packs.Load("examples")
	if err == nil {
		_, err = ops.Genesis(ctx, "bearing hostility")
	}
	if err == nil {
		_, err = ops.Publish(ctx, registry.Manifest{Text: p.Manifest, Files: p.Files})
	}
	var m admin.Minted
	if err == nil {
		m, err = ops.Mint(ctx, admin.MintRequest{Episode: "honest", TTL: time.Hour, Grants: []world.Grant{{Effect: "Tools.Echo", Scope: "demo"}}})
	}
	var u admin.MintedToken
	if err == nil {
		u, err = ops.MintToken(ctx, admin.TokenRequest{Subject: "honest", Plan: "pro", TTL: "1h"})
	}
	if cerr := core.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.token, s.user = m.Credential, u.Credential
}

// stop ends the daemon in good order: hostile clients must not keep it from that either.
func (s *served) stop() {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Errorf("the daemon was not there any more: %v\n%s", err, s.stderr)
		return
	}
	late := time.AfterFunc(stopTimeout, func() { s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the daemon ended with %v\n%s", err, s.stderr)
	}
}

// state is what a daemon holds.
type state struct{ connections, descriptors, goroutines, heap, stacks, resident, shed float64 }

// state reads the metrics over a connection of its own, which is not counted.
func (s *served) state() (st state) {
	s.t.Helper()
	client := &http.Client{Timeout: honestLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.addr + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	read := map[string]*float64{"world_connections": &st.connections, "process_open_fds": &st.descriptors, "go_goroutines": &st.goroutines,
		"go_memstats_heap_inuse_bytes": &st.heap, "go_memstats_stack_inuse_bytes": &st.stacks, "process_resident_memory_bytes": &st.resident, "world_connections_shed_total": &st.shed}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if into := read[name]; into != nil {
			if *into, err = strconv.ParseFloat(value, 64); err != nil {
				s.t.Fatal(err)
			}
			delete(read, name)
		}
	}
	if err := lines.Err(); err != nil || len(read) > 0 {
		s.t.Fatalf("metrics: %v; not there: %v", err, read)
	}
	st.connections--
	return st
}

func (st state) String() string {
	return fmt.Sprintf("%.0f connections, %.0f descriptors, %.0f goroutines, %.1f MB of heap, %.1f MB of stacks, %.1f MB resident",
		st.connections, st.descriptors, st.goroutines, st.heap/(1<<20), st.stacks/(1<<20), st.resident/(1<<20))
}

// until looks at the daemon until it is as it should be, and fails the test if it is not in
// time.
func (s *served) until(what string, within time.Duration, good func(state) bool) state {
	s.t.Helper()
	deadline := time.Now().Add(within)
	for {
		st := s.state()
		if good(st) {
			return st
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not after %v: %s: %v\n%s", within, what, st, s.stderr)
		}
		<-time.After(look)
	}
}

// honest calls a tool again and again, half of the times over a fresh connection, until its
// end is asked for. It fails the test if one call is not answered well and in time.
func (s *served) honest() (end func() (calls int, worst time.Duration)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var calls int
	var worst time.Duration
	go func() {
		defer close(done)
		kept := &http.Client{Timeout: honestLimit}
		fresh := &http.Client{Timeout: honestLimit, Transport: &http.Transport{DisableKeepAlives: true}}
		defer kept.CloseIdleConnections()
		for ; ctx.Err() == nil; calls++ {
			client := kept
			if calls%2 == 1 {
				client = fresh
			}
			begun := time.Now()
			if err := s.echo(client, fmt.Sprint("call ", calls)); err != nil {
				s.t.Errorf("an honest call, the %dth, after %v: %v", calls, time.Since(begun), err)
				return
			}
			worst = max(worst, time.Since(begun))
		}
	}()
	return func() (int, time.Duration) {
		cancel()
		<-done
		return calls, worst
	}
}

func (s *served) echo(client *http.Client, text string) error {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tools_decho","arguments":{"text":%q}}}`, text)
	req, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/mcp/", strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range s.headers() {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`"structuredContent":{"echo":{"text":%q}}`, text); !bytes.Contains(answer, []byte(want)) {
		return fmt.Errorf("%s: %.200s", resp.Status, answer)
	}
	return nil
}

func (s *served) headers() map[string]string {
	return map[string]string{"Authorization": "Bearer " + s.token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
}

// head is the beginning of a request as it goes over the wire, without the empty line.
func (s *served) head(method, path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, s.addr)
	h := s.headers()
	if path == tasks.Path {
		h["Authorization"] = "Bearer " + s.user
	}
	for name, value := range h {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	return b.String()
}
