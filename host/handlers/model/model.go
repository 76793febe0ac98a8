// Package model performs Model.Infer: it has a model word an answer to a question out of
// passages. The scope is the model's name in the configuration. It owns what a model is told
// and in which place (instructions apart from quoted matter), the bounds of question and
// answer, and the words for all that an endpoint can do wrong. It never lets what a model says
// be more than a text: a model gets no tools, and no say in grants or effects. It never
// repeats a request, never shows a key, and reads no environment. Answers spec/22-skills.md.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

// Effect is what the handler performs.
const Effect = "Model.Infer"

// Default is the scope that the skills which ship use, and the one model of a daemon whose
// configuration names none.
const Default = "default"

// Version is the behaviour of this handler as its tool object names it.
const Version = "1"

// Bounds of a request, in bytes unless said otherwise.
const (
	MaxInstructions = 8 << 10
	MaxQuestion     = 8 << 10
	MaxPassages     = 20 // in number
	MaxTitle        = 2 << 10
	MaxPassage      = 16 << 10
	MaxRequest      = 256 << 10 // the payload
	MaxTokens       = 4096      // in number
	MaxNumber       = 9999      // of a passage
)

const provenance = "handler:model"

// request is the payload of Model.Infer.
type request struct {
	Instructions string    `json:"instructions"`
	Question     string    `json:"question"`
	Passages     []passage `json:"passages"`
	MaxTokens    int       `json:"max_tokens"`
}

// passage is one text that the answer may rest on.
type passage struct {
	N       int    `json:"n"`
	Title   string `json:"title"`
	Section string `json:"section"`
	Text    string `json:"text"`
}

// reply is what a backend says.
type reply struct {
	text   string
	cut    bool // it was ended by a bound, not by the model
	prompt int64
	given  int64 // tokens
}

// errPatience is why a request ended whose model's own time was over.
var errPatience = errors.New("the model's time is over")

// backend words an answer. Its errors have a Msg for the caller.
type backend interface {
	infer(ctx context.Context, r *request) (reply, error)
}

// Config is what a Handler is made of.
type Config struct {
	// Models are the models by name; nil is the extractive one as Default.
	Models []Model
	Policy *policy.Set // whose digest answers name; nil is what is built in
	Logf   func(format string, args ...any)
}

// Handler performs Model.Infer. It is safe for concurrent use.
type Handler struct {
	cfg    Config
	models map[string]served
	tool   world.Object
	stop   context.CancelFunc
	over   context.Context // ends with Cancel
}

type served struct {
	Model
	backend backend
}

// New checks the models and makes a handler. It asks no endpoint anything.
func New(c Config) (*Handler, error) {
	const op = "model.New"
	if c.Policy == nil {
		c.Policy = policy.Default()
	}
	if c.Models == nil {
		c.Models = []Model{{Name: Default, Backend: Extractive}}
	}
	h := &Handler{cfg: c, models: make(map[string]served), tool: world.NewObject(world.SemTool, provenance, hashref.MustMarshal(struct {
		Handler string   `json:"handler"`
		Version string   `json:"version"`
		Effects []string `json:"effects"`
	}{"model", Version, []string{Effect}}))}
	h.over, h.stop = context.WithCancel(context.Background())
	for _, m := range c.Models {
		if err := m.Check(); err != nil {
			return nil, world.Errorf(world.KindBadRequest, op, "models.%s.%v", m.Name, err)
		}
		s := served{Model: m.filled(), backend: extractor{}}
		if m.Backend == OpenAI {
			e, err := newEndpoint(s.Model, c.Logf)
			if err != nil {
				return nil, err
			}
			s.backend = e
		}
		if _, twice := h.models[m.Name]; twice {
			return nil, world.Errorf(world.KindBadRequest, op, "model %q is there twice", m.Name)
		}
		h.models[m.Name] = s
	}
	return h, nil
}

// Cancel ends all requests under way, as failed, and all later ones. A daemon that stops does
// not wait for a model.
func (h *Handler) Cancel() { h.stop() }

// Objects are what answers refer to, for the daemon to store before it serves.
func (h *Handler) Objects() []world.Object {
	return append([]world.Object{h.tool}, h.cfg.Policy.Objects()...)
}

// Effects is Model.Infer.
func (h *Handler) Effects() []string { return []string{Effect} }

// Ready says whether the model is configured; whether it answers is found out when it is asked.
func (h *Handler) Ready(_ context.Context, _, effect, scope string) error {
	const op = "model.Ready"
	if effect != Effect {
		return world.Errorf(world.KindNoHandler, op, "the model handler does not perform %s", effect)
	}
	if _, there := h.models[scope]; !there {
		return world.Errorf(world.KindNoHandler, op, "no model %q is configured; name it under models: in the configuration file", scope)
	}
	return nil
}

// Patience is the model's own time, and a little to say that it is over.
func (h *Handler) Patience(_, scope string) time.Duration {
	if m, there := h.models[scope]; there && m.Backend == OpenAI {
		return m.Timeout + time.Second
	}
	return 0
}

// answer is what Model.Infer answers.
type answer struct {
	OK      bool   `json:"ok"`
	Text    string `json:"text"`
	Model   string `json:"model"`
	Backend string `json:"backend"`
	Finish  string `json:"finish"`
	Usage   usage  `json:"usage"`

	Tool         string `json:"tool"`
	PolicyDigest string `json:"policy_digest"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
}

// Perform asks the model, once.
func (h *Handler) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	const op = "model.Infer"
	m, there := h.models[r.Need.Scope]
	if !there {
		return nil, world.Errorf(world.KindNoHandler, op, "no model %q is configured", r.Need.Scope)
	}
	req, err := parse(r.Payload)
	if err != nil {
		return nil, err
	}
	req.MaxTokens = min(req.MaxTokens, m.MaxTokens)
	ctx, cancel := context.WithTimeoutCause(ctx, m.Timeout, errPatience)
	defer cancel()
	defer context.AfterFunc(h.over, cancel)()
	got, err := m.backend.infer(ctx, req)
	if err != nil {
		return nil, err
	}
	a := answer{OK: true, Model: m.called(), Backend: m.Backend, Finish: "stop", Usage: usage{got.prompt, got.given},
		Tool: h.tool.Hash.String(), PolicyDigest: h.cfg.Policy.For(r.Episode).Digest()}
	a.Text = printable(got.text)
	if short := prefix(a.Text, m.MaxAnswer); got.cut || len(short) < len(a.Text) {
		a.Text, a.Finish = short, "length"
	}
	return json.Marshal(a)
}

// parse holds a payload to its bounds.
func parse(payload []byte) (*request, error) {
	r := &request{}
	why := ""
	err := error(nil)
	if len(payload) > MaxRequest {
		why = fmt.Sprintf("it has %d bytes, at most %d", len(payload), MaxRequest)
	} else if err = hashref.Decode(payload, r); err != nil {
		why = "its members are instructions, question, passages, max_tokens"
	} else {
		why = r.wrong()
	}
	if why != "" {
		return nil, &world.Error{Op: "model.Infer", Kind: world.KindBadRequest, Err: err, Msg: "the payload cannot be used: " + why}
	}
	return r, nil
}

// wrong tells what is wrong with a request; "" is nothing.
func (r *request) wrong() string {
	switch {
	case len(r.Instructions) > MaxInstructions:
		return fmt.Sprintf("instructions must be at most %d bytes", MaxInstructions)
	case strings.TrimSpace(r.Question) == "" || len(r.Question) > MaxQuestion:
		return fmt.Sprintf("question must be 1 to %d bytes", MaxQuestion)
	case len(r.Passages) > MaxPassages:
		return fmt.Sprintf("there may be at most %d passages", MaxPassages)
	case r.MaxTokens < 1 || r.MaxTokens > MaxTokens:
		return fmt.Sprintf("max_tokens must be from 1 to %d", MaxTokens)
	}
	seen := make(map[int]bool)
	for i, p := range r.Passages {
		switch {
		case p.N < 1 || p.N > MaxNumber || seen[p.N]:
			return fmt.Sprintf("passages[%d].n must be from 1 to %d, and none twice", i, MaxNumber)
		case len(p.Title) > MaxTitle || len(p.Section) > MaxTitle:
			return fmt.Sprintf("passages[%d]: title and section must be at most %d bytes", i, MaxTitle)
		case len(p.Text) > MaxPassage:
			return fmt.Sprintf("passages[%d].text must be at most %d bytes", i, MaxPassage)
		}
		seen[p.N] = true
	}
	return ""
}

// printable leaves of a text what can be shown: controls but line ends and tabs become spaces.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// prefix is the longest beginning of whole characters with at most so many bytes.
func prefix(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
