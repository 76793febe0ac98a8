package ailang

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ailang.dev/world/host/archive"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
)

const (
	// maxReport is how many bytes of what a binary says of a failure are kept.
	maxReport = 2 << 10
	// maxNoise is how many bytes that are no result a binary may write to a stream before it
	// is ended: to stderr, and to stdout in a check.
	maxNoise = 4 << 20
	// drain is how long output is waited for after a binary's end. Nothing is left to write
	// it where a process namespace ended with it.
	drain = 200 * time.Millisecond
)

// environment is what a subprocess is told: the same everywhere, and nothing of the
// daemon's own.
func environment() []string {
	return []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "TMPDIR=/nonexistent", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC",
		"TERM=dumb", "NO_COLOR=1", "GOTRACEBACK=none"}
}

// job is one use of the binary.
type job struct {
	args     []string
	source   []byte // nil for none
	keepOut  int    // bytes of stdout that are kept
	maxOut   int    // bytes of stdout that it may write; the first one more ends it
	diagnose bool   // after a failure, ask the binary whether the source loads at all
}

// checkJob asks whether a source loads. What it says of that is not bounded by what is kept.
func checkJob(source []byte) job {
	return job{args: []string{"check", sourcePath}, source: source, keepOut: maxReport, maxOut: maxNoise}
}

// outcome is how a job ended. failure is nil after exit code 0.
type outcome struct {
	stdout  []byte
	stderr  string // its first maxReport bytes
	failure error
	broken  bool // the source does not load; set by diagnose
}

// report is what the binary said, for the author of a source.
func (o outcome) report() string {
	text := strings.TrimSpace(o.stderr)
	if text == "" {
		text = trimmed(o.stdout[:min(len(o.stdout), maxReport)])
	}
	if text == "" {
		text = o.failure.Error()
	}
	return readable(text)
}

// readable makes a binary's words harmless to whoever reads them on a terminal.
func readable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

func trimmed(b []byte) string { return string(bytes.TrimSpace(b)) }

// execute waits for a slot and does a job in a scratch folder. An error means that the
// binary did not come to run; a *world.Error among them is KindEngineMissing.
func (e *Engine) execute(ctx context.Context, j job) (outcome, error) {
	if !e.enter() {
		return outcome{}, errClosed
	}
	defer e.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.closing, cancel)()
	release, err := e.cfg.Slots.Take(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer release()
	if j.source != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, capsule.PhaseTimeout)
		defer stop()
	}
	path, err := e.binary.Ready()
	if err != nil {
		return outcome{}, e.missing("ailang.execute", err)
	}
	dir, err := e.scratch.make(j.source)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = removeTree(dir) }() // what stays is tried again at the engine's end
	out, err := e.process(ctx, path, dir, j)
	if err != nil || out.failure == nil || !j.diagnose || ctx.Err() != nil || !out.exited() {
		return out, err
	}
	check, err := e.process(ctx, path, dir, checkJob(nil))
	out.broken = err == nil && check.exited() && check.failure != nil
	if out.broken {
		out.failure = fmt.Errorf("%w; check says: %s", out.failure, oneLine(check.report()))
	}
	return out, nil
}

// exitError is an end by an exit code that is not 0.
type exitError struct {
	code int
	said string
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d: %s", e.code, e.said) }

// exited tells whether the binary ended of its own accord.
func (o outcome) exited() bool {
	var code *exitError
	return o.failure == nil || errors.As(o.failure, &code)
}

// process runs the binary once, and comes back when nothing of it is left that this system
// lets be found.
func (e *Engine) process(ctx context.Context, path, dir string, j job) (outcome, error) {
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	var flooded atomic.Pointer[string]
	over := make(chan struct{})
	flood := func(stream string) func() {
		return sync.OnceFunc(func() {
			if flooded.CompareAndSwap(nil, &stream) {
				close(over)
			}
		})
	}
	stdout := &capped{keep: j.keepOut, most: j.maxOut, over: flood("stdout")}
	stderr := &capped{keep: maxReport, most: maxNoise, over: flood("stderr")}
	cmd, err := e.starter.start(func() *exec.Cmd {
		cmd := exec.Command(path, j.args...)
		cmd.Args[0] = Name
		cmd.Env, cmd.Dir = environment(), dir
		cmd.Stdout, cmd.Stderr = stdout, stderr
		cmd.WaitDelay = drain
		return cmd
	})
	if err != nil {
		if cannotRun(err) {
			return outcome{}, e.missing("ailang.process", fmt.Errorf("the archived binary cannot be executed here: %w", archive.Bare(err)))
		}
		return outcome{}, fmt.Errorf("the binary could not be started: %w", archive.Bare(err))
	}
	if e.started != nil {
		e.started(cmd.Process.Pid)
	}
	ended := make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		select {
		case <-ctx.Done():
			kill(cmd.Process.Pid)
		case <-over:
			kill(cmd.Process.Pid)
		case <-ended:
		}
	}()
	awaitEnd(cmd.Process.Pid)
	close(ended)
	<-killed // before the process is waited for, and its number may be another's
	kill(cmd.Process.Pid)
	e.starter.walls.hunt(dir)
	err = cmd.Wait()
	out := outcome{stdout: stdout.text, stderr: string(stderr.text)}
	switch stream := flooded.Load(); {
	case stream != nil:
		out.failure = fmt.Errorf("it wrote too much to %s", *stream)
	case err == nil:
	case errors.Is(err, exec.ErrWaitDelay):
		out.failure = errors.New("it left a process behind that holds its output")
	case ctx.Err() != nil:
		out.failure = fmt.Errorf("it was ended: %w", ctx.Err())
	case cmd.ProcessState.Exited():
		out.failure = &exitError{cmd.ProcessState.ExitCode(), oneLine(out.said())}
	default:
		out.failure = fmt.Errorf("%s: %s", cmd.ProcessState, oneLine(out.said()))
	}
	return out, nil
}

// said is what it wrote of its failure: stderr, or else stdout.
func (o outcome) said() string {
	if text := strings.TrimSpace(o.stderr); text != "" {
		return readable(text)
	}
	return readable(trimmed(o.stdout[:min(len(o.stdout), maxReport)]))
}

// oneLine makes a cause fit for a line of stderr.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// capped keeps the first bytes written to it, drops the rest, and calls over at the first
// byte over most. It is read only after the process was waited for.
type capped struct {
	text       []byte
	n          int
	keep, most int
	over       func()
}

func (c *capped) Write(p []byte) (int, error) {
	c.text = append(c.text, p[:max(0, min(len(p), c.keep-len(c.text)))]...)
	if c.n += len(p); c.n > c.most {
		c.n = c.most + 1 // it may not grow for ever
		c.over()
	}
	return len(p), nil
}

// scratchPattern names the engines' folders of one archive, so that those which a killed
// daemon left can be told from all others.
func (c Config) scratchPattern() string {
	path, err := filepath.Abs(c.Archive)
	if err != nil {
		path = c.Archive
	}
	return filepath.Join(c.Temp, "ailang-world-"+hashref.SumString(path).Hex()[:16]+"-*")
}

// Sweep removes what killed daemons left in the folder for scratch folders, and what they had
// not written whole in the archive. Nothing else may be using the archive.
func Sweep(cfg Config) {
	left, _ := filepath.Glob(cfg.scratchPattern())
	for _, dir := range left {
		_ = removeTree(dir) // what is another user's stays
	}
	archive.Sweep(cfg.Archive)
}

// removeTree removes a folder also if what ran in it took away the right to.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// scratch makes folders for runs, each its own, in one that the engine removes at its end.
type scratch struct {
	parent, pattern string

	mu   sync.Mutex
	root string
	held *os.File // root, open, so that nothing else is taken for it
}

// make makes a folder with the source in its place, if there is one.
func (s *scratch) make(source []byte) (string, error) {
	dir, err := s.folder()
	if err != nil || source == nil {
		return dir, err
	}
	file := filepath.Join(dir, sourcePath)
	if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
		err = os.WriteFile(file, source, 0o400)
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// folder makes an empty folder. The root is made when it is first needed, and again when it
// is gone: systems clear such places of what looks unused. What somebody else put there
// under its name is not it.
func (s *scratch) folder() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.there() {
		if err := s.makeRoot(); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(s.root, "run-*")
}

// there tells whether the root is what was made.
func (s *scratch) there() bool {
	if s.held == nil {
		return false
	}
	mine, err := s.held.Stat()
	now, nerr := os.Lstat(s.root)
	return err == nil && nerr == nil && os.SameFile(mine, now)
}

func (s *scratch) makeRoot() error {
	if s.held != nil {
		s.held.Close()
		s.held = nil
	}
	root, err := os.MkdirTemp(s.parent, s.pattern)
	if err != nil {
		return err
	}
	if s.root, err = filepath.EvalSymlinks(root); err != nil { // as the kernel names it
		return err
	}
	s.held, err = os.Open(s.root)
	return err
}

func (s *scratch) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.there()
	if s.held != nil {
		s.held.Close()
		s.held = nil
	}
	if !there {
		return nil
	}
	return removeTree(s.root)
}
