package tasks

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// State is where a task is.
type State string

// The states that a task can be kept in. Only the first two are ever written by a send;
// the third is what tasks/cancel makes of a task that is not at its end.
const (
	Completed State = "completed"
	Failed    State = "failed"
	Canceled  State = "canceled"
)

// Terminal tells whether a task in this state stays in it.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Canceled }

// Task is a task on the wire, in its field order there.
type Task struct {
	Kind      string           `json:"kind"` // "task"
	ID        string           `json:"id"`
	ContextID string           `json:"contextId"`
	Status    Status           `json:"status"`
	Artifacts []Artifact       `json:"artifacts"`
	History   []jsontext.Value `json:"history"`
	Metadata  Metadata         `json:"metadata"`
}

// Status is a task's.
type Status struct {
	State     State    `json:"state"`
	Message   *Message `json:"message,omitzero"` // of a failed task: why
	Timestamp string   `json:"timestamp"`        // RFC 3339, UTC
}

// Message is one of ours.
type Message struct {
	Kind      string `json:"kind"` // "message"
	Role      string `json:"role"` // "agent"
	MessageID string `json:"messageId"`
	TaskID    string `json:"taskId"`
	ContextID string `json:"contextId"`
	Parts     []Part `json:"parts"`
}

// Part is a text or a data part.
type Part struct {
	Kind string         `json:"kind"`
	Text string         `json:"text,omitzero"`
	Data jsontext.Value `json:"data,omitzero"`
}

// Artifact is what a completed task gave.
type Artifact struct {
	ArtifactID string `json:"artifactId"`
	Name       string `json:"name"`
	Parts      []Part `json:"parts"`
}

// Metadata leads from a task to the log. A task whose call is no entry has neither a world
// nor an entry.
type Metadata struct {
	SkillID    string             `json:"skillId"`
	Invocation world.InvocationID `json:"invocation_id"`
	World      string             `json:"world_ref,omitzero"`
	Entry      *int64             `json:"entry_index,omitzero"`
}

// record is a task as it is kept.
type record struct {
	Digest world.Ref `json:"digest"` // of the message
	Task   Task      `json:"task"`
}

// givesWay tells whether a later end may be kept in this one's place: never a failed one in that of
// a completed one.
func (r *record) givesWay(later *record) bool {
	return !r.Task.Status.State.Terminal() || r.Task.Status.State == Failed && later.Task.Status.State == Completed && r.Digest == later.Digest
}

// derived makes an id out of others that no one else has: the same message has the same
// ids for ever, whatever was lost in between.
func derived(parts ...string) string {
	sum := hashref.Sum(hashref.Ordered(parts))
	u, err := uuid.Parse(sum.Hex()[:32])
	if err != nil {
		panic(err) // 32 hexadecimal digits are one
	}
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8, of our own making
	return u.String()
}

// keyOf is what a task is kept under. Another's task has another key, so that it cannot be
// told from one that is missing.
func keyOf(s world.Session, id string) world.Ref {
	return hashref.Sum(hashref.Ordered([]string{s.Episode, id}))
}

// begun is a message's task before anything came of it.
func begun(s world.Session, m *message, id string) *record {
	context := m.context
	if context == "" {
		context = derived("context", s.Episode, m.id)
	}
	return &record{Digest: m.digest, Task: Task{
		Kind: "task", ID: id, ContextID: context, Artifacts: []Artifact{}, History: []jsontext.Value{said(m, id, context)},
		Metadata: Metadata{SkillID: m.skill, Invocation: world.TaskInvocation(s.Episode, id)},
	}}
}

// said is the user's message as the history has it: with the ids that it led to.
func said(m *message, id, context string) jsontext.Value {
	fields, err := hashref.Members(m.raw)
	if err != nil {
		panic(err) // it was read before
	}
	fields["taskId"], fields["contextId"] = surface.AppendString(nil, id), surface.AppendString(nil, context)
	return hashref.MustMarshal(fields)
}

func (t *Task) agent(id string, parts ...Part) *Message {
	return &Message{Kind: "message", Role: "agent", MessageID: derived(id, t.ID), TaskID: t.ID, ContextID: t.ContextID, Parts: parts}
}

func (m *Message) encode() []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // as of a task
	}
	return text
}

// end puts a task at its end.
func (t *Task) end(state State, now time.Time) {
	t.Status.State, t.Status.Timestamp = state, now.UTC().Format("2006-01-02T15:04:05.000Z")
}

// committed is the end that a call's output is: completed, unless the skill refused.
func (t *Task) committed(res coordinator.Result, now time.Time) {
	t.Metadata.Invocation, t.Metadata.World, t.Metadata.Entry = res.Invocation, res.World.String(), &res.Entry
	if why, refused := refusal(res.Output); refused {
		t.failed(why, now, Part{Kind: "data", Data: res.Output})
		return
	}
	parts := []Part{{Kind: "data", Data: res.Output}}
	if text := readable(res.Output); text != "" {
		parts = []Part{{Kind: "text", Text: text}, parts[0]}
	}
	t.Artifacts = append(t.Artifacts, Artifact{ArtifactID: derived("artifact", t.ID), Name: t.Metadata.SkillID, Parts: parts})
	t.History = append(t.History, t.agent("answer", parts...).encode())
	t.end(Completed, now)
}

// failed is the end that a failure is.
func (t *Task) failed(why string, now time.Time, more ...Part) {
	t.Status.Message = t.agent("failure", append([]Part{{Kind: "text", Text: why}}, more...)...)
	t.History = append(t.History, t.Status.Message.encode())
	t.end(Failed, now)
}

// refusal is the reason of an output that says it is none: {"ok":false,"refused":"…"}.
func refusal(output []byte) (why string, refused bool) {
	var o struct {
		OK      jsontext.Value `json:"ok"`
		Refused jsontext.Value `json:"refused"`
	}
	if hashref.DecodeKnown(output, &o) != nil || o.OK.Kind() != 'f' {
		return "", false
	}
	if why, _ = surface.String(o.Refused); why == "" {
		why = "the skill refused"
	}
	return why, true
}

// readable is what an output has for a person: its text, if that is a string.
func readable(output []byte) string {
	var o struct {
		Text jsontext.Value `json:"text"`
	}
	if hashref.DecodeKnown(output, &o) != nil {
		return ""
	}
	text, _ := surface.String(o.Text)
	return text
}

// last leaves the newest n messages in the history.
func (t *Task) last(raw jsontext.Value) error {
	if absent(raw) {
		return nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 {
		return invalidParams("historyLength must be an integer from 0")
	}
	t.History = t.History[max(len(t.History)-n, 0):]
	return nil
}

// encode is the task's JSON. What is in it was JSON before, so it can be no error.
func (t *Task) encode() []byte {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return text
}
