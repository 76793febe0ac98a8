// Package provenance answers what happened, why, on whose authority and at what cost, and
// whether the record still proves itself. It reads a store and nothing else: it never
// writes, never calls a handler, and trusts no hash that it did not compute. Answers
// spec/17-provenance.md.
package provenance

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// Reader is what this package needs of a store.
type Reader interface {
	Head(ctx context.Context) (store.Head, error)
	World(ctx context.Context, ref world.Ref) (world.World, error)
	Object(ctx context.Context, ref world.Ref) (world.Object, error)
	ObjectMeta(ctx context.Context, ref world.Ref) (world.ObjectMeta, error)
	Entry(ctx context.Context, index int64) (world.Entry, error)
	Entries(ctx context.Context, from int64, limit int) ([]world.Entry, error)
	Invocation(ctx context.Context, id world.InvocationID) (store.Invocation, error)
	Session(ctx context.Context, id world.Ref) (world.Session, error)
	Referrers(ctx context.Context, ref world.Ref, after int64, limit int) ([]store.Referrer, error)
}

// Link is one tie of a chain, followed and held to its hash.
type Link struct {
	What string    `json:"what"` // "entry hash", "input", "effect e1: request"
	Ref  world.Ref `json:"ref"`
	OK   bool      `json:"ok"`
	// Problem says what is wrong, if OK is false.
	Problem string `json:"problem,omitzero"`
}

// Chain is all that one entry stands on.
type Chain struct {
	Index    int64              `json:"index"`
	Entry    world.Entry        `json:"entry"`
	World    world.World        `json:"world,omitzero"`
	Writer   string             `json:"writer"`            // of the entry: coordinator:mcp, genesis, …
	Surface  string             `json:"surface,omitzero"`  // mcp, a2a or tasks; "" for what no call made
	Call     world.InvocationID `json:"call,omitzero"`     // the invocation's id
	Episode  string             `json:"episode,omitzero"`  //
	Session  *world.Session     `json:"session,omitzero"`  // whose call it was, if the store knows
	Tool     string             `json:"tool,omitzero"`     // the transition's id
	Source   world.Ref          `json:"source,omitzero"`   // its pinned source
	Engine   Engine             `json:"engine,omitzero"`   // what ran it
	Semantic string             `json:"semantic,omitzero"` // of the record
	Input    jsontext.Value     `json:"input,omitzero"`
	Rounds   []Round            `json:"rounds,omitempty"`
	Output   jsontext.Value     `json:"output,omitzero"`
	Links    []Link             `json:"links"`
	Broken   int                `json:"broken"` // links that are not OK
}

// Engine is the interpreter that an entry names.
type Engine struct {
	Ref  world.Ref `json:"ref"`
	Name string    `json:"name,omitzero"` // its dialect, if it is one that ships; "" for an archived binary
	// Epoch is the semantics epoch.
	Epoch int64 `json:"epoch"`
}

// Round is one plan, and its effects in order.
type Round struct {
	Plan    world.Ref      `json:"plan"`
	Text    jsontext.Value `json:"text,omitzero"`
	Effects []Effect       `json:"effects"`
}

// Effect is one effect as its record, request and result tell it.
type Effect struct {
	ID           string         `json:"id"`
	Effect       string         `json:"effect"`
	Scope        string         `json:"scope"`
	Cost         int64          `json:"cost"`
	Status       string         `json:"status"` // ok, failed or denied
	Denial       string         `json:"denial,omitzero"`
	BudgetBefore int64          `json:"budgetBefore"`
	BudgetAfter  int64          `json:"budgetAfter"`
	Record       world.Ref      `json:"record"`
	Request      world.Ref      `json:"request"`
	Result       world.Ref      `json:"result,omitzero"`
	Payload      jsontext.Value `json:"payload,omitzero"`
	Answer       jsontext.Value `json:"answer,omitzero"`
}

// record is what is read of an invocation record, of all versions.
type record struct {
	EpisodeID      string             `json:"episodeId"`
	Input          world.Ref          `json:"input"`
	Interpreter    world.Ref          `json:"interpreter"`
	InvocationID   world.InvocationID `json:"invocationId"`
	Output         world.Ref          `json:"output"`
	SemanticsEpoch int64              `json:"semanticsEpoch"`
	SkillID        string             `json:"skillId"`
	TransitionFn   world.Ref          `json:"transitionFn"`
	Plan           world.Ref          `json:"plan"`
	Effects        []world.Ref        `json:"effects"`
	Rounds         []recordRound      `json:"rounds"`
}

type recordRound struct {
	Plan    world.Ref   `json:"plan"`
	Effects []world.Ref `json:"effects"`
}

// rounds are those of any version.
func (r *record) rounds() []recordRound {
	if len(r.Rounds) == 0 && !r.Plan.IsNone() {
		return []recordRound{{r.Plan, r.Effects}}
	}
	return r.Rounds
}

// effectRecord and effectRequest are what is read of world/effect-record/v1 and
// world/effect-request/v1.
type effectRecord struct {
	Allowed      bool      `json:"allowed"`
	BudgetAfter  int64     `json:"budgetAfter"`
	BudgetBefore int64     `json:"budgetBefore"`
	Cost         int64     `json:"cost"`
	Denial       string    `json:"denial"`
	Effect       string    `json:"effect"`
	Failed       bool      `json:"failed"`
	RequestRef   world.Ref `json:"requestRef"`
	ResultRef    world.Ref `json:"resultRef"`
	Scope        string    `json:"scope"`
}

type effectRequest struct {
	Cost         int64              `json:"cost"`
	Effect       string             `json:"effect"`
	ID           string             `json:"id"`
	InvocationID world.InvocationID `json:"invocationId"`
	Payload      jsontext.Value     `json:"payload"`
	Scope        string             `json:"scope"`
}

// Explain follows everything that the entry at an index stands on. Broken links are part
// of the answer; an error says that the store could not be asked: KindNotFound for an index
// past the end, KindTimeout when ctx ended.
func Explain(ctx context.Context, r Reader, index int64) (*Chain, error) {
	return explain(ctx, r, index, nil)
}

func explain(ctx context.Context, r Reader, index int64, known *proved) (*Chain, error) {
	e, err := r.Entry(ctx, index)
	if err != nil {
		return nil, err
	}
	w := &walk{ctx: ctx, r: r, known: known, c: &Chain{Index: index, Entry: e, Writer: e.Header.WrittenBy}}
	w.entry()
	w.record()
	if w.err != nil {
		return nil, w.err
	}
	return w.c, nil
}

// walk is one chain being followed. After an error that is not a broken link it does
// nothing more.
type walk struct {
	ctx   context.Context
	r     Reader
	c     *Chain
	known *proved // sources and engines that were proved before
	err   error
}

// link notes a tie; problem "" means that it holds.
func (w *walk) link(what string, ref world.Ref, problem string) bool {
	w.c.Links = append(w.c.Links, Link{What: what, Ref: ref, OK: problem == "", Problem: problem})
	if problem != "" {
		w.c.Broken++
	}
	return problem == ""
}

// stop tells whether an error ends the walk: whatever is not a fault of what is stored.
func (w *walk) stop(err error) bool {
	if err == nil {
		return false
	}
	switch world.KindOf(err) {
	case world.KindNotFound, world.KindIntegrity, world.KindNoWorld:
		return false
	}
	w.err = err
	return true
}

// object reads an object, and notes whether it is there and proves itself. Its semantic id
// is only what it was first stored as, and proves nothing.
func (w *walk) object(what string, ref world.Ref, into any) (text jsontext.Value, ok bool) {
	if w.err != nil {
		return nil, false
	}
	o, err := w.r.Object(w.ctx, ref)
	if w.stop(err) {
		return nil, false
	}
	switch {
	case err != nil:
		return nil, w.link(what, ref, reason(err))
	case hashref.Sum(o.Payload) != ref:
		return nil, w.link(what, ref, "its payload hashes to "+hashref.Sum(o.Payload).String())
	}
	if into != nil {
		if err := hashref.DecodeKnown(o.Payload, into); err != nil {
			return nil, w.link(what, ref, "it cannot be read: "+err.Error())
		}
	}
	if what == "record" {
		w.c.Semantic = o.SemanticID
	}
	return o.Payload, w.link(what, ref, "")
}

// reason is an error in a few words.
func reason(err error) string {
	if world.KindOf(err) == world.KindNotFound {
		return "it is not in the store"
	}
	return err.Error()
}

// entry holds the entry to its own hash, the one before it, and its world.
func (w *walk) entry() {
	e := &w.c.Entry
	h := e.Header
	if coordinated(e) {
		problem := ""
		if sum := world.ComputeEntryHash(h, e.TransitionRef); sum != e.EntryHash {
			problem = "the entry hashes to " + sum.String()
		}
		w.link("entry hash", e.EntryHash, problem)
	}
	if h.EntryIndex > 0 {
		prev, err := w.r.Entry(w.ctx, h.EntryIndex-1)
		if w.stop(err) {
			return
		}
		problem := ""
		switch {
		case err != nil:
			problem = reason(err)
		case prev.EntryHash != h.PrevEntryHash:
			problem = "the entry before it is " + prev.EntryHash.String()
		}
		w.link("previous entry", h.PrevEntryHash, problem)
	}
	w.world()
}

// world finds the entry's world: what has the entry's hash for its log head.
func (w *walk) world() {
	if w.err != nil {
		return
	}
	e := &w.c.Entry
	named, err := w.r.Referrers(w.ctx, e.EntryHash, 0, 16)
	if w.stop(err) {
		return
	}
	for _, n := range named {
		if n.Kind != store.ReferrerWorld {
			continue
		}
		got, err := w.r.World(w.ctx, n.Ref)
		if w.stop(err) {
			return
		}
		problem := ""
		switch {
		case err != nil:
			problem = reason(err)
		case got.LogHead != e.EntryHash || got.Revision != e.Header.EntryIndex:
			problem = "it names another entry"
		case coordinated(e) && world.ComputeWorldRef(got.Revision, got.StateRoot, got.LogHead) != got.Ref:
			problem = "the world hashes to " + world.ComputeWorldRef(got.Revision, got.StateRoot, got.LogHead).String()
		}
		w.c.World = got
		w.link("world", n.Ref, problem)
		return
	}
	problem := "no world has this entry for its log head"
	if err != nil {
		problem = reason(err)
	}
	w.link("world", hashref.None, problem)
}

func coordinated(e *world.Entry) bool {
	return strings.HasPrefix(e.Header.WrittenBy, world.WriterPrefix)
}

// record follows the record of a call; what else an entry names is an object.
func (w *walk) record() {
	c := w.c
	if !coordinated(&c.Entry) {
		// A REST commit may name what it did not bring.
		if _, err := w.r.ObjectMeta(w.ctx, c.Entry.TransitionRef); world.KindOf(err) != world.KindNotFound || err == nil {
			w.object("record", c.Entry.TransitionRef, nil)
		}
		return
	}
	c.Surface = strings.TrimPrefix(c.Writer, world.WriterPrefix)
	var rec record
	if _, ok := w.object("record", c.Entry.TransitionRef, &rec); !ok {
		return
	}
	c.Call, c.Episode, c.Tool, c.Source = rec.InvocationID, rec.EpisodeID, rec.SkillID, rec.TransitionFn
	c.Engine = Engine{Ref: rec.Interpreter, Epoch: rec.SemanticsEpoch}
	h := &c.Entry.Header
	if rec.TransitionFn != h.TransitionFn || rec.Interpreter != h.Interpreter || rec.SemanticsEpoch != h.SemanticsEpoch {
		w.link("record and entry", c.Entry.TransitionRef, "source, engine or epoch of the record are not those of the entry")
	}
	if !c.World.Ref.IsNone() && c.World.StateRoot != rec.Output {
		w.link("state root", c.World.StateRoot, "it is not the record's output")
	}
	if w.known.has(rec.TransitionFn) {
		w.link("source", rec.TransitionFn, "")
	} else if _, ok := w.object("source", rec.TransitionFn, nil); ok {
		w.known.add(rec.TransitionFn)
	}
	w.engine()
	c.Input, _ = w.object("input", rec.Input, nil)
	for i, rr := range rec.rounds() {
		w.round(i, len(rec.rounds()), rr)
	}
	c.Output, _ = w.object("output", rec.Output, nil)
	w.journal()
}

// engine names an engine that ships; an archived binary is no object of the store.
func (w *walk) engine() {
	if w.err != nil {
		return
	}
	if w.known.has(w.c.Engine.Ref) {
		w.link("engine", w.c.Engine.Ref, "")
		return
	}
	o, err := w.r.Object(w.ctx, w.c.Engine.Ref)
	if w.stop(err) || world.KindOf(err) == world.KindNotFound && err != nil {
		return
	}
	var id struct {
		Dialect string `json:"dialect"`
	}
	if err == nil {
		err = hashref.DecodeKnown(o.Payload, &id)
	}
	if err != nil {
		w.link("engine", w.c.Engine.Ref, reason(err))
		return
	}
	w.c.Engine.Name = id.Dialect
	if w.link("engine", w.c.Engine.Ref, "") {
		w.known.add(w.c.Engine.Ref)
	}
}

func (w *walk) round(i, of int, rr recordRound) {
	where := ""
	if of > 1 {
		where = "round " + itoa(i+1) + ": "
	}
	out := Round{Plan: rr.Plan, Effects: []Effect{}}
	out.Text, _ = w.object(where+"plan", rr.Plan, nil)
	for _, ref := range rr.Effects {
		out.Effects = append(out.Effects, w.effect(where, ref))
	}
	w.c.Rounds = append(w.c.Rounds, out)
}

// effect follows one effect: its record, request and result must tell the same.
func (w *walk) effect(where string, ref world.Ref) Effect {
	e := Effect{Record: ref, Status: "unknown"}
	var rec effectRecord
	if _, ok := w.object(where+"effect record", ref, &rec); !ok {
		return e
	}
	e = Effect{Record: ref, Effect: rec.Effect, Scope: rec.Scope, Cost: rec.Cost, Denial: rec.Denial, BudgetBefore: rec.BudgetBefore,
		BudgetAfter: rec.BudgetAfter, Request: rec.RequestRef, Result: rec.ResultRef, Status: rec.status()}
	var req effectRequest
	if _, ok := w.object(where+"request", rec.RequestRef, &req); ok {
		e.ID, e.Payload = req.ID, req.Payload
		switch {
		case req.InvocationID != w.c.Call:
			w.link(where+"request", rec.RequestRef, "it is of invocation "+string(req.InvocationID))
		case req.Effect != rec.Effect || req.Scope != rec.Scope || req.Cost != rec.Cost:
			w.link(where+"request", rec.RequestRef, "it asks for another effect than the record tells of")
		}
	}
	if !rec.ResultRef.IsNone() {
		e.Answer, _ = w.object(where+"result", rec.ResultRef, nil)
	}
	if spent := rec.BudgetBefore - rec.BudgetAfter; rec.Allowed && spent != rec.Cost || !rec.Allowed && spent != 0 {
		w.link(where+"budget", ref, "what was left does not fit the cost")
	}
	return e
}

func (r *effectRecord) status() string {
	switch {
	case !r.Allowed:
		return "denied"
	case r.Failed:
		return "failed"
	}
	return "ok"
}

// journal holds the journal to the record, and tells whose call it was.
func (w *walk) journal() {
	if w.err != nil {
		return
	}
	c := w.c
	inv, err := w.r.Invocation(w.ctx, c.Call)
	if w.stop(err) {
		return
	}
	problem := ""
	switch {
	case err != nil:
		problem = reason(err)
	case inv.State != store.StateCommitted || inv.EntryIndex != c.Index:
		problem = "the journal does not say that " + string(c.Call) + " is this entry"
	}
	if !w.link("journal", c.Entry.TransitionRef, problem) {
		return
	}
	if inv.Credential.IsNone() {
		return
	}
	s, err := w.r.Session(w.ctx, inv.Credential)
	if w.stop(err) {
		return
	}
	if err != nil {
		w.link("session", inv.Credential, reason(err))
		return
	}
	c.Session = &s
	problem = ""
	if s.Episode != c.Episode {
		problem = "it is of episode " + s.Episode
	}
	w.link("session", inv.Credential, problem)
}
