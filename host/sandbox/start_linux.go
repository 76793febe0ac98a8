package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/world"
)

// tries is how often a run is prepared anew when its tree changes meanwhile.
const tries = 5

// groupWatch is how often a run's control group is looked at.
const groupWatch = 50 * time.Millisecond

// sweepTime bounds what is done to a tree when a run has ended, and sweepTries how often it
// is tried.
const (
	sweepTime  = 30 * time.Second
	sweepTries = 3
)

// streamsEnd is how long what a run wrote may take to arrive once its processes are gone.
// Who then still holds the other end is another run, which was handed it through a socket.
const streamsEnd = 500 * time.Millisecond

// Run is one command at work.
type Run struct {
	spec    *Spec
	base    *found // what was in the tree before
	group   *group
	cmd     *exec.Cmd
	stdout  *stream
	stderr  *stream
	control *os.File // open as long as the run may live
	began   time.Time

	mu     sync.Mutex
	limit  Limit // the first that was met
	killed bool

	landlock int           // what a probe found
	cpu      time.Duration // as told last; of serve alone

	runs   chan struct{} // closed when the command runs
	done   chan struct{} // closed when the result is there
	result Result
	err    error
}

// Run runs a command to its end. The end of ctx kills it, and is the error. An error that is
// no *world.Error means that this host could not confine the command; it did not run.
func (s *Sandbox) Run(ctx context.Context, spec Spec) (Result, error) {
	r, err := s.Start(ctx, spec)
	if err != nil {
		return Result{}, err
	}
	res, err := r.Wait()
	if err == nil && ctx.Err() != nil && res.Limit == LimitNone && res.Exit < 0 {
		err = ctx.Err()
	}
	return res, err
}

// Start starts a command, and returns when it runs. The end of ctx kills it. Wait must be
// called.
func (s *Sandbox) Start(ctx context.Context, spec Spec) (*Run, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		r, err := s.start(ctx, &spec, false)
		if err == nil {
			err = r.started(ctx)
		}
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, errChanged) || try == tries {
			return nil, err
		}
	}
}

// started waits until the command runs. If it cannot, the run is over when it returns.
func (r *Run) started(ctx context.Context) error {
	select {
	case <-r.runs:
		return nil
	case <-r.done:
	}
	switch {
	case r.err != nil:
		return r.err
	case ctx.Err() != nil:
		return ctx.Err()
	case r.result.Limit != LimitNone:
		return nil // it will be told by Wait
	}
	return errors.New("the sandbox ended before the command ran")
}

// start looks at the tree and starts the sandbox's first process.
func (s *Sandbox) start(ctx context.Context, spec *Spec, probe bool) (*Run, error) {
	f, base := &found{}, &found{}
	var err error
	switch t := spec.Tree; {
	case t.writable():
		f, base, err = s.trees.enter(ctx, t)
	case t != nil: // it leaves nothing that must be taken away
		f, err = look(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	if s.hooks.walked != nil {
		s.hooks.walked()
	}
	o := order{
		Argv: spec.Argv, Env: spec.Env, Dir: cmp.Or(spec.Dir, "/tmp"), Protect: f.protect, Cover: f.cover, Limits: spec.Limits,
		Walled: s.groups.walled(), Probe: probe, Program: spec.Program != nil,
	}
	if spec.Tree != nil {
		o.Tree, o.TreeReadOnly = spec.Tree.Path, spec.Tree.ReadOnly
	}
	var r *Run
	if o.ReadOnly, err = binds(spec.ReadOnly); err == nil {
		o.Hide = hidden(spec.Hide, o.ReadOnly)
		r, err = s.launch(ctx, spec, base, &o)
	}
	if err != nil && spec.Tree.writable() {
		s.trees.leave(spec.Tree)
	}
	return r, err
}

// binds says where read-only paths are shown: at their names, and where their names lead.
func binds(paths []string) ([]bind, error) {
	var all []bind
	for _, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			return nil, &world.Error{Op: "sandbox.Start", Kind: world.KindNotFound, Subject: p,
				Msg: fmt.Sprintf("the read-only path %q cannot be used", p), Err: err}
		}
		all = append(all, bind{real, p})
		if real != p {
			all = append(all, bind{real, real})
		}
	}
	return all, nil
}

// hidden adds to the folders that are hidden the other places at which binds show them.
func hidden(folders []string, binds []bind) []string {
	all := slices.Clone(folders)
	for _, b := range binds {
		for _, f := range folders {
			if rel, err := filepath.Rel(b.From, f); err == nil && b.From != b.To && filepath.IsLocal(rel) {
				all = append(all, filepath.Join(b.To, rel))
			}
		}
	}
	return all
}

// launch starts process 1 of the sandbox and all that serves it here.
func (s *Sandbox) launch(ctx context.Context, spec *Spec, base *found, o *order) (*Run, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if len(text) > maxOrder {
		return nil, world.Errorf(world.KindTooLarge, "sandbox.Start", "the run's description is too long: %d bytes", len(text))
	}
	g, err := s.groups.make(spec.Limits)
	if err != nil {
		return nil, &groupError{err}
	}
	r := &Run{spec: spec, base: base, group: g, began: time.Now(), runs: make(chan struct{}), done: make(chan struct{})}
	m := &meter{most: spec.Limits.Output, over: func() { r.end(LimitOutput) }}
	r.stdout, r.stderr = newStream(m, spec.Limits.Keep), newStream(m, spec.Limits.Keep)
	reports, err := r.exec(s.cfg.Command)
	if err != nil {
		return nil, errors.Join(err, g.remove())
	}
	if err := g.add(r.cmd.Process.Pid); err != nil {
		r.kill()
		r.control.Close()
		reports.Close()
		_ = r.cmd.Wait()
		return nil, errors.Join(&groupError{err}, g.remove())
	}
	go r.send(text)
	go r.serve(ctx, s, reports)
	return r, nil
}

// groupError says that a control group could not be made or entered.
type groupError struct{ err error }

func (e *groupError) Error() string { return "control group: " + e.err.Error() }
func (e *groupError) Unwrap() error { return e.err }

// exec starts process 1. It waits for its order before it does anything.
func (r *Run) exec(command []string) (reports *os.File, err error) {
	orders, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	reports, said, err := os.Pipe()
	if err != nil {
		control.Close()
		return nil, err
	}
	defer said.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}
	cmd.Dir = "/"
	if len(r.spec.Stdin) > 0 {
		cmd.Stdin = bytes.NewReader(r.spec.Stdin)
	}
	cmd.Stdout, cmd.Stderr = r.stdout, r.stderr
	cmd.ExtraFiles = []*os.File{orders, said}
	if r.spec.Program != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, r.spec.Program)
	}
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = streamsEnd
	if err := cmd.Start(); err != nil {
		control.Close()
		reports.Close()
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	r.cmd, r.control = cmd, control
	return reports, nil
}

// setupCaps are what process 1 needs until it has made the sandbox, over its own namespaces
// alone: to mount, to change its root, to give capabilities up, and to look at what it runs.
var setupCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP, unix.CAP_SYS_PTRACE, unix.CAP_KILL}

// attributes are the namespaces. The user keeps the number it has, so that files made in the
// tree are its own, and programs see nothing strange.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: setupCaps,
		Setsid:      true,
	}
}

// send hands the order over. It fails if process 1 is gone, which serve finds out.
func (r *Run) send(text []byte) {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	_, _ = r.control.Write(append(head, text...))
}

// serve waits for the end of a run, or brings it about, and makes the result.
func (r *Run) serve(ctx context.Context, s *Sandbox, reports *os.File) {
	defer close(r.done)
	ended := make(chan struct{})
	var watchers sync.WaitGroup
	watchers.Go(func() { r.watch(ctx, ended) })
	rep, heard := r.listen(reports)
	reports.Close()
	err := r.cmd.Wait()
	close(ended)
	watchers.Wait()
	r.control.Close()
	starved := r.group.starved()
	if r.group.crowded() {
		r.note(LimitProcesses)
	}
	if gerr := r.group.remove(); gerr != nil && s.cfg.Logf != nil {
		s.cfg.Logf("sandbox: %v", gerr)
	}
	r.result, r.err = r.conclude(rep, heard, err, starved)
	r.result.Stdout, r.result.Stderr = r.stdout.output(), r.stderr.output()
	r.result.Wall = time.Since(r.began)
	if spec := r.spec; spec.Tree.writable() {
		r.sweep(s)
		s.trees.leave(spec.Tree)
	}
}

// listen reads reports until process 1 is gone, and gives the last.
func (r *Run) listen(reports *os.File) (last report, heard bool) {
	in := json.NewDecoder(io.LimitReader(reports, maxTold))
	for {
		var rep report
		if in.Decode(&rep) != nil {
			return last, heard
		}
		switch {
		case rep.Started:
			close(r.runs)
			continue
		case rep.Running:
			r.cpu = rep.CPU
			continue
		}
		last, heard = rep, true
	}
}

// watch kills the run when ctx ends, its time is over, or its group is full.
func (r *Run) watch(ctx context.Context, ended <-chan struct{}) {
	over := time.NewTimer(r.spec.Limits.Wall)
	defer over.Stop()
	tick := time.NewTicker(groupWatch)
	defer tick.Stop()
	done := ctx.Done()
	for {
		select {
		case <-ended:
			return
		case <-done:
			done = nil
			r.kill()
		case <-over.C:
			r.end(LimitTimeout)
		case <-tick.C:
			switch {
			case r.group.crowded():
				r.end(LimitProcesses)
			case r.group.starved():
				r.end(LimitMemory)
			}
		}
	}
}

// end kills the run because of a limit.
func (r *Run) end(l Limit) {
	r.note(l)
	r.kill()
}

// note keeps the first limit that was met.
func (r *Run) note(l Limit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit == LimitNone && !r.killed {
		r.limit = l
	}
}

// Expire ends the run as if its wall time were over.
func (r *Run) Expire() { r.end(LimitTimeout) }

// Kill ends the run at once, with all that it started. It does not wait.
func (r *Run) Kill() { r.kill() }

// kill kills process 1: the kernel ends all others of the namespace before that one's end
// can be waited for.
func (r *Run) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	_ = r.cmd.Process.Kill() // it may have ended
}

// Output is what the command has written so far.
func (r *Run) Output() (stdout, stderr Output) { return r.stdout.output(), r.stderr.output() }

// Done is closed when the result is there.
func (r *Run) Done() <-chan struct{} { return r.done }

// Wait waits for the end, and for the tree to be put in order. The error is a *world.Error
// where the command could not be started or the tree not be put in order, and otherwise
// means that this host could not confine it.
func (r *Run) Wait() (Result, error) {
	<-r.done
	return r.result, r.err
}

// errChanged says that the tree changed between being looked at and being mounted.
var errChanged = &world.Error{Op: "sandbox.Start", Kind: world.KindInternal, Msg: "the worktree changes while the command is being started; try again"}

// conclude makes a result of what process 1 reported and how it ended.
func (r *Run) conclude(rep report, heard bool, waited error, starved bool) (Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := Result{Exit: -1, Limit: r.limit, CPU: max(r.cpu, r.cmd.ProcessState.UserTime()+r.cmd.ProcessState.SystemTime())}
	if res.Limit == LimitNone && starved {
		res.Limit = LimitMemory
	}
	switch {
	case !heard && (r.killed || res.Limit != LimitNone):
		res.Signal = unix.SignalName(unix.SIGKILL)
		return res, nil
	case !heard:
		return res, fmt.Errorf("the sandbox's first process ended without a word: %v: %s", waited, r.stderr.output().Text)
	}
	switch {
	case rep.Changed:
		return res, errChanged
	case rep.Command:
		return res, &world.Error{Op: "sandbox.Start", Kind: world.KindNotFound, Subject: r.spec.Argv[0],
			Msg: fmt.Sprintf("the command %q cannot be started: %s", r.spec.Argv[0], rep.Why)}
	case rep.Step != "":
		return res, &StepError{Step: rep.Step, Why: rep.Why}
	}
	r.landlock = rep.Landlock
	res.Exit, res.CPU = rep.Exit, rep.CPU
	if rep.Signal != 0 {
		res.Signal = unix.SignalName(syscall.Signal(rep.Signal))
	}
	if res.Limit == LimitNone {
		res.Limit = rep.Limit
	}
	return res, nil
}

// StepError says which part of the confinement this host refused.
type StepError struct{ Step, Why string }

func (e *StepError) Error() string { return e.Step + ": " + e.Why }

// sweep puts the tree in order. A tree that cannot be is an error, whatever the command did;
// while other runs are in it, they may be what stands in the way, and the last one sees to it.
func (r *Run) sweep(s *Sandbox) {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime) // the run's own context may have ended
	defer cancel()
	var err error
	for range sweepTries {
		var names []string
		names, err = r.base.sweep(ctx, r.spec.Tree, s.trees.alone(r.spec.Tree))
		r.result.Removed = append(r.result.Removed, names...)
		if err == nil {
			break
		}
	}
	slices.Sort(r.result.Removed)
	r.result.Removed = slices.Compact(r.result.Removed)
	if len(r.result.Removed) > MaxRemoved {
		r.result.Removed = r.result.Removed[:MaxRemoved]
	}
	if err != nil && s.trees.alone(r.spec.Tree) {
		r.err = errors.Join(r.err, &world.Error{Op: "sandbox.sweep", Kind: world.KindInternal, Subject: r.spec.Tree.Path,
			Msg: "what the command made under protected names could not be taken away", Hint: "look at the worktree", Err: err})
	}
}
