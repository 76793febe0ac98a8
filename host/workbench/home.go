package workbench

import (
	"context"
	"fmt"
	"html/template"
	"strconv"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func entryPath(i int64) string       { return "/workbench?entry=" + strconv.FormatInt(i, 10) }
func worldPath(ref world.Ref) string { return "/workbench?world=" + ref.String() }
func timelinePath(from int64) string { return "/workbench?from=" + strconv.FormatInt(from, 10) }
func wholePath(ref world.Ref) string { return "/v1/objects/" + ref.String() + "?payload=true" }
func findPath(ref world.Ref) string  { return "/workbench/find?q=" + ref.String() }
func namedPath(ref world.Ref, payload bool, param string, after int64) string {
	return objectPath(ref, payload) + "&" + param + "=" + strconv.FormatInt(after, 10)
}

// homeData is the page of /workbench: what its parameters ask for, each in a part of its
// own, and the timeline if they ask for it or for nothing.
type homeData struct {
	Entry    *entryView
	World    *worldView
	Object   *objectView
	Timeline *timeline
}

// home reads all parameters before it asks the store for anything.
func (p *Pages) home(r *request) (*page, error) {
	q := r.query
	object, err := q.ref("object")
	if err != nil {
		return nil, err
	}
	selected, err := q.ref("world")
	if err != nil {
		return nil, err
	}
	numbers := map[string]int64{}
	for _, name := range []string{"from", "entry", "refsAfter", "commitsAfter"} {
		if numbers[name], err = q.number(name, 0); err != nil {
			return nil, err
		}
	}
	payload, err := q.flag("payload")
	if err != nil {
		return nil, err
	}
	pg := &page{title: "Timeline", nav: "timeline", template: "home"}
	var d homeData
	if q.has("entry") {
		if d.Entry, err = p.entryView(r.ctx, numbers["entry"]); err != nil {
			return nil, err
		}
		pg.title = fmt.Sprintf("Entry %d", numbers["entry"])
	}
	if q.has("object") {
		if d.Object, err = p.objectView(r.ctx, object, payload, numbers["refsAfter"], numbers["commitsAfter"]); err != nil {
			return nil, err
		}
		pg.title = "Object " + short(object)
	}
	if q.has("world") {
		if d.World, err = p.worldView(r.ctx, selected); err != nil {
			return nil, err
		}
		pg.title = "World " + short(selected)
	}
	if q.has("from") || d == (homeData{}) {
		from := int64(-1)
		if q.has("from") {
			from = numbers["from"]
		}
		if d.Timeline, err = p.timeline(r.ctx, from); err != nil {
			return nil, err
		}
	}
	pg.data = d
	return pg, nil
}

// timeline is a page of the log, newest entry first.
type timeline struct {
	Stories      []story
	From, To     int64 // the first and last entry shown
	Entries      int64 // of the whole log
	Newer, Older string
	Past         bool // it begins past the end of the log
	Open         int  // calls that never ended; OpenMore: at least so many
	OpenMore     bool
}

// timeline reads the entries from an index on, or the newest if it is below 0. It costs the
// same wherever in the log that is.
func (p *Pages) timeline(ctx context.Context, from int64) (*timeline, error) {
	t := &timeline{}
	head, err := p.cfg.Store.Head(ctx)
	if world.KindOf(err) == world.KindNoWorld && err != nil {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	t.Entries = head.Next
	if from < 0 {
		from = max(0, head.Next-TimelinePage)
	}
	if from >= head.Next {
		t.Past, t.Older = true, timelinePath(max(0, head.Next-TimelinePage))
		return t, nil
	}
	if t.Stories, err = p.stories(ctx, from, min(from+TimelinePage, head.Next)); err != nil {
		return nil, err
	}
	t.From, t.To = from, from+int64(len(t.Stories))-1
	if t.To+1 < head.Next {
		t.Newer = timelinePath(t.To + 1)
	}
	if from > 0 {
		t.Older = timelinePath(max(0, from-TimelinePage))
	}
	open, next, err := p.cfg.Store.Unresolved(ctx, 0, OpenPage)
	if err != nil && world.KindOf(err) != world.KindIntegrity {
		return nil, err
	}
	t.Open, t.OpenMore = len(open), next != 0
	return t, nil
}

// stories tells the entries from..to-1, newest first. An entry that does not prove itself
// is told as that.
func (p *Pages) stories(ctx context.Context, from, to int64) ([]story, error) {
	entries, err := p.cfg.Store.Entries(ctx, from, int(to-from))
	whole := err == nil && int64(len(entries)) == to-from
	if err != nil && world.KindOf(err) != world.KindIntegrity {
		return nil, err
	}
	all := make([]story, 0, to-from)
	for i := to - 1; i >= from; i-- {
		s := story{Index: i, Outcome: outcomeBroken}
		var e world.Entry
		if whole {
			e = entries[i-from]
		} else if e, err = p.cfg.Store.Entry(ctx, i); err != nil {
			if s, err = s.broken(err); err != nil {
				return nil, err
			}
			all = append(all, s)
			continue
		}
		if s, err = p.tell(ctx, e); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	inRuns(all)
	return all, nil
}

// inRuns marks where entries of another episode, or of none, begin.
func inRuns(all []story) {
	for i := range all {
		s := &all[i]
		s.RunOf = s.Episode
		s.FirstOf = i == 0 || all[i-1].RunOf != s.RunOf
	}
}

// worldView is one state of the world.
type worldView struct {
	World    world.World
	Selected bool // it is the head
	Entry    int64
}

func (p *Pages) worldView(ctx context.Context, ref world.Ref) (*worldView, error) {
	w, err := p.cfg.Store.World(ctx, ref)
	if err != nil {
		return nil, err
	}
	head, err := p.cfg.Store.Head(ctx)
	if err != nil {
		return nil, err
	}
	return &worldView{World: w, Selected: head.World == ref, Entry: w.Revision}, nil
}

// objectView is one object, and who names it.
type objectView struct {
	Meta    world.ObjectMeta
	Payload template.HTML // "" unless it was asked for
	Size    int
	Shown   bool
	Named   []named // objects and registries
	Entries []named // entries and worlds
	// NamedNext and EntriesNext are where there may be more.
	NamedNext, EntriesNext string
	NamedPrev, EntriesPrev bool // they do not begin at the first
	Problem                string
}

// named is one thing that names an object.
type named struct{ What, Name, Href string }

func (p *Pages) objectView(ctx context.Context, ref world.Ref, payload bool, refsAfter, commitsAfter int64) (*objectView, error) {
	v := &objectView{Shown: payload, NamedPrev: refsAfter > 0, EntriesPrev: commitsAfter > 0}
	var err error
	if v.Meta, err = p.cfg.Store.ObjectMeta(ctx, ref); err != nil {
		return nil, err
	}
	if payload {
		o, err := p.cfg.Store.Object(ctx, ref)
		switch {
		case err != nil && world.KindOf(err) == world.KindIntegrity:
			v.Problem = err.Error() // and its metadata is shown all the same
		case err != nil:
			return nil, err
		default:
			v.Size, v.Payload = len(o.Payload), pretty(o.Payload, MaxWhole, "")
			if len(o.Payload) > MaxWhole {
				v.Payload = pretty(o.Payload, MaxWhole, wholePath(ref))
			}
		}
	}
	rows, err := p.named(ctx, ref, refsAfter)
	if err != nil {
		return nil, err
	}
	for _, n := range rows {
		switch n.Kind {
		case store.ReferrerObject:
			v.Named = append(v.Named, p.namedObject(ctx, n.Ref))
		case store.ReferrerRegistry:
			v.Named = append(v.Named, named{"registry", n.Name, ""})
		}
	}
	if len(rows) == NamedPage {
		v.NamedNext = namedPath(ref, payload, "refsAfter", rows[len(rows)-1].Seq)
	}
	if commitsAfter != refsAfter {
		if rows, err = p.named(ctx, ref, commitsAfter); err != nil {
			return nil, err
		}
	}
	for _, n := range rows {
		switch n.Kind {
		case store.ReferrerEntry:
			v.Entries = append(v.Entries, named{"entry", strconv.FormatInt(n.Index, 10), entryPath(n.Index)})
		case store.ReferrerWorld:
			v.Entries = append(v.Entries, named{"world", short(n.Ref), worldPath(n.Ref)})
		}
	}
	if len(rows) == NamedPage {
		v.EntriesNext = namedPath(ref, payload, "commitsAfter", rows[len(rows)-1].Seq)
	}
	return v, nil
}

func (p *Pages) named(ctx context.Context, ref world.Ref, after int64) ([]store.Referrer, error) {
	rows, err := p.cfg.Store.Referrers(ctx, ref, after, NamedPage)
	if err != nil && world.KindOf(err) == world.KindIntegrity {
		return nil, nil // what names it is told by an index; the object itself is not less true
	}
	return rows, err
}

func (p *Pages) namedObject(ctx context.Context, ref world.Ref) named {
	what := "object"
	if m, err := p.cfg.Store.ObjectMeta(ctx, ref); err == nil {
		what = m.SemanticID
	}
	return named{what, short(ref), objectPath(ref, true)}
}

// find leads to what a query names.
func (p *Pages) find(r *request) (*page, error) {
	q := r.query.values.Get("q")
	if q == "" {
		return nil, bad("q", "must be an entry's index, head, sha256:…, or a call's id such as a2a:episode:task")
	}
	found, err := provenance.Resolve(r.ctx, p.cfg.Store, q, 0)
	if err != nil {
		if ref, perr := hashref.Parse(q); perr == nil && world.KindOf(err) == world.KindNotFound {
			if _, merr := p.cfg.Store.ObjectMeta(r.ctx, ref); merr == nil {
				return &page{redirect: objectPath(ref, true)}, nil // an object that no entry stands on
			}
		}
		return nil, err
	}
	if len(found.Entries) == 1 && !found.More {
		return &page{redirect: entryPath(found.Entries[0])}, nil
	}
	d := foundData{Query: q, Is: found.Is, More: found.More}
	for _, i := range found.Entries[:min(len(found.Entries), TimelinePage)] {
		s, err := p.stories(r.ctx, i, i+1)
		if err != nil {
			return nil, err
		}
		d.Stories = append(d.Stories, s...)
	}
	d.Left = len(found.Entries) - len(d.Stories)
	inRuns(d.Stories)
	return &page{title: "Found", nav: "timeline", template: "found", data: d}, nil
}

type foundData struct {
	Query, Is string
	Stories   []story
	Left      int
	More      bool
}
