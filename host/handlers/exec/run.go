package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

// action is a decoded payload, ready to be done.
type action func(ctx context.Context, h *Handler, r broker.Request) ([]byte, error)

type runArgs struct {
	Profile string   `json:"profile"`
	Args    []string `json:"args"`
}

type jobArgs struct {
	Op     string `json:"op"`
	Job    string `json:"job"`
	Action string `json:"action"`
}

// decode reads a payload: {profile, args?}, or {op:"job", job, action}.
func decode(raw []byte) (action, error) {
	members, err := hashref.Members(raw)
	if err != nil {
		return nil, err
	}
	for name, v := range members {
		if v.Kind() == 'n' {
			return nil, fmt.Errorf("member %q must not be null", name)
		}
	}
	if members["op"] == nil {
		var a runArgs
		if members["profile"] == nil {
			return nil, errors.New(`the member "profile" is missing`)
		}
		return a.run, hashref.Decode(raw, &a)
	}
	var a jobArgs
	var op string
	if err := json.Unmarshal(members["op"], &op); err != nil || op != "job" {
		return nil, errors.New(`member "op" must be "job"`)
	}
	if members["job"] == nil {
		return nil, errors.New(`the member "job" is missing`)
	}
	if err := hashref.Decode(raw, &a); err != nil {
		return nil, err
	}
	switch a.Action {
	case "poll":
		return a.poll, nil
	case "cancel":
		return a.cancel, nil
	}
	return nil, errors.New(`member "action" must be "poll" or "cancel"`)
}

// answer is what is told of a run that has ended.
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
	Note       string   `json:"note,omitzero"`
	Job        string   `json:"job,omitzero"`
	Canceled   bool     `json:"canceled,omitzero"`
	stamp
}

// progress is what is told of a job that runs.
type progress struct {
	OK         bool   `json:"ok"`
	Job        string `json:"job"`
	Running    bool   `json:"running"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	Truncated  bool   `json:"truncated"`
	DurationMS int64  `json:"duration_ms"`
	stamp
}

// text makes a stream's bytes text.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

func answerOf(res sandbox.Result, s stamp) answer {
	removed := slices.Clone(res.Removed)
	for i := range removed {
		removed[i] = text([]byte(removed[i]))
	}
	return answer{
		OK: res.Exit == 0, ExitCode: res.Exit, Signal: res.Signal, Limit: string(res.Limit),
		Stdout: text(res.Stdout.Text), Stderr: text(res.Stderr.Text), Truncated: res.Stdout.Left > 0 || res.Stderr.Left > 0,
		DurationMS: res.Wall.Milliseconds(), CPUMS: res.CPU.Milliseconds(), Removed: removed, stamp: s,
	}
}

// run runs a profile.
func (a *runArgs) run(ctx context.Context, h *Handler, r broker.Request) ([]byte, error) {
	const op = "exec.run"
	p := h.profiles[a.Profile]
	if p == nil {
		return nil, h.unknown(a.Profile)
	}
	if why := p.admit(a.Args); why != "" {
		return nil, refusal(why)
	}
	path, err := h.tree(r.Episode)
	if err != nil {
		return nil, err
	}
	release, err := h.cfg.Slots.Take(ctx)
	if err != nil {
		return nil, ended(op, err)
	}
	defer release()
	until := time.Now().Add(callTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-callMargin).Before(until) {
		until = deadline.Add(-callMargin)
	}
	limits := p.Limits.whole(p.Job)
	if !p.Job {
		limits.Wall = min(limits.Wall, time.Until(until))
	}
	if time.Until(until) <= 0 || limits.Wall <= 0 {
		return nil, &world.Error{Op: op, Kind: world.KindDeadline, Msg: "the call's time was over before the command could be started; nothing was run"}
	}
	pol := h.cfg.Policy.For(r.Episode)
	// A run lives as long as the handler; getting it started must end with the call.
	life, cancel := context.WithCancel(h.life)
	attached := context.AfterFunc(ctx, cancel)
	run, err := h.cfg.Sandbox.Start(life, sandbox.Spec{
		Argv: append(inTree(p.Argv, path), a.Args...), Dir: path, Env: inTree(p.env, path), ReadOnly: p.ReadOnly, Hide: append([]string{h.root}, h.cfg.Hide...), Limits: limits,
		Tree: &sandbox.Tree{Path: path, Denied: func(segs []string) bool { return pol.Denies(segs) != "" }},
	})
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, ended(op, ctx.Err())
		}
		return nil, h.failed(op, err)
	}
	go func() { <-run.Done(); cancel() }()
	s := h.stamp(r.Episode, p.tool)
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-run.Done():
	case <-ctx.Done():
		run.Kill()
		<-run.Done()
		return nil, ended(op, ctx.Err())
	case <-timer.C:
		if p.Job && attached() {
			return h.adopt(ctx, r, p, a.Args, run, s)
		}
		run.Expire()
	}
	return h.conclude(op, run, s, "")
}

// conclude waits for a run and makes its answer.
func (h *Handler) conclude(op string, run *sandbox.Run, s stamp, note string) ([]byte, error) {
	res, err := run.Wait()
	if err != nil {
		return nil, h.failed(op, err)
	}
	if h.life.Err() != nil && res.Exit < 0 && res.Limit == sandbox.LimitNone {
		return nil, world.Errorf(world.KindCanceled, op, "the daemon stopped before the command ended")
	}
	a := answerOf(res, s)
	a.Note = note
	return hashref.Marshal(a)
}

// failed is an error of the sandbox for whoever called, and for the operator.
func (h *Handler) failed(op string, err error) error {
	var known *world.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return world.Errorf(world.KindCanceled, op, "the daemon stopped before the command ended")
	}
	return &world.Error{Op: op, Kind: world.KindInternal, Msg: "the command could not be confined, so it was not run", Err: err}
}

func (h *Handler) unknown(name string) error {
	lines := make([]string, len(h.names))
	for i, n := range h.names {
		lines[i] = h.profiles[n].usage()
	}
	return refuse("there is no profile %q; there are: %s", name, strings.Join(lines, "; "))
}
