package coordinator

import (
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

func refusal(text string) jsontext.Value {
	return hashref.MustMarshal(map[string]any{"ok": false, "refused": text})
}

// plain is the output without a finish phase: the plan's own result, or what the last
// effect gave, or why the first that was not ok was not.
func plain(rounds []round) jsontext.Value {
	last := rounds[len(rounds)-1]
	if len(last.plan.effects) == 0 {
		return last.plan.result
	}
	var out jsontext.Value
	for _, done := range last.dones {
		switch done.Status {
		case broker.StatusOK:
			out = done.Output
		case broker.StatusDenied:
			if done.Approval != "" {
				return hashref.MustMarshal(map[string]any{"ok": false, "refused": done.Reason, "approval": done.Approval})
			}
			return refusal(done.Reason)
		case broker.StatusFailed:
			return refusal("effect failed: " + done.Reason)
		case broker.StatusSkipped:
			return refusal("not done: the call's time was over, or an earlier effect of it may still be at work")
		}
	}
	return out
}

// phaseInput is the input of the plan phase. Its fields stand in canonical order and hold
// canonical values, so the text is canonical; it may be one level deeper than arguments.
func phaseInput(args []byte) []byte {
	return hashref.Ordered(struct {
		Args  jsontext.Value `json:"args"`
		Phase string         `json:"phase"`
	}{args, "plan"})
}

// phaseResult is one effect as the finish phase is told of it, in canonical order.
type phaseResult struct {
	Denial  string         `json:"denial,omitempty"`
	Effect  string         `json:"effect"`
	ID      string         `json:"id"`
	Omitted bool           `json:"omitted,omitzero"`
	Output  jsontext.Value `json:"output"`
	Record  *world.Ref     `json:"record"`
	Status  broker.Status  `json:"status"`
}

// finishInput is the input of the finish phase: the effects of all rounds so far, and under
// plan v2 how many rounds these are. Outputs beyond MaxResults in all are left out, and told.
func finishInput(args []byte, rounds []round) []byte {
	results, size := []phaseResult{}, 0
	for _, r := range rounds {
		for i := range r.dones {
			d := &r.dones[i]
			res := phaseResult{ID: d.ID, Effect: d.Effect, Status: d.Status, Record: recordOf(d), Output: jsontext.Value("null"), Denial: d.Reason}
			if size += len(d.Output); size > MaxResults {
				res.Omitted = true
			} else if d.Status == broker.StatusOK {
				res.Output = d.Output
			}
			results = append(results, res)
		}
	}
	in := struct {
		Args    jsontext.Value `json:"args"`
		Phase   string         `json:"phase"`
		Results []phaseResult  `json:"results"`
		Round   int            `json:"round,omitzero"`
	}{Args: args, Phase: "finish", Results: results}
	if rounds[0].plan.version == 2 {
		in.Round = len(rounds)
	}
	return hashref.Ordered(in)
}

// recordOf is nil for an effect that was skipped.
func recordOf(d *broker.Done) *world.Ref {
	if d.Status == broker.StatusSkipped {
		return nil
	}
	return &d.Record
}

// worldBlock is what every effectful output gains: the first plan and the effects of all
// rounds, and each round if there are several.
type worldBlock struct {
	Effects []worldEffect `json:"effects"`
	Plan    world.Ref     `json:"plan"`
	Rounds  []worldRound  `json:"rounds,omitempty"`
}

type worldRound struct {
	Effects []worldEffect `json:"effects"`
	Plan    world.Ref     `json:"plan"`
}

type worldEffect struct {
	ID     string        `json:"id"`
	Record *world.Ref    `json:"record"`
	Status broker.Status `json:"status"`
}

// withWorld adds the world block to a canonical object.
func withWorld(out jsontext.Value, rounds []round) (jsontext.Value, error) {
	block := worldBlock{Effects: []worldEffect{}, Plan: rounds[0].plan.object.Hash}
	for _, r := range rounds {
		wr := worldRound{Effects: []worldEffect{}, Plan: r.plan.object.Hash}
		for i := range r.dones {
			d := &r.dones[i]
			wr.Effects = append(wr.Effects, worldEffect{ID: d.ID, Record: recordOf(d), Status: d.Status})
		}
		block.Effects = append(block.Effects, wr.Effects...)
		if len(rounds) > 1 {
			block.Rounds = append(block.Rounds, wr)
		}
	}
	full, ok, err := hashref.Insert(out, reservedKey, hashref.Ordered(block))
	if err == nil && !ok {
		err = errReserved
	}
	return full, err
}
