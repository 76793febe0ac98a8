// Package workspace performs Workspace.Read and Workspace.Write in the worktree of an
// episode, <workspace-root>/<episode>. It owns how paths become files: every access goes
// through os.Root, one directory at a time, and what was opened is compared with what was
// looked at. It never follows a link out of the worktree, never writes to a protected path,
// never waits on a FIFO or device, never leaves half a file, and keeps nothing between
// calls: a worktree may be replaced at any time. It decides nothing about authority.
// Answers spec/12-workspace.md.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

// The two effects, and the one scope in which both are performed.
const (
	EffectRead  = "Workspace.Read"
	EffectWrite = "Workspace.Write"
	Scope       = "worktree"
)

// Version is the behaviour of this handler as its tool object names it. It moves when an
// answer to the same payload on the same files would differ.
const Version = "1"

// provenance is what the handler's own objects are stored with.
const provenance = "handler:workspace"

// Config is what a Handler is made of.
type Config struct {
	// Root is the folder that holds one real directory an episode.
	Root string
	// Policy says what is read-only; nil is what is built in alone.
	Policy *policy.Set
}

// Handler performs the workspace effects. It is safe for concurrent use; it relies on the
// coordinator to run calls that write alone in their episode.
type Handler struct {
	root    string
	policy  *policy.Set
	objects []world.Object
	tool    string
	hooks   hooks
}

// stamp is what every answer carries beside its own members.
type stamp struct {
	Tool         string `json:"tool"`
	PolicyDigest string `json:"policy_digest"`
}

// hooks are the points at which tests stage races and failures; nil in production.
type hooks struct {
	resolved func()                              // a path was resolved, nothing opened yet
	written  func()                              // the temporary file is whole, not yet renamed
	write    func(*os.File, []byte) (int, error) // in place of File.Write
}

// New makes a handler. A root that is no directory is an error whose message is for the
// operator.
func New(c Config) (*Handler, error) {
	if fi, err := os.Stat(c.Root); err != nil || !fi.IsDir() {
		return nil, &world.Error{Op: "workspace.New", Kind: world.KindBadRequest, Subject: c.Root,
			Msg: fmt.Sprintf("workspace root %q is not a directory", c.Root), Err: err}
	}
	if c.Policy == nil {
		c.Policy = policy.Default()
	}
	tool := world.NewObject(world.SemTool, provenance, hashref.MustMarshal(struct {
		Handler string   `json:"handler"`
		Version string   `json:"version"`
		Effects []string `json:"effects"`
	}{"workspace", Version, []string{EffectRead, EffectWrite}}))
	return &Handler{
		root:    c.Root,
		policy:  c.Policy,
		objects: append([]world.Object{tool}, c.Policy.Objects()...),
		tool:    tool.Hash.String(),
	}, nil
}

// Objects are the tool object and the policy objects that answers name, for the daemon to
// store before it serves.
func (h *Handler) Objects() []world.Object { return slices.Clone(h.objects) }

// Effects are Workspace.Read and Workspace.Write.
func (h *Handler) Effects() []string { return []string{EffectRead, EffectWrite} }

// Ready tells whether the episode has a worktree that can be opened.
func (h *Handler) Ready(_ context.Context, episode, effect, scope string) error {
	if effect != EffectRead && effect != EffectWrite {
		return world.Errorf(world.KindNoHandler, "workspace.Ready", "the workspace handler does not perform %s", effect)
	}
	if scope != Scope {
		return world.Errorf(world.KindNoHandler, "workspace.Ready", "%s has the scope %q only, not %q", effect, Scope, scope)
	}
	top, err := h.open(episode)
	if err != nil {
		return err
	}
	return top.Close()
}

// Perform does one read or write. What the file system says of the path is an answer with
// "ok":false and the reason under "refused"; a payload outside the contract, a missing
// worktree and a full disk are errors.
func (h *Handler) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	const op = "workspace.Perform"
	if err := ctx.Err(); err != nil {
		return nil, ended(op, err)
	}
	if r.Need.Scope != Scope {
		return nil, world.Errorf(world.KindNoHandler, op, "%s has the scope %q only, not %q", r.Need.Effect, Scope, r.Need.Scope)
	}
	do, err := decode(r.Need.Effect, r.Payload)
	if err != nil {
		return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Subject: r.Need.Effect,
			Msg: "workspace payload: " + err.Error()}
	}
	top, err := h.open(r.Episode)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	pol := h.policy.For(r.Episode)
	c := &call{h: h, top: top, policy: pol, stamp: stamp{Tool: h.tool, PolicyDigest: pol.Digest()}}
	out, err := do(ctx, c)
	for try := 1; try < maxTries && r.Need.Effect == EffectRead && errors.Is(err, errChanged); try++ {
		out, err = do(ctx, c) // reading again does no harm
	}
	if err == nil && len(out) > broker.MaxEffectOutput {
		err = refuse("the answer would be %d bytes; at most %d can be given: ask for less", len(out), broker.MaxEffectOutput)
	}
	var no refusal
	if errors.As(err, &no) {
		return hashref.Marshal(struct {
			OK      bool   `json:"ok"`
			Refused string `json:"refused"`
			stamp
		}{false, string(no), c.stamp})
	}
	if err != nil {
		return nil, classify(op, err)
	}
	return out, nil
}

// call is one effect at work: the handler, the worktree opened for it, and the policy of
// its episode.
type call struct {
	h      *Handler
	top    *os.Root
	policy *policy.Policy
	stamp  stamp
}

// open opens an episode's worktree, and proves that what it opened is the real directory
// of that name. The caller closes it.
func (h *Handler) open(episode string) (*os.Root, error) {
	const op = "workspace.open"
	fail := func(format string, args ...any) error {
		return &world.Error{Op: op, Kind: world.KindNotFound, Subject: episode, Msg: fmt.Sprintf(format, args...),
			Hint: "make the worktree with `session new`"}
	}
	if err := world.CheckEpisode(episode); err != nil {
		return nil, fail("%s", err.Error())
	}
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return nil, &world.Error{Op: op, Kind: world.KindNotFound, Subject: h.root, Msg: "the workspace root cannot be opened", Err: err}
	}
	defer root.Close()
	fi, err := root.Lstat(episode)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail("episode %q has no worktree", episode)
	case err != nil:
		return nil, &world.Error{Op: op, Kind: world.KindNotFound, Subject: episode, Msg: "the worktree cannot be opened", Err: err}
	case !fi.IsDir():
		return nil, fail("the worktree of episode %q is not a real directory", episode)
	}
	top, err := openDir(root, episode, fi)
	if err != nil {
		return nil, &world.Error{Op: op, Kind: world.KindNotFound, Subject: episode, Msg: "the worktree cannot be opened", Err: err}
	}
	return top, nil
}

// ended gives the end of a context its kind.
func ended(op string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return world.Wrap(world.KindDeadline, op, err)
	}
	return world.Wrap(world.KindCanceled, op, err)
}

// classify tells a failure of the machine from a failure of this code.
func classify(op string, err error) error {
	var known *world.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ended(op, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return &world.Error{Op: op, Kind: world.KindStoreFull, Msg: "no space left in the worktree; nothing was changed",
			Hint: "free space on the worktree's file system", Err: err}
	case errors.Is(err, syscall.EROFS):
		return &world.Error{Op: op, Kind: world.KindInternal, Msg: "the worktree's file system is read-only; nothing was changed", Err: err}
	case errors.Is(err, errChanged), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &world.Error{Op: op, Kind: world.KindInternal, Msg: "the worktree changed while the path was being opened; try again", Err: err}
	}
	return &world.Error{Op: op, Kind: world.KindInternal, Msg: "the worktree could not be used", Err: err}
}
