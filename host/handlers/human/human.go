// Package human performs Human.Approve, which asks a person, and Human.PollApproval, which
// looks at the answer. The scope is who is asked. It waits for nobody: a question stands in
// the book of approvals until an operator decides it. It owns the words of the answers and
// that an episode sees its own questions alone. Answers spec/15-approvals.md.
package human

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

// The two effects.
const (
	EffectAsk  = "Human.Approve"
	EffectPoll = "Human.PollApproval"
)

// Bounds of a question, in bytes.
const (
	MaxQuestion = 1 << 10
	MaxDetails  = 64 << 10
)

// Version is the behaviour of this handler as its tool object names it.
const Version = "1"

const provenance = "handler:human"

// book is what the handler needs of the approvals.
type book interface {
	Ask(ctx context.Context, s approvals.Subject) (approvals.Approval, error)
	Find(ctx context.Context, id string) (approvals.Approval, error)
}

// Config is what a Handler is made of.
type Config struct {
	Book   book
	Now    func() time.Time
	Policy *policy.Set // whose digest answers name; nil is what is built in
}

// Handler performs both effects. It is safe for concurrent use.
type Handler struct {
	cfg  Config
	tool world.Object
}

// New makes a handler.
func New(c Config) *Handler {
	if c.Policy == nil {
		c.Policy = policy.Default()
	}
	return &Handler{cfg: c, tool: world.NewObject(world.SemTool, provenance, hashref.MustMarshal(struct {
		Handler string   `json:"handler"`
		Version string   `json:"version"`
		Effects []string `json:"effects"`
	}{"human", Version, []string{EffectAsk, EffectPoll}}))}
}

// Objects are what answers refer to, for the daemon to store before it serves.
func (h *Handler) Objects() []world.Object {
	return append([]world.Object{h.tool}, h.cfg.Policy.Objects()...)
}

// Effects are Human.Approve and Human.PollApproval.
func (h *Handler) Effects() []string { return []string{EffectAsk, EffectPoll} }

// Ready is always: a question needs nothing but the store.
func (h *Handler) Ready(_ context.Context, _, effect, _ string) error {
	if effect != EffectAsk && effect != EffectPoll {
		return world.Errorf(world.KindNoHandler, "human.Ready", "the human handler does not perform %s", effect)
	}
	return nil
}

// answer is what both effects answer.
type answer struct {
	OK       bool      `json:"ok"`
	Refused  string    `json:"refused,omitempty"`
	Approval string    `json:"approval,omitempty"`
	State    string    `json:"state,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	By       string    `json:"by,omitempty"`
	Note     string    `json:"note,omitempty"`

	Tool         string `json:"tool"`
	PolicyDigest string `json:"policy_digest"`
}

// Perform asks or looks. A question already asked in the same words, and not over, is not
// asked again.
func (h *Handler) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	a := answer{Tool: h.tool.Hash.String(), PolicyDigest: h.cfg.Policy.For(r.Episode).Digest()}
	var got approvals.Approval
	var err error
	if r.Need.Effect == EffectAsk {
		got, err = h.ask(ctx, r)
	} else {
		got, err = h.poll(ctx, r)
	}
	switch kind := world.KindOf(err); {
	case err == nil:
		a.OK, a.Approval, a.State, a.Expires = true, got.ID, string(got.At(h.cfg.Now())), got.Expires
		a.By, a.Note = got.By, got.Note
	case kind == world.KindNotFound, kind == world.KindCapacity:
		a.Refused = world.Message(err)
	default:
		return nil, err
	}
	return json.Marshal(a)
}

func (h *Handler) ask(ctx context.Context, r broker.Request) (approvals.Approval, error) {
	var p struct {
		Question string         `json:"question"`
		Details  jsontext.Value `json:"details,omitzero"`
	}
	if err := hashref.Decode(r.Payload, &p); err != nil || p.Question == "" || len(p.Question) > MaxQuestion || len(p.Details) > MaxDetails {
		return approvals.Approval{}, &world.Error{Op: "human.Ask", Kind: world.KindBadRequest, Err: err,
			Msg: fmt.Sprintf("the payload must be {question, details?}: 1 to %d and at most %d bytes", MaxQuestion, MaxDetails)}
	}
	return h.cfg.Book.Ask(ctx, approvals.Subject{Effect: r.Need.Effect, Episode: r.Episode, Payload: r.Payload, Scope: r.Need.Scope,
		Transition: r.Transition, TransitionFn: r.TransitionFn})
}

// poll finds an approval of the episode itself; those of others are as if not there.
func (h *Handler) poll(ctx context.Context, r broker.Request) (approvals.Approval, error) {
	const op = "human.Poll"
	var p struct {
		Approval string `json:"approval"`
	}
	if err := hashref.Decode(r.Payload, &p); err != nil {
		return approvals.Approval{}, &world.Error{Op: op, Kind: world.KindBadRequest, Err: err, Msg: "the payload must be {approval}"}
	}
	none := world.Errorf(world.KindNotFound, op, "this episode has no approval %.40q", p.Approval)
	if !approvals.ValidID(p.Approval) {
		return approvals.Approval{}, none
	}
	a, err := h.cfg.Book.Find(ctx, p.Approval)
	if err == nil && a.Episode != r.Episode || world.KindOf(err) == world.KindNotFound {
		return approvals.Approval{}, none
	}
	return a, err
}
