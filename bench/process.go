package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds of a server's life.
const (
	startLimit = 5 * time.Minute // a large store may index what it was killed over
	stopLimit  = time.Minute
	tailBytes  = 4 << 10 // of what it said on stderr, for errors
)

// server is one process that is measured.
type server struct {
	name  string
	url   string
	ready time.Duration // from its start to its line on stdout

	cmd  *exec.Cmd
	said *tail
	in   io.Closer
}

// listening is how every server here says on stdout that it serves.
const listening = " listening on "

// start runs a command line until it says where it listens. env is added to this
// program's.
func start(ctx context.Context, name string, argv []string, env ...string) (*server, error) {
	s := &server{name: name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), said: &tail{}}
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stderr = s.said
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = stopLimit
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	said := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		s.ready = time.Since(begun)
		_, url, ok := strings.Cut(strings.TrimSpace(line), listening)
		if s.url = url; err == nil && !ok {
			err = fmt.Errorf("said %q", line)
		}
		said <- err
	}()
	select {
	case err = <-said:
	case <-time.After(startLimit):
		err = fmt.Errorf("did not serve within %v", startLimit)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %s", name, err, s.said), s.stop())
	}
	return s, nil
}

// stop ends the process in good order.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	s.in.Close() // a rival ends with it too
	late := time.AfterFunc(stopLimit, func() { s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%s ended with %w: %s", s.name, err, s.said)
	}
	return nil
}

// stopAll stops servers and joins what went wrong to err.
func stopAll(servers []*server, err error) error {
	for _, s := range servers {
		err = errors.Join(err, s.stop())
	}
	return err
}

// ticks of a second in /proc/PID/stat: USER_HZ, the same on every Linux.
const ticks = 100

// cpu is the processor time it has used, of user and system.
func (s *server) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything; state is the field after it.
	rest := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(rest) < 13 {
		return 0, fmt.Errorf("/proc stat has %d fields", len(rest))
	}
	user, err := strconv.ParseInt(rest[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(rest[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks, err
}

// memory is its resident bytes now, and the most they ever were.
func (s *server) memory() (now, most float64, err error) {
	now, _, most, err = s.parts()
	return now, most, err
}

// parts are its resident bytes now, those of them that are its own and not pages of files,
// and the most there ever were.
func (s *server) parts() (now, own, most float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, 0, 0, err
	}
	field := func(name string) (kb float64) {
		_, rest, _ := strings.Cut(string(b), "\n"+name+":")
		if _, serr := fmt.Sscanf(rest, "%f kB", &kb); serr != nil {
			err = fmt.Errorf("/proc status has no %s: %w", name, serr)
		}
		return kb * 1024
	}
	now, own, most = field("VmRSS"), field("RssAnon"), field("VmHWM")
	return now, own, most, err
}

// written is the bytes that it has sent on their way to a disk.
func (s *server) written() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var n float64
	_, rest, _ := strings.Cut(string(b), "\nwrite_bytes:")
	_, err = fmt.Sscan(rest, &n)
	return n, err
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = t.kept[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
