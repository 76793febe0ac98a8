// Package ailang performs Ailang.Check, Ailang.Run, Ailang.Discover and Ailang.CLI: it runs
// the AILANG toolchain that the operator named, in the worktree of an episode, confined by
// host/sandbox. It owns the command lines, their bounds, what is shown of the worktree, the
// examples that are searched, and what comes back. It runs nothing but that toolchain, whose
// hash is proved before each run, and nothing at all on a host that cannot confine it. It
// decides nothing about authority, and has no part in how transitions are run. Answers
// spec/16-ailang-tools.md.
package ailang

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"ailang.dev/world/host/archive"
	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/sandbox"
	"ailang.dev/world/host/world"
)

// The effects, and the one scope in which all are performed.
const (
	EffectCheck    = "Ailang.Check"
	EffectRun      = "Ailang.Run"
	EffectDiscover = "Ailang.Discover"
	EffectCLI      = "Ailang.CLI"
	Scope          = "worktree"
)

// Version is the behaviour of this handler as its tool object names it. It moves when an
// answer to the same payload on the same files by the same toolchain would differ.
const Version = "1"

const provenance = "handler:ailang"

// Config is what a Handler is made of.
type Config struct {
	// Root is the folder that holds one real directory an episode.
	Root string
	// Binary is the toolchain, as the operator named it. Archive is the folder in which a copy
	// is kept under its hash; nothing but the toolchains of this handler may be there.
	Binary, Archive string
	// Examples is the folder whose .ail files are searched; "" is none.
	Examples string
	Policy   *policy.Set // nil is what is built in alone
	Sandbox  *sandbox.Sandbox
	// Hide are folders that no run may see.
	Hide []string
	// Slots bounds the subprocesses of calls.
	Slots *capsule.Slots
	Logf  func(format string, args ...any)
}

// Handler performs the four effects. It is safe for concurrent use.
type Handler struct {
	cfg      Config
	root     string // real
	ref      world.Ref
	version  string
	binary   *archive.Binary
	examples *examples // nil without a folder of them
	objects  []world.Object
	tool     string // ref of the tool object
	life     context.Context
	end      context.CancelFunc
	calls    sync.WaitGroup
	mu       sync.Mutex // guards closed, and the growth of calls
	closed   bool
	running  func() // for tests: the toolchain is about to be started
}

// New archives the toolchain, asks it for its version inside the sandbox, and reads the
// examples. Errors are for the operator: a host that cannot confine (KindNoHandler), a file
// that is no toolchain, examples that cannot be read (KindBadRequest). What tells no version
// does not stay in the archive.
func New(ctx context.Context, c Config) (*Handler, error) {
	const op = "ailang.New"
	if c.Policy == nil {
		c.Policy = policy.Default()
	}
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	root, err := filepath.Abs(c.Root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Subject: c.Root,
			Msg: fmt.Sprintf("workspace root %q cannot be used", c.Root), Err: err}
	}
	if rep := c.Sandbox.Probe(ctx); !rep.OK() {
		return nil, &world.Error{Op: op, Kind: world.KindNoHandler, Subject: c.Binary,
			Msg:  "this host cannot confine the AILANG toolchain, so its tools cannot be served:\n" + strings.TrimSpace(rep.Text()),
			Hint: "provide what is missing, or serve without --tool-ailang-bin"}
	}
	h := &Handler{cfg: c, root: root}
	if c.Examples != "" {
		if h.examples, err = loadExamples(c.Examples); err != nil {
			return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Subject: c.Examples, Err: err,
				Msg:  fmt.Sprintf("the examples in %s cannot be used: %v", c.Examples, err),
				Hint: "--examples-dir takes a folder of AILANG sources"}
		}
	}
	h.life, h.end = context.WithCancel(context.Background())
	if err := h.pin(ctx); err != nil {
		return nil, err
	}
	h.describe()
	return h, nil
}

// pin archives the toolchain and proves that it runs.
func (h *Handler) pin(ctx context.Context) error {
	c := h.cfg
	refused := func(err error) error {
		return &world.Error{Op: "ailang.pin", Kind: world.KindBadRequest, Subject: c.Binary, Err: err,
			Msg:  fmt.Sprintf("the AILANG toolchain %s cannot be used: %s", c.Binary, plain(err.Error())),
			Hint: "--tool-ailang-bin takes an AILANG release for this machine"}
	}
	archive.Sweep(c.Archive)
	ref, fresh, err := archive.Add(c.Archive, c.Binary)
	if err != nil {
		return refused(err)
	}
	h.ref, h.binary = ref, archive.New(c.Archive, ref, "AILANG toolchain", c.Logf)
	if h.version, err = h.askVersion(ctx); err == nil {
		err = archive.WriteVersion(c.Archive, ref, h.version)
	}
	if err != nil {
		h.end()
		h.binary.Close()
		if left := archive.Forget(c.Archive, ref, fresh); left != nil {
			c.Logf("ailang tools: %s stays in the archive: %v", ref, left)
		}
		return refused(err)
	}
	return nil
}

// describe makes the tool object: the toolchain and the examples are part of what did it.
func (h *Handler) describe() {
	type toolchain struct {
		Binary  string `json:"binary"`
		Version string `json:"version"`
	}
	examples := ""
	if h.examples != nil {
		examples = h.examples.ref.String()
	}
	tool := world.NewObject(world.SemTool, provenance, hashref.MustMarshal(struct {
		Handler   string    `json:"handler"`
		Version   string    `json:"version"`
		Effects   []string  `json:"effects"`
		Toolchain toolchain `json:"toolchain"`
		Examples  string    `json:"examples"`
	}{"ailang", Version, h.Effects(), toolchain{h.ref.String(), h.version}, examples}))
	h.objects, h.tool = append([]world.Object{tool}, h.cfg.Policy.Objects()...), tool.Hash.String()
}

// Toolchain is the hash of the archived toolchain and the version that it told.
func (h *Handler) Toolchain() (world.Ref, string) { return h.ref, h.version }

// Objects are the tool object and the policy objects that answers name, for the daemon to
// store before it serves.
func (h *Handler) Objects() []world.Object { return slices.Clone(h.objects) }

// Effects are the four.
func (h *Handler) Effects() []string {
	return []string{EffectCheck, EffectRun, EffectDiscover, EffectCLI}
}

// Ready tells whether the archived toolchain is still what it was, and whether the episode
// has a worktree.
func (h *Handler) Ready(_ context.Context, episode, effect, scope string) error {
	const op = "ailang.Ready"
	if !slices.Contains(h.Effects(), effect) || scope != Scope {
		return world.Errorf(world.KindNoHandler, op, "the ailang handler performs %s in scope %q only", strings.Join(h.Effects(), ", "), Scope)
	}
	if err := h.binary.Prove(); err != nil {
		return h.missing(op, err)
	}
	_, err := h.tree(episode)
	return err
}

// missing says that there is no toolchain that can be trusted any more.
func (h *Handler) missing(op string, err error) error {
	return &world.Error{Op: op, Kind: world.KindNoHandler, Subject: h.ref.String(), Err: err,
		Msg:  "the archived AILANG toolchain is not what it was: " + plain(err.Error()),
		Hint: "start the daemon again with --tool-ailang-bin, which puts it back into the archive"}
}

// tree is the path of an episode's worktree.
func (h *Handler) tree(episode string) (string, error) {
	const op = "ailang.tree"
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

// Perform runs the toolchain, or searches the examples. What the toolchain says of a program
// is an answer in any case; what the bounds, the worktree or the fixed list of operations say
// no to is one with "ok":false and the reason under "refused". A payload outside the
// contract, a missing worktree, a toolchain that changed, and a sandbox that could not be
// made are errors.
func (h *Handler) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	const op = "ailang.Perform"
	if err := ctx.Err(); err != nil {
		return nil, ended(op, err)
	}
	if r.Need.Scope != Scope {
		return nil, world.Errorf(world.KindNoHandler, op, "%s has the scope %q only, not %q", r.Need.Effect, Scope, r.Need.Scope)
	}
	do, err := decode(r.Need.Effect, r.Payload)
	if err != nil {
		return nil, &world.Error{Op: op, Kind: world.KindBadRequest, Subject: r.Need.Effect, Msg: "ailang payload: " + err.Error()}
	}
	if !h.enter() {
		return nil, world.Errorf(world.KindCanceled, op, "%s", stopped)
	}
	defer h.calls.Done()
	tree, err := h.tree(r.Episode)
	if err != nil {
		return nil, err
	}
	c := &call{h: h, episode: r.Episode, tree: tree, stamp: stamp{h.tool, h.cfg.Policy.For(r.Episode).Digest()}}
	out, err := do(ctx, c)
	var no refusal
	if errors.As(err, &no) {
		out, err = hashref.Marshal(struct {
			OK      bool   `json:"ok"`
			Refused string `json:"refused"`
			stamp
		}{false, string(no), c.stamp})
	}
	return out, err
}

// call is one effect under way.
type call struct {
	h       *Handler
	episode string
	tree    string
	stamp   stamp
}

// stamp is what every answer carries beside its own members.
type stamp struct {
	Tool         string `json:"tool"`
	PolicyDigest string `json:"policy_digest"`
}

// refusal is what a bound, the worktree or the fixed list says no to: an answer, not a
// failure.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

const stopped = "the daemon stopped before the toolchain ended"

// ended gives the end of a context its kind.
func ended(op string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return world.Wrap(world.KindDeadline, op, err)
	}
	return world.Wrap(world.KindCanceled, op, err)
}

// plain makes words harmless to whoever reads them on a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// enter counts a call, unless the handler is closed.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.calls.Add(1)
	}
	return !h.closed
}

// Close ends what runs and returns when nothing does, or ctx ends. Calls that come later
// fail.
func (h *Handler) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end()
	done := make(chan struct{})
	go func() {
		h.calls.Wait()
		h.binary.Close()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("the AILANG toolchain was still being ended")
	}
}
