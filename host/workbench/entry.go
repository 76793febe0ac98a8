package workbench

import (
	"context"
	"html/template"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/world"
)

// entryView is one entry with all that it stands on.
type entryView struct {
	Story      story
	Chain      *provenance.Chain
	Picture    template.HTML
	Input      template.HTML
	Output     template.HTML
	Rounds     []roundView
	Acted      bool // it had effects
	Expired    bool // the session's time is over
	Prev, Next string
	Newest     bool
}

type roundView struct {
	Number  int // 0 where there is only one
	Plan    world.Ref
	Text    template.HTML
	Effects []effectView
}

type effectView struct {
	E      provenance.Effect
	Deed   deed
	Inside template.HTML
	Asked  template.HTML
	Answer template.HTML
	Reason string // of a failure
	Bar    template.HTML
	Spent  int64
}

func (p *Pages) entryView(ctx context.Context, index int64) (*entryView, error) {
	c, err := provenance.Explain(ctx, p.cfg.Store, index)
	if err != nil {
		return nil, err
	}
	head, err := p.cfg.Store.Head(ctx)
	if err != nil {
		return nil, err
	}
	v := &entryView{Chain: c, Newest: index+1 >= head.Next}
	if v.Story, err = p.tell(ctx, c.Entry); err != nil {
		return nil, err
	}
	if index > 0 {
		v.Prev = entryPath(index - 1)
	}
	if !v.Newest {
		v.Next = entryPath(index + 1)
	}
	v.Expired = c.Session != nil && !c.Session.LiveAt(p.cfg.Now())
	room := room(MaxBoxes)
	v.Input = room.shown(c.Input, linkRef(c, "input"))
	v.Output = room.shown(c.Output, linkRef(c, "output"))
	for i, r := range c.Rounds {
		rv := roundView{Plan: r.Plan, Text: room.shown(r.Text, r.Plan)}
		if len(c.Rounds) > 1 {
			rv.Number = i + 1
		}
		for _, e := range r.Effects {
			rv.Effects = append(rv.Effects, room.effect(e))
		}
		v.Acted = v.Acted || len(r.Effects) > 0
		v.Rounds = append(v.Rounds, rv)
	}
	v.Picture = picture(c)
	return v, nil
}

// room is how many bytes the boxes of a page may still take.
type room int

// box is what is made, if there is room for it; else a link to all of it.
func (left *room) box(whole string, made func() template.HTML) template.HTML {
	if *left > 0 {
		// What it takes is what it takes once it is inert.
		b := inertPage([]byte(made()))
		if n := room(len(b)); n <= *left {
			*left -= n
			return template.HTML(b)
		}
		*left = 0 // what follows is no more, so that a page has no holes
	}
	var m markup
	m.raw(`<p class="cut">This page is full. `)
	link(&m, whole, "Show the whole")
	m.raw(`</p>`)
	return m.html()
}

// shown is a payload in a box, with a link to the whole.
func (left *room) shown(text jsontext.Value, ref world.Ref) template.HTML {
	if len(text) == 0 {
		return ""
	}
	whole := objectPath(ref, true)
	return left.box(whole, func() template.HTML { return pretty(text, MaxBlock, whole) })
}

func (left *room) effect(e provenance.Effect) effectView {
	whole := objectPath(e.Result, true)
	if e.Effect == "Workspace.Write" || e.Result.IsNone() {
		whole = objectPath(e.Request, true)
	}
	v := effectView{E: e, Deed: deedOf(e.Effect, e.Payload), Spent: e.BudgetBefore - e.BudgetAfter}
	if e.Status != outcomeOK {
		v.Deed = v.Deed.tried()
	}
	v.Inside = left.box(whole, func() template.HTML { return inside(e.Effect, e.Payload, e.Answer, whole) })
	v.Asked, v.Answer = left.shown(e.Payload, e.Request), left.shown(e.Answer, e.Result)
	if e.Status == outcomeFailed || e.Status == outcomeOK {
		var a answer
		if hashref.DecodeKnown(e.Answer, &a) == nil {
			v.Reason = a.Failed
			if v.Reason == "" {
				v.Reason = a.Refused
			}
		}
	}
	if e.BudgetBefore > 0 {
		v.Bar = bar(v.Spent, e.BudgetBefore)
	}
	return v
}
