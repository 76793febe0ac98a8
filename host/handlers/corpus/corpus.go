// Package corpus performs Corpus.Search, which finds passages in documents that an operator
// added, and Corpus.Fetch, which reads such a document. The scope is a corpus's name. It owns
// the indexes (a SQLite file a corpus, beside the store), how a query is read and passages are
// ranked, and how an index is changed and made anew; documents themselves are objects of the
// store. It never follows a link, and what a document says is data to it. Answers
// spec/21-corpus.md.
package corpus

import (
	"context"
	"encoding/json"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/policy"
	"ailang.dev/world/host/world"
)

// The two effects.
const (
	EffectSearch = "Corpus.Search"
	EffectFetch  = "Corpus.Fetch"
)

// Version is the behaviour of this handler as its tool object names it.
const Version = "1"

const provenance = "handler:corpus"

// Config is what a Handler is made of.
type Config struct {
	Library *Library
	Objects Objects     // where documents are
	Policy  *policy.Set // whose digest answers name; nil is what is built in
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
	}{"corpus", Version, []string{EffectSearch, EffectFetch}}))}
}

// Objects are what answers refer to, for the daemon to store before it serves.
func (h *Handler) Objects() []world.Object {
	return append([]world.Object{h.tool}, h.cfg.Policy.Objects()...)
}

// Effects are Corpus.Search and Corpus.Fetch.
func (h *Handler) Effects() []string { return []string{EffectSearch, EffectFetch} }

// Ready tells which corpus is missing, and how to add it.
func (h *Handler) Ready(_ context.Context, _, effect, scope string) error {
	if effect != EffectSearch && effect != EffectFetch {
		return world.Errorf(world.KindNoHandler, "corpus.Ready", "the corpus handler does not perform %s", effect)
	}
	return h.cfg.Library.Has(scope)
}

// answered is what every answer has.
type answered struct {
	OK           bool   `json:"ok"`
	Refused      string `json:"refused,omitempty"`
	Tool         string `json:"tool"`
	PolicyDigest string `json:"policy_digest"`
}

// Perform searches or fetches.
func (h *Handler) Perform(ctx context.Context, r broker.Request) ([]byte, error) {
	a := answered{OK: true, Tool: h.tool.Hash.String(), PolicyDigest: h.cfg.Policy.For(r.Episode).Digest()}
	var out any
	var err error
	if r.Need.Effect == EffectSearch {
		out, err = h.search(ctx, r, a)
	} else {
		out, err = h.fetch(ctx, r, a)
	}
	if world.KindOf(err) == world.KindNotFound && world.Message(err) != "" {
		a.OK, a.Refused = false, world.Message(err)
		return json.Marshal(a)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func (h *Handler) search(ctx context.Context, r broker.Request, a answered) (any, error) {
	var q Query
	if err := parsePayload("corpus.Search", r.Payload, &q, "{query, limit?, cursor?, filters?}"); err != nil {
		return nil, err
	}
	found, err := h.cfg.Library.Search(ctx, r.Need.Scope, q)
	if err != nil {
		return nil, err
	}
	return struct {
		answered
		*Found
		Corpus string `json:"corpus"`
	}{a, found, r.Need.Scope}, nil
}

func (h *Handler) fetch(ctx context.Context, r broker.Request, a answered) (any, error) {
	var w Want
	if err := parsePayload("corpus.Fetch", r.Payload, &w, "{document, section?, offset?, limit?}"); err != nil {
		return nil, err
	}
	f, err := h.cfg.Library.Fetch(ctx, r.Need.Scope, w, h.cfg.Objects)
	if err != nil {
		return nil, err
	}
	return struct {
		answered
		*Fetched
		Corpus string `json:"corpus"`
	}{a, f, r.Need.Scope}, nil
}
