package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// The oldest git whose switches this package relies on: GIT_CONFIG_GLOBAL came with it.
const needMajor, needMinor = 2, 32

// syncMinor is the minor version that brought the setting core.fsync.
const syncMinor = 36

// binary is the git that was found at the start.
type binary struct {
	path, version string
	old           bool // it does not know core.fsync
	sum           world.Ref
	info          os.FileInfo
}

var gitVersion = regexp.MustCompile(`^git version ((\d{1,4})\.(\d{1,4})[^\s]{0,64})`)

// inspect looks at a git binary. The error is for the operator, and for Ready.
func inspect(ctx context.Context, path string) (binary, error) {
	none := func(err error, format string, args ...any) error {
		return &world.Error{Op: "git.inspect", Kind: world.KindNoHandler, Subject: path, Msg: fmt.Sprintf(format, args...), Err: err,
			Hint: fmt.Sprintf("install git %d.%d or later, and start again", needMajor, needMinor)}
	}
	if path == "" {
		return binary{}, none(nil, "there is no git")
	}
	b := binary{path: path}
	f, err := os.Open(path)
	if err != nil {
		return b, none(err, "git cannot be read")
	}
	defer f.Close()
	if b.info, err = f.Stat(); err != nil || !b.info.Mode().IsRegular() {
		return b, none(err, "git is not a program")
	}
	sum := hashref.NewStream()
	if _, err := io.Copy(sum, f); err != nil {
		return b, none(err, "git cannot be read")
	}
	b.sum = sum.Ref()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := &bounded{max: maxSaid}
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.WaitDelay = []string{"LC_ALL=C", "PATH="}, "/", out, killAfter
	if err := cmd.Run(); err != nil {
		return b, none(err, "git cannot be run")
	}
	m := gitVersion.FindStringSubmatch(out.String())
	if m == nil {
		return b, none(nil, "git tells no version")
	}
	major, _ := strconv.Atoi(m[2])
	minor, _ := strconv.Atoi(m[3])
	if major < needMajor || major == needMajor && minor < needMinor {
		return b, none(nil, "git is too old: %s", m[1])
	}
	b.version, b.old = m[1], major == needMajor && minor < syncMinor
	return b, nil
}

// unchanged tells whether the binary is still the one that the tool object names.
func (b binary) unchanged() error {
	now, err := os.Stat(b.path)
	if err == nil && os.SameFile(now, b.info) && now.Size() == b.info.Size() && now.ModTime().Equal(b.info.ModTime()) {
		return nil
	}
	return &world.Error{Op: "git.unchanged", Kind: world.KindNoHandler, Subject: b.path, Msg: "git was replaced since the daemon started",
		Hint: "start the daemon again", Err: err}
}

// failure is git's own no.
type failure struct {
	verb, said string
	code       int
	err        error
}

func (f *failure) Error() string { return fmt.Sprintf("git %s: %s: %v", f.verb, f.said, f.err) }
func (f *failure) Unwrap() error { return f.err }

// run is one command line of git.
type run struct {
	args  []string
	work  string // the folder that git takes for the worktree; "" is an empty one
	index string // the index; "" is the copy of the worktree's
	fresh bool   // new objects are kept with the call, and go with it
	env   []string
	stdin io.Reader
	out   io.Writer // where what it prints goes; it may stop git with errEnough
}

// errEnough is what a sink answers when it needs no more.
var errEnough = errors.New("enough")

// git runs git and waits for its end. Beside failures of git's own, the end of ctx is an
// error; a sink that had enough is none.
func (c *call) git(ctx context.Context, r run) error {
	if c.h.hooks.observed != nil {
		c.h.hooks.observed(r.args)
	}
	work := r.work
	if work == "" {
		work = c.dir("empty")
	}
	said := &bounded{max: maxSaid}
	cmd := exec.CommandContext(ctx, c.h.tool.path, r.args...)
	cmd.Dir, cmd.Env = work, append(c.environ(work, r), r.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.stdin, r.out, said
	// It is a group of its own, asked to end so that it clears its locks away, and then
	// killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	if err := cmd.Start(); err != nil {
		return err
	}
	confine(cmd.Process.Pid)
	err := cmd.Wait()
	if err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whatever it may have left
	}
	var exit *exec.ExitError
	switch {
	case err == nil, stopped(r.out):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit):
		return &failure{verb: r.args[0], said: strings.TrimSpace(said.String()), code: exit.ExitCode(), err: err}
	}
	return err
}

// stopped tells whether it was the sink that ended git.
func stopped(out io.Writer) bool {
	s, ok := out.(interface{ enough() bool })
	return ok && s.enough()
}

// ask runs git for what it prints; more than maxInternal is an error.
func (c *call) ask(ctx context.Context, r run) (string, error) {
	out := &bounded{max: maxInternal}
	r.out = out
	if err := c.git(ctx, r); err != nil {
		return "", err
	}
	if out.cut {
		return "", refuse("git has more to say than %d bytes: ask for less", maxInternal)
	}
	return out.String(), nil
}

// line is ask for one line.
func (c *call) line(ctx context.Context, r run) (string, error) {
	s, err := c.ask(ctx, r)
	return strings.TrimSuffix(s, "\n"), err
}

// environ is the whole environment of a run; nothing of the daemon's is in it. PATH leads
// nowhere: what we run is built into git, and anything else that it would start is a
// mistake.
func (c *call) environ(work string, r run) []string {
	empty := c.dir("empty")
	objects := c.repo.objects
	if r.fresh {
		objects = c.dir("objects")
	}
	index := r.index
	if index == "" {
		index = c.dir("git", "index")
	}
	env := []string{
		"PATH=" + empty, "HOME=" + empty, "XDG_CONFIG_HOME=" + empty, "TMPDIR=" + c.scratch, "LC_ALL=C", "TZ=UTC",
		"GIT_DIR=" + c.dir("git"), "GIT_WORK_TREE=" + work, "GIT_INDEX_FILE=" + index, "GIT_OBJECT_DIRECTORY=" + objects,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_GRAFT_FILE=/dev/null", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none",
		"GIT_OPTIONAL_LOCKS=0", "GIT_LITERAL_PATHSPECS=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=" + filepath.Join(empty, "none"),
		"SSH_ASKPASS=" + filepath.Join(empty, "none"), "GIT_PAGER=cat", "GIT_EDITOR=:", "GIT_ADVICE=0",
	}
	if r.fresh {
		env = append(env, fleeting...)
	}
	return env
}

// bounded keeps the first max bytes and drops the rest, or stops there. It must not have
// the buffer's ReadFrom, which knows no bound.
type bounded struct {
	kept bytes.Buffer
	max  int
	stop bool // git is ended at the bound
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.max - b.kept.Len()
	if len(p) <= room {
		return b.kept.Write(p)
	}
	b.kept.Write(p[:room])
	b.cut = true
	if b.stop {
		return room, errEnough
	}
	return len(p), nil
}

func (b *bounded) String() string { return b.kept.String() }
func (b *bounded) enough() bool   { return b.stop && b.cut }

// deadline is a context that outlives the caller's, for what must not be cut in half.
func deadline(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}
