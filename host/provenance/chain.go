// Package provenance answers what happened, why, on whose authority and at what cost, and
// whether the record still proves itself. It reads a store and nothing else: it never
// writes, never calls a handler, and trusts no hash that it did not compute. Answers
// spec/17-provenance.md.
package provenance

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

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

// Refused tells whether the output says "ok":false, and why if it says that.
func (c *Chain) Refused() (refused bool, why string) {
	var out struct {
		OK      *bool  `json:"ok"`
		Refused string `json:"refused"`
	}
	if hashref.DecodeKnown(c.Output, &out) != nil || out.OK == nil || *out.OK {
		return false, ""
	}
	return true, out.Refused
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
	if err == nil {
		err = whole(ref, o.Payload)
	}
	if err != nil {
		return nil, w.link(what, ref, reason(err))
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

// whole tells of a payload that does not hash to its name: not every Reader has looked.
func whole(ref world.Ref, payload []byte) error {
	if sum := hashref.Sum(payload); sum != ref {
		return errors.New("its payload hashes to " + sum.String())
	}
	return nil
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
		w.link("entry hash", e.EntryHash, entryProblem(e))
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
		problem := worldProblem(e, &got)
		if err != nil {
			problem = reason(err)
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

// hashable tells whether a number can be in what is hashed: no entry was ever made of another.
func hashable(n int64) bool { return -hashref.MaxInt <= n && n <= hashref.MaxInt }

// entryProblem says why the entry of a call is not what its hash says; "" if it is.
func entryProblem(e *world.Entry) string {
	if h := &e.Header; !hashable(h.EntryIndex) || !hashable(h.SemanticsEpoch) || !utf8.ValidString(h.WrittenBy) {
		return "it holds what cannot be hashed"
	}
	if sum := world.ComputeEntryHash(e.Header, e.TransitionRef); sum != e.EntryHash {
		return "the entry hashes to " + sum.String()
	}
	return ""
}

// worldProblem says why a world is not the one that an entry made; "" if it is.
func worldProblem(e *world.Entry, w *world.World) string {
	switch {
	case w.LogHead != e.EntryHash || w.Revision != e.Header.EntryIndex:
		return "it names another entry"
	case coordinated(e) && !hashable(w.Revision):
		return "its revision is beyond what can be hashed"
	case coordinated(e) && world.ComputeWorldRef(w.Revision, w.StateRoot, w.LogHead) != w.Ref:
		return "the world hashes to " + world.ComputeWorldRef(w.Revision, w.StateRoot, w.LogHead).String()
	}
	return ""
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
		err = whole(w.c.Engine.Ref, o.Payload)
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
