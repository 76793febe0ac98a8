// Package exec performs Workspace.Exec: it runs the commands that the operator declared, in
// the worktree of an episode, confined by host/sandbox. It owns what a profile may say,
// which arguments an agent may add, what comes back of a run, and the runs that go on after
// their call as jobs. It never runs a shell of its own, never a command that no profile
// names, and none at all on a host that cannot confine it. It decides nothing about
// authority. Answers spec/13-exec.md.
package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

// Effect is the one effect, Scope the one scope in which it is performed.
const (
	Effect = "Workspace.Exec"
	Scope  = "worktree"
)

// Version is the behaviour of this handler as its tool objects name it.
const Version = "1"

const provenance = "handler:exec"

// A call leaves callMargin of its time for ending what runs and for putting the tree in
// order; callTime is what is left of the broker's time then.
const (
	callMargin = 2 * time.Second
	callTime   = broker.HandlerTimeout - callMargin
)

// Config is what a Handler is made of.
type Config struct {
	// Root is the folder that holds one real directory an episode.
	Root     string
	Policy   *policy.Set // nil is what is built in alone
	Profiles []Profile
	Sandbox  *sandbox.Sandbox
	// Hide are folders that no command may see, unless its profile names a path in one.
	Hide []string
	// Slots bounds the subprocesses of calls; jobs have their own bounds.
	Slots *capsule.Slots
	// Ledger keeps account of jobs; without one no profile may allow them.
	Ledger Ledger
	Now    func() time.Time
	Logf   func(format string, args ...any)
}

// Handler performs Workspace.Exec. It is safe for concurrent use.
type Handler struct {
	cfg      Config
	root     string // real
	names    []string
	profiles map[string]*profile
	objects  []world.Object
	tool     world.Object // of answers that come of no profile
	jobs     *jobs
	life     context.Context // ends with Close
	end      context.CancelFunc
}

// New makes a handler. It is an error, for the operator, if a profile cannot be read, or if
// this host cannot confine what profiles name; the latter says what is missing and how to
// get it. Without profiles the host is not looked at.
func New(ctx context.Context, c Config) (*Handler, error) {
	const op = "exec.New"
	if c.Policy == nil {
		c.Policy = policy.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	root, err := filepath.Abs(c.Root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Subject: c.Root,
			Msg: fmt.Sprintf("workspace root %q cannot be used", c.Root), Err: err}
	}
	if len(c.Profiles) > MaxProfiles {
		return nil, world.Errorf(world.KindBadRequest, op, "%d profiles; at most %d", len(c.Profiles), MaxProfiles)
	}
	h := &Handler{cfg: c, root: root, profiles: make(map[string]*profile)}
	h.life, h.end = context.WithCancel(context.Background())
	h.jobs = newJobs(c.Now)
	h.tool = tool(nil)
	h.objects = append([]world.Object{h.tool}, c.Policy.Objects()...)
	for _, p := range c.Profiles {
		if err := h.add(p); err != nil {
			return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Subject: p.Name,
				Msg: fmt.Sprintf("profile %q: %v", p.Name, err), Err: err}
		}
	}
	slices.Sort(h.names)
	if len(h.names) == 0 {
		return h, nil
	}
	return h, h.probe(ctx)
}

func (h *Handler) add(p Profile) error {
	done, err := prepare(p)
	switch {
	case err != nil:
		return err
	case h.profiles[p.Name] != nil:
		return wrong("name", "is declared twice")
	case p.Job && h.cfg.Ledger == nil:
		return wrong("job", "is not possible here: nothing keeps account of jobs")
	}
	done.tool = tool(&p)
	h.profiles[p.Name] = done
	h.names = append(h.names, p.Name)
	h.objects = append(h.objects, done.tool)
	return nil
}

// tool is what did it: this handler, and the profile that it ran.
func tool(p *Profile) world.Object {
	type args struct {
		Max      int    `json:"max"`
		MaxBytes int    `json:"max_bytes"`
		Pattern  string `json:"pattern"`
		Flags    bool   `json:"flags"`
	}
	type limits struct {
		Timeout   string `json:"timeout"`
		CPU       string `json:"cpu"`
		Memory    int64  `json:"memory"`
		Processes int    `json:"processes"`
		FileSize  int64  `json:"file_size"`
		OpenFiles int    `json:"open_files"`
		Output    int64  `json:"output"`
		Temp      int64  `json:"temp"`
	}
	type shown struct {
		Name     string            `json:"name"`
		Argv     []string          `json:"argv"`
		Args     args              `json:"args"`
		ReadOnly []string          `json:"read_only"`
		Env      map[string]string `json:"env"`
		Limits   limits            `json:"limits"`
		Job      bool              `json:"job"`
	}
	var of *shown
	if p != nil {
		l := p.Limits.whole(p.Job)
		of = &shown{p.Name, p.Argv, args(p.Args), append([]string{}, p.ReadOnly...), map[string]string{}, limits{
			l.Wall.String(), l.CPU.String(), l.Memory, l.Processes, l.FileSize, l.OpenFiles, l.Output, l.Temp}, p.Job}
		for k, v := range p.Env {
			of.Env[k] = hashref.SumString(v).String() // a value may be a secret
		}
	}
	return world.NewObject(world.SemTool, provenance, hashref.MustMarshal(struct {
		Handler string   `json:"handler"`
		Version string   `json:"version"`
		Effects []string `json:"effects"`
		Profile *shown   `json:"profile"`
	}{"exec", Version, []string{Effect}, of}))
}

// probe refuses to serve profiles that cannot be confined.
func (h *Handler) probe(ctx context.Context) error {
	rep := h.cfg.Sandbox.Probe(ctx)
	if !rep.OK() {
		return &world.Error{Op: "exec.New", Kind: world.KindNoHandler, Subject: strings.Join(h.names, " "),
			Msg:  "this host cannot confine commands, so the profiles of the configuration cannot be served:\n" + strings.TrimSpace(rep.Text()),
			Hint: "provide what is missing, or take the profiles out of the configuration"}
	}
	if len(rep.Weaker) > 0 && h.cfg.Logf != nil {
		h.cfg.Logf("sandbox: %s", strings.ReplaceAll(strings.TrimSpace(rep.Text()), "\n", "\nsandbox: "))
	}
	return nil
}

// Objects are the tool objects and the policy objects that answers name, for the daemon to
// store before it serves.
func (h *Handler) Objects() []world.Object { return slices.Clone(h.objects) }

// Effects is Workspace.Exec.
func (h *Handler) Effects() []string { return []string{Effect} }

// Ready tells whether there is a profile to run and a worktree to run it in.
func (h *Handler) Ready(_ context.Context, episode, effect, scope string) error {
	const op = "exec.Ready"
	switch {
	case effect != Effect || scope != Scope:
		return world.Errorf(world.KindNoHandler, op, "the exec handler performs %s in scope %q only", Effect, Scope)
	case len(h.names) == 0:
		return &world.Error{Op: op, Kind: world.KindNoHandler, Msg: "no command is declared", Hint: "declare exec.profiles in the configuration file"}
	}
	_, err := h.tree(episode)
	return err
}

// tree is the path of an episode's worktree.
func (h *Handler) tree(episode string) (string, error) {
	const op = "exec.tree"
	if err := world.CheckEpisode(episode); err != nil {
		return "", &world.Error{Op: op, Kind: world.KindNotFound, Subject: episode, Msg: err.Error()}
	}
	path := filepath.Join(h.root, episode)
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &world.Error{Op: op, Kind: world.KindNotFound, Subject: episode, Msg: fmt.Sprintf("episode %q has no worktree", episode),
			Hint: "make the worktree with `session new`"}
	case err != nil:
		return "", &world.Error{Op: op, Kind: world.KindNotFound, Subject: episode, Msg: "the worktree cannot be opened", Err: err}
	case !fi.IsDir():
		return "", &world.Error{Op: op, Kind: world.KindNotFound, Subject: episode, Msg: fmt.Sprintf("the worktree of episode %q is not a real directory", episode)}
	}
	return path, nil
}

// Perform runs a profile, or looks after a job. What the operator's declaration says no to
// is an answer with "ok":false and the reason under "refused"; what the command did is an
// answer in any case. A payload outside the contract, a missing worktree, and a sandbox that
// could not be made are errors.
func (h *Handler) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	const op = "exec.Perform"
	if err := ctx.Err(); err != nil {
		return nil, ended(op, err)
	}
	if r.Need.Effect != Effect || r.Need.Scope != Scope {
		return nil, world.Errorf(world.KindNoHandler, op, "the exec handler performs %s in scope %q only", Effect, Scope)
	}
	do, err := decode(r.Payload)
	if err != nil {
		return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Subject: Effect, Msg: "exec payload: " + err.Error()}
	}
	out, err := do(ctx, h, r)
	var no refusal
	if errors.As(err, &no) {
		return hashref.Marshal(struct {
			OK      bool   `json:"ok"`
			Refused string `json:"refused"`
			stamp
		}{false, string(no), h.stamp(r.Episode, h.tool)})
	}
	return out, err
}

// stamp is what every answer carries beside its own members.
type stamp struct {
	Tool         string `json:"tool"`
	PolicyDigest string `json:"policy_digest"`
}

func (h *Handler) stamp(episode string, tool world.Object) stamp {
	return stamp{tool.Hash.String(), h.cfg.Policy.For(episode).Digest()}
}

// refusal is what a profile, or a job's state, says no to: an answer, not a failure.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// ended gives the end of a context its kind.
func ended(op string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return world.Wrap(world.KindDeadline, op, err)
	}
	return world.Wrap(world.KindCanceled, op, err)
}
