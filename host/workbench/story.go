package workbench

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Outcomes of a call, as pages tell them apart.
const (
	outcomeOK      = "ok"
	outcomeRefused = "refused"
	outcomeDenied  = "denied"
	outcomeFailed  = "failed"
	outcomeBroken  = "broken"
)

// story is one entry in a sentence.
type story struct {
	Index    int64
	Hash     world.Ref
	Surface  string
	Episode  string
	Tool     string
	Call     world.InvocationID
	Deed     deed
	More     int // deeds beyond the one that is told
	Outcome  string
	Reason   string
	Effects  []chip
	Spent    int64
	Problem  string // of an entry that cannot be read
	FirstOf  bool   // the first of a run of entries of one episode
	RunOf    string // what that run is called
	IsRecord bool   // a call made it
}

// chip is one effect in a few words.
type chip struct {
	Effect, Scope, Status string
	Cost                  int64
}

// deed is what one effect was to do: a verb, what it is done to, and how much.
type deed struct {
	Verb, Object, Note string
	// Base is the verb after "tried to".
	Base string
}

// tried is the deed of what was not done.
func (d deed) tried() deed {
	if d.Base != "" {
		d.Verb = "tried to " + d.Base
	}
	return d
}

// The parts of records that a story needs.
type callRecord struct {
	EpisodeID    string             `json:"episodeId"`
	Input        world.Ref          `json:"input"`
	InvocationID world.InvocationID `json:"invocationId"`
	Output       world.Ref          `json:"output"`
	SkillID      string             `json:"skillId"`
	Effects      []world.Ref        `json:"effects"`
	Rounds       []struct {
		Effects []world.Ref `json:"effects"`
	} `json:"rounds"`
}

type effectRecord struct {
	Allowed      bool      `json:"allowed"`
	BudgetAfter  int64     `json:"budgetAfter"`
	BudgetBefore int64     `json:"budgetBefore"`
	Cost         int64     `json:"cost"`
	Denial       string    `json:"denial"`
	Effect       string    `json:"effect"`
	Failed       bool      `json:"failed"`
	RequestRef   world.Ref `json:"requestRef"`
	Scope        string    `json:"scope"`
}

type callOutput struct {
	OK      *bool  `json:"ok"`
	Refused string `json:"refused"`
	Exit    *int64 `json:"exit_code"`
}

// tell makes the story of an entry. It proves nothing: the entry's own page does. What
// cannot be read is told as such; an error says that the store could not be asked.
func (p *Pages) tell(ctx context.Context, e world.Entry) (story, error) {
	s := story{Index: e.Header.EntryIndex, Hash: e.EntryHash, Outcome: outcomeOK}
	by, coordinated := strings.CutPrefix(e.Header.WrittenBy, world.WriterPrefix)
	if !coordinated {
		return p.tellOther(ctx, e, s)
	}
	s.Surface = by
	var rec callRecord
	if err := p.decode(ctx, e.TransitionRef, &rec); err != nil {
		return s.broken(err)
	}
	s.IsRecord = true
	s.Episode, s.Tool, s.Call = rec.EpisodeID, rec.SkillID, rec.InvocationID
	effects := rec.Effects
	for _, r := range rec.Rounds {
		effects = append(effects, r.Effects...)
	}
	for i, ref := range effects {
		if err := p.tellEffect(ctx, &s, ref, i == 0); err != nil {
			return s.broken(err)
		}
	}
	s.More = max(0, len(effects)-1)
	if len(effects) == 0 {
		s.Deed = deed{Verb: "called", Object: s.Tool, Note: p.preview(ctx, rec.Input)}
	}
	var out callOutput
	if err := p.decode(ctx, rec.Output, &out); err == nil {
		s.answered(out)
	} else if world.KindOf(err) != world.KindInternal {
		return s.broken(err)
	}
	return s, nil
}

func (s *story) answered(out callOutput) {
	if out.OK == nil || *out.OK {
		return
	}
	switch {
	case s.Outcome != outcomeOK:
	case out.Refused == "" && out.Exit != nil:
		s.Outcome, out.Refused = outcomeFailed, fmt.Sprintf("exit code %d", *out.Exit)
	default:
		s.Outcome, s.Deed = outcomeRefused, s.Deed.tried()
	}
	if s.Reason == "" || len(out.Refused) > len(s.Reason) {
		s.Reason = out.Refused
	}
}

// broken is a story of what cannot be read, or an error if the store could not be asked.
func (s story) broken(err error) (story, error) {
	switch world.KindOf(err) {
	case world.KindNotFound, world.KindIntegrity, world.KindInternal:
		s.Outcome, s.Problem = outcomeBroken, err.Error()
		return s, nil
	}
	return s, err
}

// tellOther tells of what no call made: the genesis, and what came over REST.
func (p *Pages) tellOther(ctx context.Context, e world.Entry, s story) (story, error) {
	m, err := p.cfg.Store.ObjectMeta(ctx, e.TransitionRef)
	switch {
	case err == nil && m.SemanticID == world.SemGenesis:
		s.Deed = deed{Verb: "the world began", Note: p.goal(ctx, e.TransitionRef)}
	case err == nil:
		s.Deed = deed{Verb: "committed over REST", Object: m.SemanticID, Note: "by " + e.Header.WrittenBy}
	case world.KindOf(err) == world.KindNotFound: // REST need not bring it
		s.Deed = deed{Verb: "committed over REST", Note: "by " + e.Header.WrittenBy}
	default:
		return s.broken(err)
	}
	return s, nil
}

// goal is what a genesis says it is for.
func (p *Pages) goal(ctx context.Context, ref world.Ref) string {
	var g struct {
		Goal string `json:"goal"`
	}
	if err := p.decode(ctx, ref, &g); err != nil || g.Goal == "" {
		return ""
	}
	return "its goal: " + g.Goal
}

// tellEffect adds one effect to a story.
func (p *Pages) tellEffect(ctx context.Context, s *story, ref world.Ref, first bool) error {
	var rec effectRecord
	if err := p.decode(ctx, ref, &rec); err != nil {
		return err
	}
	c := chip{Effect: rec.Effect, Scope: rec.Scope, Cost: rec.Cost, Status: outcomeOK}
	switch {
	case !rec.Allowed:
		c.Status, s.Outcome, s.Reason = outcomeDenied, outcomeDenied, rec.Denial
	case rec.Failed:
		c.Status, s.Outcome = outcomeFailed, outcomeFailed
	}
	if rec.Allowed {
		s.Spent += rec.Cost
	}
	s.Effects = append(s.Effects, c)
	if !first {
		return nil
	}
	var req struct {
		Payload jsontext.Value `json:"payload"`
	}
	if err := p.decode(ctx, rec.RequestRef, &req); err != nil {
		return err
	}
	if s.Deed = deedOf(rec.Effect, req.Payload); c.Status != outcomeOK {
		s.Deed = s.Deed.tried()
	}
	return nil
}

// decode reads an object as JSON.
func (p *Pages) decode(ctx context.Context, ref world.Ref, into any) error {
	o, err := p.cfg.Store.Object(ctx, ref)
	if err != nil {
		return err
	}
	if err := hashref.DecodeKnown(o.Payload, into); err != nil {
		return &world.Error{Op: "workbench.decode", Subject: ref.String(), Kind: world.KindInternal, Err: err}
	}
	return nil
}

// preview is the beginning of an object's text; "" if it cannot be read.
func (p *Pages) preview(ctx context.Context, ref world.Ref) string {
	o, err := p.cfg.Store.Object(ctx, ref)
	if err != nil || string(o.Payload) == "{}" {
		return ""
	}
	return cut(string(o.Payload[:min(len(o.Payload), 4*MaxField)]), MaxField/2)
}

// payload is what the effects that ship ask for; each has some of it.
type payload struct {
	Op       string         `json:"op"`
	Path     string         `json:"path"`
	Pattern  string         `json:"pattern"`
	From     jsontext.Value `json:"from"`
	To       jsontext.Value `json:"to"`
	Content  string         `json:"content"`
	OldText  string         `json:"old_text"`
	NewText  string         `json:"new_text"`
	Rev      string         `json:"rev"`
	Message  string         `json:"message"`
	Profile  string         `json:"profile"`
	Args     []string       `json:"args"`
	Job      string         `json:"job"`
	Action   string         `json:"action"`
	Question string         `json:"question"`
	Approval string         `json:"approval"`
}

// deedOf tells what an effect's payload asks for. One of a shape that is not known is
// told by its own text.
func deedOf(effect string, text jsontext.Value) deed {
	var a payload
	if hashref.DecodeKnown(text, &a) == nil {
		if d := a.deed(effect); d.Verb != "" {
			return d
		}
	}
	return deed{Verb: "had done", Base: "do", Object: effect, Note: cut(string(text[:min(len(text), 4*MaxField)]), MaxField/2)}
}

func (a *payload) deed(effect string) deed {
	switch effect + " " + a.Op {
	case "Workspace.Read read":
		note := ""
		if len(a.From) > 0 || len(a.To) > 0 {
			note = "lines " + orDots(a.From) + " to " + orDots(a.To)
		}
		return deed{"read", a.Path, note, "read"}
	case "Workspace.Read list":
		return deed{"listed", orHere(a.Path), "", "list"}
	case "Workspace.Read glob":
		return deed{"looked for files", a.Pattern, under(a.Path), "look for files"}
	case "Workspace.Read grep":
		return deed{"searched for", a.Pattern, under(a.Path), "search for"}
	case "Workspace.Write write":
		return deed{"wrote", a.Path, plural(lines(a.Content), "line"), "write"}
	case "Workspace.Write edit":
		return deed{"edited", a.Path, fmt.Sprintf("%s for %s", plural(lines(a.NewText), "line"), plural(lines(a.OldText), "line")), "edit"}
	case "Workspace.Exec ":
		return deed{"ran", strings.Join(append([]string{a.Profile}, a.Args...), " "), "", "run"}
	case "Workspace.Exec job":
		if a.Action == "cancel" {
			return deed{"cancelled job", a.Job, "", "cancel job"}
		}
		return deed{"looked at job", a.Job, "", "look at job"}
	case "Git.Read status":
		return deed{"looked at the status of", orHere(a.Path), "", "look at the status of"}
	case "Git.Read diff":
		return deed{"compared", orHere(a.Path), "", "compare"}
	case "Git.Read log":
		return deed{"read the history of", orHere(a.Path), "", "read the history of"}
	case "Git.Read show":
		return deed{"looked at", a.Rev, a.Path, "look at"}
	case "Git.Commit commit":
		first, _, _ := strings.Cut(a.Message, "\n")
		return deed{"committed", "“" + first + "”", "", "commit"}
	case "Human.Approve ":
		return deed{"asked a person", "“" + a.Question + "”", "", "ask a person"}
	case "Human.PollApproval ":
		return deed{"looked whether a person answered", a.Approval, "", "look whether a person answered"}
	}
	return deed{}
}

// plainly is a denial in words; what is none of the known is told as it is.
func plainly(denial string) string {
	word, rest, _ := strings.Cut(denial, ": ")
	text := map[world.Denial]string{
		world.DeniedEffect:   "no grant of the session names this effect",
		world.DeniedScope:    "no grant of the session names this scope",
		world.DeniedExpired:  "the session's time was over",
		world.DeniedBudget:   "what was left of the budget did not cover the cost",
		world.DeniedApproval: "a person must approve it first",
	}[world.Denial(word)]
	switch {
	case text == "":
		return denial
	case rest != "":
		return text + ": " + rest
	}
	return text
}

func orHere(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func orDots(v jsontext.Value) string {
	if len(v) == 0 {
		return "…"
	}
	return string(v)
}

func under(path string) string {
	if path == "" || path == "." {
		return ""
	}
	return "under " + path
}

func lines(s string) int {
	if s == "" {
		return 0
	}
	n := strings.Count(s, "\n")
	if !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
