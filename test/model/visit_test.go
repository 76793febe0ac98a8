package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// verdict is how the model says that a call ends.
type verdict struct {
	entry      int // of the log; -1: none
	replayed   bool
	refused    string // what the caller is told instead
	unrecorded int    // how many effects are named then
	any        bool   // what the caller is told is not looked at
	how        string
}

func refusedWith(msg string) verdict { return verdict{entry: -1, refused: msg, how: msg} }

// visit is one call on its way through the model.
type visit struct {
	m        *reference
	s        step
	who      *session
	id       string
	digest   string
	now      time.Time // the clock of this call
	deadline time.Time
	version  int
	task     *task    // what the journal says of it; nil: nothing
	intents  []record // intents that are durable, or that the caller was told of
	rounds   [][]record
	behind   bool // a handler was left behind
	canceled bool
}

// killed ends a visit where the daemon was killed.
type killed struct{}

// halt ends a visit with an answer.
type halt verdict

// call lives through one call. at is called at each step of it.
func (m *reference) call(s step, at func(v *visit, step string)) (out verdict, took time.Duration) {
	v := &visit{m: m, s: s, now: m.now()}
	began := v.now
	v.deadline = v.now.Add(callTime)
	if s.Door == "tasks" {
		v.deadline = v.now.Add(taskTime)
	}
	defer func() {
		took = v.now.Sub(began)
		switch p := recover().(type) {
		case nil:
		case halt:
			out = verdict(p)
		case killed:
			out = verdict{entry: -1, any: true, how: "killed"}
		default:
			panic(p)
		}
	}()
	if v.who = m.users[s.Who%len(m.users)]; s.Door != "tasks" {
		v.who = m.sessions[s.Who]
	}
	switch {
	case v.who.revoked:
		return refusedWith(msgUnknown), 0
	case !v.now.Before(v.who.expires):
		return refusedWith(msgExpired), 0
	}
	version, published := m.skills[s.Skill]
	t := transitions[s.Skill]
	if denial, _ := v.who.denies(t.access.effect, t.access.scope, t.access.budget, v.now); !published || denial != "" {
		return refusedWith(msgNotAuthorized), 0
	}
	v.version, v.digest = version, s.Skill+" "+string(s.Args.wire(s.Skill))
	if s.Task != "" {
		v.id = invocation(s.Door, v.who.episode, s.Task)
		if v.task = m.tasks[v.id]; v.task != nil {
			return v.task.again(v.digest), 0
		}
	}
	pass := func(step string) { at(v, step) }
	pass("call.admitted")
	if t.pure {
		return v.pure(t, pass), 0
	}
	if until := m.busy[v.who.episode]; v.now.Before(until) {
		v.now = until
	}
	return v.effectful(t, pass), 0
}

// invocation is what a call is named by. Of a message the model says its own id, where the
// daemon has one that it derives from it.
func invocation(door, episode, task string) string {
	if door == "tasks" {
		return "task:" + episode + ":" + task
	}
	return "a2a:" + episode + ":" + task
}

// again is the answer to a task that was sent before.
func (t *task) again(digest string) verdict {
	switch {
	case t.digest != digest:
		return refusedWith(msgUsed)
	case t.entry < 0:
		return verdict{entry: -1, refused: msgUnrecorded, unrecorded: len(t.effects), how: "unrecorded"}
	}
	return verdict{entry: t.entry, replayed: true, how: "replayed"}
}

func (v *visit) pure(t *transition, pass func(string)) verdict {
	out, msg := t.run(v.s.Args, v.version)
	if v.gone() {
		return canceled()
	}
	if msg != "" {
		return refusedWith(msg)
	}
	pass("call.finished")
	return v.commit(t, &done{out: out}, pass)
}

func canceled() verdict { return verdict{entry: -1, any: true, how: "canceled"} }

// gone tells whether the caller has gone while that still stops something.
func (v *visit) gone() bool { return v.canceled && len(v.intents) == 0 }

func (v *visit) effectful(t *transition, pass func(string)) verdict {
	if t.msg != "" && !v.gone() {
		return refusedWith(t.msg)
	}
	rounds, finish := t.plan(v.s.Args)
	if !v.gone() && !t.declares(rounds, 0) {
		return refusedWith(msgConvention)
	}
	pass("call.planned")
	for i := 0; ; i++ {
		var now []deed
		if len(rounds) > 0 {
			now = rounds[i]
		}
		v.perform(t, now, pass)
		if v.gone() {
			return canceled()
		}
		if !finish {
			return v.commit(t, v.plain(t), pass)
		}
		v.record()
		pass("effect.recorded")
		if v.gone() {
			return canceled()
		}
		if i+1 < len(rounds) {
			if !t.declares(rounds, i+1) {
				return v.fails(msgConvention)
			}
			continue
		}
		switch v.s.Args.End {
		case "fail":
			return v.fails(msgExecution)
		case "list", "world":
			return v.fails(msgOutput)
		}
		return v.commit(t, &done{out: v.told(), effects: v.effects()}, pass)
	}
}

// fails is a failure that effects may have come before.
func (v *visit) fails(msg string) verdict {
	if len(v.intents) == 0 {
		return refusedWith(msg)
	}
	v.recordAll()
	return verdict{entry: -1, refused: msgUnrecorded, unrecorded: len(v.intents), how: "unrecorded"}
}

// perform does a plan's effects in order, and skips those after the first that is not ok.
func (v *visit) perform(t *transition, effects []deed, pass func(string)) {
	stop := v.behind
	var now []record
	for _, d := range effects {
		r := record{id: d.ID, effect: d.Effect, scope: d.Scope, cost: d.Cost, status: "skipped"}
		if stop = stop || len(v.intents) > 0 && v.deadline.Sub(v.now) < leastTime; !stop {
			r = v.one(t, d, pass)
			stop = r.status != "ok"
		}
		now = append(now, r)
	}
	v.rounds = append(v.rounds, now)
}

// one decides, debits and does one effect.
func (v *visit) one(t *transition, d deed, pass func(string)) record {
	m := v.m
	r := record{id: d.ID, effect: d.Effect, scope: d.Scope, cost: d.Cost, status: "denied"}
	denial, budget := v.who.denies(d.Effect, d.Scope, d.Cost, v.now)
	key := v.who.episode + " " + d.Effect + "=" + d.Scope
	left := max(0, budget-m.spent[key])
	over := budget < m.spent[key] // another session of the episode was granted more
	r.before, r.after = left, left
	short := denial == "" && (over || d.Cost > left)
	if v.gone() {
		panic(halt(canceled()))
	}
	if denial == "" && !short && t.gated {
		denial = m.approve(fmt.Sprint(v.who.episode, " ", v.s.Skill, " ", v.version, " ", v.s.Args.N), v.now)
	}
	if denial == "" && v.s.Fault == "intent" && !(short && t.gated) {
		// The store does not know: the effect is not done, the debit may stand.
		v.intents = append(v.intents, r)
		if v.recordAll(); v.s.Persist && !short {
			r.after = left - d.Cost
			v.debit(key, &r)
		}
		panic(halt(verdict{entry: -1, refused: msgUnrecorded, unrecorded: len(v.intents), how: "unrecorded"}))
	}
	if short {
		denial = "denied:budget"
	}
	if denial != "" {
		r.denial = denial
		return r
	}
	r.after = left - d.Cost
	v.recordAll() // what came before goes with the intent
	v.intents = append(v.intents, r)
	v.debit(key, &r)
	pass("effect.intended")
	r.status, r.output, r.denial = v.handle(d)
	v.intents[len(v.intents)-1] = r
	pass("effect.performed")
	return r
}

// debit makes an intent durable.
func (v *visit) debit(key string, r *record) {
	v.m.spent[key] += r.cost
	v.begin()
	v.task.effects = append(v.task.effects, *r)
}

// begin has the journal know of the call.
func (v *visit) begin() {
	if v.task != nil {
		return
	}
	v.task = &task{digest: v.digest, entry: -1}
	if v.id == "" {
		v.m.chosen = append(v.m.chosen, v.task)
	} else {
		v.m.tasks[v.id] = v.task
	}
}

// approve uses up an approval, or says what the caller is told without one.
func (m *reference) approve(subject string, now time.Time) string {
	now = now.Truncate(time.Second)
	for _, a := range m.approvals {
		if a.subject == subject && a.at(now) == "granted" {
			a.state = "used"
			return ""
		}
	}
	for _, a := range m.approvals {
		if state := a.at(now); a.subject == subject && (state == "pending" || state == "denied") {
			if state == "denied" {
				return "denied:approval: a person said no to approval"
			}
			return "denied:approval: a person must approve exactly this call first; approval"
		}
	}
	m.approvals = append(m.approvals, &approval{subject: subject, state: "pending", expires: now.Add(askTime)})
	return "denied:approval: a person must approve exactly this call first; approval"
}

// handle is the handler, and the time that it takes.
func (v *visit) handle(d deed) (status string, output map[string]any, reason string) {
	m := v.m
	m.performed[v.key(d.ID)]++
	if d.Effect == "Workspace.Write" {
		return "ok", m.write(v.who.episode, v.s), ""
	}
	switch d.How {
	case "ok":
		return "ok", map[string]any{"ok": true, "n": float64(v.s.Args.N)}, ""
	case "refuse":
		return "ok", map[string]any{"ok": false, "refused": "no such thing"}, ""
	case "tell":
		return "failed", nil, "the printer is on fire"
	case "hang":
		v.now = v.now.Add(min(handlerTime, v.deadline.Sub(v.now)))
		return "failed", nil, "it ran out of time"
	case "stuck":
		began := v.now
		limit := min(handlerTime, v.deadline.Sub(v.now)) + stopGrace
		if limit >= stuckTime {
			panic("the handler that does not stop is too quick")
		}
		v.now, v.behind = v.now.Add(limit), true
		m.busy[v.who.episode] = began.Add(stuckTime)
		return "failed", nil, "it ran out of time and did not stop; it may still take place"
	}
	return "failed", nil, "internal failure"
}

func (v *visit) key(effect string) string {
	if v.id == "" || v.s.Door == "tasks" {
		return "chosen " + effect
	}
	return v.id + " " + effect
}

// write is the workspace handler. Its answer is told apart by ok alone.
func (m *reference) write(episode string, s step) map[string]any {
	path := episode + "/" + s.Args.Path
	if s.Skill == "workspace-write" {
		m.files[path] = s.Args.Content
		return map[string]any{"ok": true}
	}
	text, there := m.files[path]
	if !there || strings.Count(text, s.Args.Old) != 1 {
		return map[string]any{"ok": false}
	}
	m.files[path] = strings.Replace(text, s.Args.Old, s.Args.Content, 1)
	return map[string]any{"ok": true}
}

// record makes outcomes durable before a finish phase.
func (v *visit) record() {
	open := slices.ContainsFunc(v.intents, func(r record) bool { return !r.durable })
	if v.s.Fault == "outcome" && open {
		if v.s.Persist {
			v.recordAll()
		}
		panic(halt(verdict{entry: -1, refused: msgUnrecorded, unrecorded: len(v.intents), how: "unrecorded"}))
	}
	v.recordAll()
}

// recordAll makes the outcomes durable of all that was done.
func (v *visit) recordAll() {
	for i := range v.intents {
		v.intents[i].durable = true
	}
	if v.task != nil {
		for i := range v.task.effects {
			v.task.effects[i].durable = true
		}
	}
}

// effects are those of all rounds.
func (v *visit) effects() []record {
	var all []record
	for _, r := range v.rounds {
		all = append(all, r...)
	}
	return all
}

// plain is the output without a finish phase.
func (v *visit) plain(t *transition) *done {
	d := &done{effects: v.effects()}
	if len(d.effects) == 0 {
		d.out = map[string]any{"ok": false, "refused": "by the plan"}
		return d
	}
	for _, r := range d.effects {
		switch {
		case r.status == "ok" && t.files:
			d.ok = r.output["ok"]
		case r.status == "ok":
			d.out = r.output
		case r.status == "denied":
			d.approval = approvalIn(r.denial)
			d.out = map[string]any{"ok": false, "refused": r.denial}
			return d
		case r.status == "failed":
			d.out = map[string]any{"ok": false, "refused": "effect failed: " + r.denial}
			return d
		case r.status == "skipped":
			d.out = map[string]any{"ok": false, "refused": "not done: the call's time was over, or an earlier effect of it may still be at work"}
			return d
		}
	}
	return d
}

func approvalIn(denial string) string {
	if strings.HasPrefix(denial, "denied:approval: ") {
		return denial
	}
	return ""
}

// told is the output of the finish phase: what it was given.
func (v *visit) told() map[string]any {
	seen := []any{}
	for _, r := range v.effects() {
		var out any
		if r.output != nil {
			out = r.output
		}
		seen = append(seen, []any{r.id, r.status, r.denial, out})
	}
	return map[string]any{"seen": seen, "version": float64(v.version)}
}

// commit makes the call an entry.
func (v *visit) commit(t *transition, d *done, pass func(string)) verdict {
	m := v.m
	pass("call.finished")
	pass("call.before-commit")
	if v.gone() {
		return canceled()
	}
	if v.s.Fault == "append" {
		if v.s.Persist {
			v.append(t, d)
		}
		if len(v.intents) == 0 {
			return verdict{entry: -1, refused: msgUnconfirmed, how: "unconfirmed"}
		}
		v.recordAll()
		return verdict{entry: -1, refused: msgUnrecorded, unrecorded: len(v.intents), how: "unrecorded"}
	}
	v.append(t, d)
	pass("call.committed")
	return verdict{entry: len(m.log) - 1, how: v.how(t, d)}
}

func (v *visit) append(t *transition, d *done) {
	m := v.m
	v.recordAll()
	v.begin()
	m.log = append(m.log, entry{writer: "coordinator:" + v.s.Door, source: t.source(v.version), invocation: v.id, call: d})
	v.task.entry = len(m.log) - 1
}

// how names the ending, so that TestModel can tell whether each was met.
func (v *visit) how(t *transition, d *done) string {
	for _, r := range d.effects {
		switch {
		case r.denial == "denied:expired":
			return "expired in mid-call"
		case r.status == "skipped":
			return "skipped effects"
		case r.status == "denied":
			return "entry of denials"
		}
	}
	switch {
	case t.gated:
		return "approved"
	case !t.pure && len(d.effects) == 0 && len(v.rounds[0]) == 0:
		return "refused by the plan"
	}
	return "entry"
}
