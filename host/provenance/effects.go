package provenance

import (
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/world"
)

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
