package ailang

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

// What a run may take. A call leaves callMargin of the broker's time for ending what runs
// and for putting the worktree in order.
const (
	MaxTime    = 8 * time.Second
	callMargin = broker.HandlerTimeout - MaxTime

	maxMemory    = 2 << 30
	maxProcesses = 128
	maxFileSize  = 64 << 20
	maxOpenFiles = 512
	maxOutput    = 16 << 20 // bytes written to both streams; more ends the run
	maxTemp      = 256 << 20
	// MaxKeep is how many bytes of each stream an answer holds: the beginning and the end.
	MaxKeep = 64 << 10
	// maxListing is how many bytes of the list of builtins are searched.
	maxListing = sandbox.MaxKeep

	versionTime = 5 * time.Second
	maxVersion  = 4 << 10
)

// name is what the toolchain is called by, whatever the operator's file is called.
const name = "ailang"

// environment is what the toolchain is told: the same for all, and nothing of the daemon's.
func environment() []string {
	return []string{"HOME=/tmp", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "NO_COLOR=1", "PATH=/usr/bin:/bin", "TERM=dumb", "TMPDIR=/tmp", "TZ=UTC"}
}

func limits(wall time.Duration, keep int) sandbox.Limits {
	return sandbox.Limits{Wall: wall, CPU: 4 * wall, Memory: maxMemory, Processes: maxProcesses, FileSize: maxFileSize,
		OpenFiles: maxOpenFiles, Output: maxOutput, Keep: keep, Temp: maxTemp}
}

// job is one use of the toolchain.
type job struct {
	args  []string
	stdin string
	keep  int
	tree  *sandbox.Tree // nil shows no worktree
	wall  time.Duration
}

// answer is what is told of a run.
type answer struct {
	OK         bool     `json:"ok"`
	ExitCode   int      `json:"exit_code"`
	Signal     string   `json:"signal"`
	Stdout     string   `json:"stdout"`
	Stderr     string   `json:"stderr"`
	Truncated  bool     `json:"truncated"`
	Limit      string   `json:"limit"`
	DurationMS int64    `json:"duration_ms"`
	CPUMS      int64    `json:"cpu_ms"`
	Removed    []string `json:"removed,omitempty"`
	stamp
}

// text makes a stream's bytes text.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

func (c *call) answer(res sandbox.Result) ([]byte, error) {
	removed := slices.Clone(res.Removed)
	for i := range removed {
		removed[i] = text([]byte(removed[i]))
	}
	return hashref.Marshal(answer{
		OK: res.Exit == 0, ExitCode: res.Exit, Signal: res.Signal, Limit: string(res.Limit),
		Stdout: text(res.Stdout.Text), Stderr: text(res.Stderr.Text), Truncated: res.Stdout.Left > 0 || res.Stderr.Left > 0,
		DurationMS: res.Wall.Milliseconds(), CPUMS: res.CPU.Milliseconds(), Removed: removed, stamp: c.stamp,
	})
}

// readOnly shows the worktree, in which nothing can be changed.
func (c *call) readOnly() *sandbox.Tree { return &sandbox.Tree{Path: c.tree, ReadOnly: true} }

// writable shows the worktree, in which what the policy denies cannot be changed.
func (c *call) writable() *sandbox.Tree {
	pol := c.h.cfg.Policy.For(c.episode)
	return &sandbox.Tree{Path: c.tree, Denied: func(segs []string) bool { return pol.Denies(segs) != "" }}
}

// do checks a source.
func (a *checkArgs) do(ctx context.Context, c *call) ([]byte, error) {
	if err := c.source(a.Path); err != nil {
		return nil, err
	}
	return c.run(ctx, job{args: []string{"check", a.Path}, tree: c.readOnly()})
}

// do runs a program. It can change the worktree only if it is given FS.
func (a *runArgs) do(ctx context.Context, c *call) ([]byte, error) {
	if err := a.judge(); err != nil {
		return nil, err
	}
	if err := c.source(a.Path); err != nil {
		return nil, err
	}
	given := slices.Sorted(slices.Values(a.Caps))
	args := []string{"run", "--quiet", "--caps", strings.Join(given, ","), "--entry", "main"}
	if a.ArgsJSON != nil {
		args = append(args, "--args-json", *a.ArgsJSON)
	}
	args = append(args, a.Path)
	if len(a.Argv) > 0 {
		args = append(append(args, "--"), a.Argv...) // no flag of the toolchain's, whatever they look like
	}
	j := job{args: args, stdin: a.Stdin, tree: c.readOnly()}
	if slices.Contains(a.Caps, capFS) {
		j.tree = c.writable()
	}
	return c.run(ctx, j)
}

// run runs the toolchain and tells how it ended.
func (c *call) run(ctx context.Context, j job) ([]byte, error) {
	res, err := c.h.run(ctx, j)
	if err != nil {
		return nil, err
	}
	return c.answer(res)
}

// run waits for a slot and runs the toolchain, after it was proved.
func (h *Handler) run(ctx context.Context, j job) (sandbox.Result, error) {
	const op = "ailang.run"
	none := sandbox.Result{}
	release, err := h.cfg.Slots.Take(ctx)
	if err != nil {
		return none, ended(op, err)
	}
	defer release()
	wall := MaxTime
	if j.wall > 0 {
		wall = j.wall
	}
	if deadline, ok := ctx.Deadline(); ok {
		wall = min(wall, time.Until(deadline)-callMargin)
	}
	if wall <= 0 {
		return none, &world.Error{Op: op, Kind: world.KindDeadline, Msg: "the call's time was over before the toolchain could be started; nothing was run"}
	}
	program, err := h.binary.Sealed()
	if err != nil {
		return none, h.missing(op, err)
	}
	defer program.Close()
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	keep := j.keep
	if keep == 0 {
		keep = MaxKeep
	}
	spec := sandbox.Spec{Argv: append([]string{name}, j.args...), Program: program, Env: environment(), Stdin: []byte(j.stdin),
		Tree: j.tree, Hide: append([]string{h.root}, h.cfg.Hide...), Limits: limits(wall, keep)}
	if j.tree != nil {
		spec.Dir = j.tree.Path
	}
	if h.running != nil {
		h.running()
	}
	res, err := h.cfg.Sandbox.Run(life, spec)
	var known *world.Error
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return none, ended(op, ctx.Err())
	case h.life.Err() != nil:
		return none, world.Errorf(world.KindCanceled, op, "%s", stopped)
	case errors.As(err, &known):
		return none, err
	}
	return none, &world.Error{Op: op, Kind: world.KindInternal, Msg: "the toolchain could not be confined, so it was not run", Err: err}
}

// askVersion is what the toolchain says of itself, verbatim but for white space around it.
func (h *Handler) askVersion(ctx context.Context) (string, error) {
	res, err := h.run(ctx, job{args: []string{"--version"}, wall: versionTime, keep: maxVersion})
	switch said := strings.TrimSpace(string(res.Stdout.Text)); {
	case err != nil:
		var known *world.Error
		if errors.As(err, &known) && known.Msg != "" {
			return "", errors.New(known.Msg)
		}
		return "", err
	case res.Limit == sandbox.LimitTimeout:
		return "", fmt.Errorf("--version takes longer than %v", versionTime)
	case res.Limit != sandbox.LimitNone:
		return "", fmt.Errorf("--version met the limit %s", res.Limit)
	case res.Exit != 0:
		return "", fmt.Errorf("--version: exit code %d: %s", res.Exit, firstLine(text(res.Stderr.Text)))
	case res.Stdout.Left > 0:
		return "", fmt.Errorf("--version says more than %d bytes", maxVersion)
	case said == "" || !utf8.ValidString(said):
		return "", errors.New("--version says nothing that is text")
	default:
		return said, nil
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
