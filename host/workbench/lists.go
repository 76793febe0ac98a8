package workbench

import (
	"context"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func episodePath(name string) string { return "/workbench/episodes/" + url.PathEscape(name) }

func callPath(id world.InvocationID) string { return "/workbench/calls/" + url.PathEscape(string(id)) }

// episodesData is the page of all episodes, as their sessions show them.
type episodesData struct {
	Episodes []episodeLine
	Next     string
	Later    bool // it does not begin at the first session
}

type episodeLine struct {
	Name     string
	Sessions int
	Live     int
	Budgets  []budgetView
}

// budgetView is one budget of one session.
type budgetView struct {
	Effect, Scope  string
	Spent, Granted int64
	Left           int64
	Bar            template.HTML
}

// episodes pages the sessions in order of minting, and tells them by episode.
func (p *Pages) episodes(r *request) (*page, error) {
	after, err := r.query.ref("after")
	if err != nil {
		return nil, err
	}
	sessions, err := p.cfg.Store.Sessions(r.ctx, "", after, SessionPage)
	if err != nil {
		return nil, err
	}
	d := episodesData{Later: !after.IsNone()}
	if len(sessions) == SessionPage {
		d.Next = "/workbench/episodes?after=" + sessions[len(sessions)-1].ID.String()
	}
	now, at := p.cfg.Now(), map[string]int{}
	newest := map[string]world.Session{}
	for _, s := range slices.Backward(sessions) { // newest first
		i, there := at[s.Episode]
		if !there {
			i = len(d.Episodes)
			at[s.Episode] = i
			d.Episodes = append(d.Episodes, episodeLine{Name: s.Episode})
			newest[s.Episode] = s
		}
		d.Episodes[i].Sessions++
		if s.LiveAt(now) {
			if d.Episodes[i].Live++; !newest[s.Episode].LiveAt(now) {
				newest[s.Episode] = s
			}
		}
	}
	for i := range d.Episodes {
		if d.Episodes[i].Budgets, err = p.budgets(r.ctx, newest[d.Episodes[i].Name]); err != nil {
			return nil, err
		}
	}
	return &page{title: "Episodes", nav: "episodes", template: "episodes", data: d}, nil
}

// budgets are those of a session: what its episode spent of what it was granted.
func (p *Pages) budgets(ctx context.Context, s world.Session) ([]budgetView, error) {
	var all []budgetView
	for _, g := range s.Grants {
		if slices.ContainsFunc(all, func(b budgetView) bool { return b.Effect == g.Effect && b.Scope == g.Scope }) {
			continue // two grants of one effect and scope add up
		}
		granted, _, _ := s.Budget(g.Effect, g.Scope)
		spent, err := p.cfg.Store.Spent(ctx, s.Episode, g.Effect, g.Scope)
		if err != nil {
			return nil, err
		}
		all = append(all, budgetView{g.Effect, g.Scope, spent, granted, max(0, granted-spent), bar(spent, granted)})
	}
	return all, nil
}

// episodeData is the page of one episode.
type episodeData struct {
	Name     string
	Sessions []sessionView
	More     bool // there are more sessions than are shown
	Stories  []story
	Older    string
	Newer    string
	Denials  int
	Problems int
}

type sessionView struct {
	world.Session
	Live    bool
	Budgets []budgetView
}

// episode tells an episode's sessions, and a page of its entries, newest first.
func (p *Pages) episode(r *request) (*page, error) {
	name := r.PathValue("episode")
	if err := world.CheckEpisode(name); err != nil {
		return nil, bad("episode", "must be 1 to 64 of a-z 0-9 -, beginning with a letter or digit")
	}
	sessions, err := p.cfg.Store.Sessions(r.ctx, name, hashref.None, SessionPage)
	if err != nil {
		return nil, err
	}
	if len(sessions) == 0 {
		return nil, world.Errorf(world.KindNotFound, "workbench", "no session of an episode %q was minted here", name)
	}
	d := episodeData{Name: name, More: len(sessions) == SessionPage}
	now := p.cfg.Now()
	for _, s := range slices.Backward(sessions) {
		v := sessionView{Session: s, Live: s.LiveAt(now)}
		if v.Budgets, err = p.budgets(r.ctx, s); err != nil {
			return nil, err
		}
		d.Sessions = append(d.Sessions, v)
	}
	if err := p.entries(r, &d); err != nil {
		return nil, err
	}
	return &page{title: "Episode " + name, nav: "episodes", template: "episode", data: d}, nil
}

// entries tells a page of an episode's entries: the newest, those before one, or those
// after one.
func (p *Pages) entries(r *request, d *episodeData) error {
	before, err := r.query.number("before", hashref.MaxInt)
	if err != nil {
		return err
	}
	after, err := r.query.number("after", 0)
	if err != nil {
		return err
	}
	if r.query.has("before") && r.query.has("after") {
		return bad("after", "cannot stand beside before")
	}
	place, back := before, !r.query.has("after")
	if !back {
		place = after + 1
	}
	// One more than fits tells whether there are more.
	indexes, err := p.cfg.Store.EpisodeEntries(r.ctx, d.Name, place, back, EpisodePage+1)
	if err != nil {
		return err
	}
	more := len(indexes) > EpisodePage
	indexes = indexes[:min(len(indexes), EpisodePage)]
	if !back {
		slices.Reverse(indexes)
	}
	if n := len(indexes); n > 0 {
		at := func(key string, index int64) string {
			return episodePath(d.Name) + "?" + key + "=" + strconv.FormatInt(index, 10)
		}
		if more || !back {
			d.Older = at("before", indexes[n-1])
		}
		if back && before < hashref.MaxInt || !back && more {
			d.Newer = at("after", indexes[0])
		}
	}
	if d.Stories, err = p.storiesAt(r.ctx, indexes); err != nil {
		return err
	}
	for _, s := range d.Stories {
		switch s.Outcome {
		case outcomeDenied:
			d.Denials++
		case outcomeFailed, outcomeRefused, outcomeBroken:
			d.Problems++
		}
	}
	return nil
}

// storiesAt tells entries. One that is damaged is left out: the timeline tells of it.
func (p *Pages) storiesAt(ctx context.Context, indexes []int64) ([]story, error) {
	var all []story
	for _, i := range indexes {
		e, err := p.cfg.Store.Entry(ctx, i)
		if err != nil {
			if world.KindOf(err) == world.KindIntegrity {
				continue
			}
			return nil, err
		}
		s, err := p.tell(ctx, e)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// transitionsData is a page of the registry.
type transitionsData struct {
	Head        world.Ref
	Revision    int64
	Count, From int
	Transitions []transitionView
	Prev, Next  string
}

type transitionView struct {
	*world.Descriptor
	In, Out template.HTML
}

func (p *Pages) transitions(r *request) (*page, error) {
	from, err := r.query.number("from", 0)
	if err != nil {
		return nil, err
	}
	snap, err := p.cfg.Registry.Snapshot(r.ctx)
	if err != nil {
		return nil, err
	}
	d := transitionsData{Head: snap.Head, Revision: snap.Revision, Count: len(snap.Transitions)}
	if d.Count > 0 && from >= int64(d.Count) {
		return nil, bad("from", "is past the last of %d transitions", d.Count)
	}
	d.From = int(min(from, int64(d.Count)))
	end := min(d.From+TransitionPage, d.Count)
	room := room(MaxBoxes)
	for _, t := range snap.Transitions[d.From:end] {
		d.Transitions = append(d.Transitions, transitionView{t, room.shown(t.InputSchema, snap.Head), room.shown(t.OutputSchema, snap.Head)})
	}
	at := func(i int) string { return "/workbench/transitions?from=" + strconv.Itoa(i) }
	if d.From > 0 {
		d.Prev = at(max(0, d.From-TransitionPage))
	}
	if end < d.Count {
		d.Next = at(end)
	}
	return &page{title: "Transitions", nav: "transitions", template: "transitions", data: d}, nil
}

// approvalsData is the book of what people were asked.
type approvalsData struct {
	Open, Ended []approvalView
}

type approvalView struct {
	approvals.Approval
	State   approvals.State // now
	Deed    deed
	Payload template.HTML
	Problem string
}

func (p *Pages) approvals(r *request) (*page, error) {
	all, err := p.cfg.Approvals.List(r.ctx)
	if err != nil {
		return nil, err
	}
	var d approvalsData
	room := room(MaxBoxes)
	now := p.cfg.Now()
	for _, a := range slices.Backward(all) {
		v := approvalView{Approval: a, State: a.At(now)}
		if v.State != approvals.Pending && v.State != approvals.Granted {
			d.Ended = append(d.Ended, v)
			continue
		}
		switch s, err := p.cfg.Approvals.Subject(r.ctx, a); {
		case err == nil:
			whole := objectPath(a.Subject, true)
			v.Deed = deedOf(s.Effect, s.Payload)
			v.Payload = room.box(whole, func() template.HTML { return pretty(s.Payload, MaxBlock/4, whole) })
		case world.KindOf(err) == world.KindTimeout:
			return nil, err
		default:
			v.Problem = err.Error()
		}
		d.Open = append(d.Open, v)
	}
	return &page{title: "Approvals", nav: "approvals", template: "approvals", data: d}, nil
}

// callsData is the page of calls that have no end.
type callsData struct {
	Calls []callView
	Next  string
}

// callView is what the journal says of one call.
type callView struct {
	store.Invocation
	Surface, Episode, Task string
	Story                  *story
	Session                *world.Session
	Live                   bool
}

func viewOf(inv store.Invocation) callView {
	v := callView{Invocation: inv}
	kind, rest, _ := strings.Cut(string(inv.ID), ":")
	v.Surface = kind
	switch kind {
	case "a2a", "task":
		v.Episode, v.Task, _ = strings.Cut(rest, ":")
	default:
		v.Task = rest
	}
	return v
}

func (p *Pages) openCalls(r *request) (*page, error) {
	after, err := r.query.number("after", 0)
	if err != nil {
		return nil, err
	}
	open, next, err := p.cfg.Store.Unresolved(r.ctx, after, OpenPage)
	if err != nil {
		return nil, err
	}
	var d callsData
	for _, inv := range open {
		d.Calls = append(d.Calls, viewOf(inv))
	}
	if next != 0 {
		d.Next = "/workbench/calls?after=" + strconv.FormatInt(next, 10)
	}
	return &page{title: "Open calls", nav: "calls", template: "calls", data: d}, nil
}

// call is one call, or task, by its id: an entry or not.
func (p *Pages) call(r *request) (*page, error) {
	id := world.InvocationID(r.PathValue("id"))
	if id == "" || len(id) > store.MaxText {
		return nil, bad("id", "must be 1 to %d bytes", store.MaxText)
	}
	inv, err := p.cfg.Store.Invocation(r.ctx, id)
	if err != nil {
		return nil, err
	}
	if inv.State == store.StateUnknown {
		return nil, world.Errorf(world.KindNotFound, "workbench", "the journal has no call %s", cut(string(id), MaxField))
	}
	v := viewOf(inv)
	if inv.State == store.StateCommitted {
		told, err := p.stories(r.ctx, inv.EntryIndex, inv.EntryIndex+1)
		if err != nil {
			return nil, err
		}
		v.Story = &told[0]
	}
	if !inv.Credential.IsNone() {
		if s, err := p.cfg.Store.Session(r.ctx, inv.Credential); err == nil {
			v.Session, v.Live = &s, s.LiveAt(p.cfg.Now())
		} else if world.KindOf(err) == world.KindTimeout {
			return nil, err
		}
	}
	return &page{title: "Call " + cut(v.Task, 40), nav: "calls", template: "call", data: v}, nil
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
