// Package git performs Git.Read and Git.Commit in the worktree of an episode,
// <workspace-root>/<episode>, with the real git binary. It owns how git is started: with a
// folder of its own for a repository, in which the configuration is ours alone and only
// objects and refs are the real ones, so that nothing a repository, a user or a system
// configures is ever read, let alone run. It moves no ref but the episode's branch, touches
// no file of the worktree, reaches no network, and keeps nothing between calls. It decides
// nothing about authority. Answers spec/14-git.md.
package git

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

// The two effects, and the one scope in which both are performed.
const (
	EffectRead   = "Git.Read"
	EffectCommit = "Git.Commit"
	Scope        = "worktree"
)

// Version is the behaviour of this handler as its tool object names it. It moves when an
// answer to the same payload on the same repository would differ.
const Version = "1"

// BranchOf is the one branch, below refs/heads/, that an episode may commit to.
func BranchOf(episode string) string { return "world/" + episode }

// provenance is what the handler's own objects are stored with.
const provenance = "handler:git"

// Config is what a Handler is made of.
type Config struct {
	// Root is the folder that holds one real directory an episode.
	Root string
	// Git is the git binary, absolute; "" if there is none, which Ready tells.
	Git string
	// Scratch is where each call has a private folder; "" is the system's.
	Scratch string
	// Store names the store in trailers. LogEnd is the index of its newest entry.
	Store  string
	LogEnd func(ctx context.Context) (int64, error)
	// Policy says what is read-only; nil is what is built in alone.
	Policy *policy.Set
	// Now dates commits.
	Now func() time.Time
}

// Handler performs the git effects. It is safe for concurrent use; it relies on the
// coordinator to run commits alone in their episode.
type Handler struct {
	cfg     Config
	root    string // Root without links
	tool    binary
	missing error // why nothing can be served
	objects []world.Object
	stamp   string // ref of the tool object
	hooks   hooks
}

// hooks are the points at which tests stage races and failures; nil in production.
type hooks struct {
	listed   func() // what changed is known, nothing of it read yet
	locked   func() // the index is locked, nothing written yet
	indexed  func() // the index is written, the branch not moved yet
	observed func(args []string)
}

// New makes a handler. A root that cannot be used is an error; git that is missing or too
// old is not, since a daemon without it serves everything else: Ready tells it.
func New(ctx context.Context, c Config) (*Handler, error) {
	root, err := realDir(c.Root)
	if err != nil {
		return nil, &world.Error{Op: "git.New", Kind: world.KindBadRequest, Subject: c.Root,
			Msg: fmt.Sprintf("workspace root %q is not a directory", c.Root), Err: err}
	}
	if c.Policy == nil {
		c.Policy = policy.Default()
	}
	h := &Handler{cfg: c, root: root}
	sweepScratch(c.Scratch)
	if h.tool, h.missing = inspect(ctx, c.Git); h.missing != nil {
		return h, nil
	}
	tool := world.NewObject(world.SemTool, provenance, hashref.MustMarshal(struct {
		Handler string   `json:"handler"`
		Version string   `json:"version"`
		Effects []string `json:"effects"`
		Git     string   `json:"git"`
		Binary  string   `json:"binary"`
	}{"git", Version, h.Effects(), h.tool.version, h.tool.sum.String()}))
	h.objects, h.stamp = append([]world.Object{tool}, c.Policy.Objects()...), tool.Hash.String()
	return h, nil
}

// Objects are what answers refer to, for the daemon to store before it serves: the tool
// object and the policies, or nothing if there is no git.
func (h *Handler) Objects() []world.Object { return slices.Clone(h.objects) }

// Effects are Git.Read and Git.Commit.
func (h *Handler) Effects() []string { return []string{EffectRead, EffectCommit} }

// Ready tells whether there is a git that can be used, and whether the episode has a
// worktree of a repository that this handler trusts itself to open.
func (h *Handler) Ready(_ context.Context, episode, effect, scope string) error {
	const op = "git.Ready"
	if effect != EffectRead && effect != EffectCommit {
		return world.Errorf(world.KindNoHandler, op, "the git handler does not perform %s", effect)
	}
	if scope != Scope {
		return world.Errorf(world.KindNoHandler, op, "%s has the scope %q only, not %q", effect, Scope, scope)
	}
	if err := h.usable(); err != nil {
		return err
	}
	_, err := locate(h.root, episode)
	return err
}

// usable tells why no git can be run.
func (h *Handler) usable() error {
	if h.missing != nil {
		return h.missing
	}
	return h.tool.unchanged()
}

// Perform does one read or commit. What git, the repository or the policy says no to is an
// answer with "ok":false and the reason under "refused"; a payload outside the contract, a
// repository that cannot be opened, a full disk and the end of time are errors.
func (h *Handler) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	const op = "git.Perform"
	if err := ctx.Err(); err != nil {
		return nil, ended(op, err)
	}
	if r.Need.Scope != Scope {
		return nil, world.Errorf(world.KindNoHandler, op, "%s has the scope %q only, not %q", r.Need.Effect, Scope, r.Need.Scope)
	}
	do, err := decode(r.Need.Effect, r.Payload)
	if err != nil {
		return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Subject: r.Need.Effect, Msg: "git payload: " + err.Error()}
	}
	if err := h.usable(); err != nil {
		return nil, err
	}
	c, err := h.begin(ctx, r.Episode)
	if err != nil {
		return nil, classify(op, ctx, err)
	}
	defer c.end()
	out, err := do(ctx, c)
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
		return nil, classify(op, ctx, err)
	}
	return out, nil
}

// stamp is what every answer carries beside its own members.
type stamp struct {
	Tool         string `json:"tool"`
	PolicyDigest string `json:"policy_digest"`
}

// ended gives the end of a context its kind.
func ended(op string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &world.Error{Op: op, Kind: world.KindDeadline, Msg: "git did not end in time; ask for less", Err: err}
	}
	return world.Wrap(world.KindCanceled, op, err)
}

// classify tells a failure of the machine from one of the repository, or of this code.
func classify(op string, ctx context.Context, err error) error {
	var known *world.Error
	var failed *failure
	switch {
	case errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return ended(op, ctx.Err())
	case errors.As(err, &failed) && strings.Contains(failed.said, "No space left on device"),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &world.Error{Op: op, Kind: world.KindStoreFull, Msg: "no space left for git; nothing was changed",
			Hint: "free space on the repository's file system and on that of temporary files", Err: err}
	case errors.As(err, &failed):
		return &world.Error{Op: op, Kind: world.KindInternal, Msg: fmt.Sprintf("git %s failed; the daemon's log says why", failed.verb), Err: err}
	}
	return &world.Error{Op: op, Kind: world.KindInternal, Msg: "the repository could not be used", Err: err}
}
