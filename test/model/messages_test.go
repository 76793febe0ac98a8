package model

import (
	"context"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Users, their messages, and what is kept of them.

var userPlans = authority.Plans{"pro": {Name: "pro", Tasks: true, Grants: []authority.PlanGrant{
	{Grant: world.Grant{Effect: "Test.Do", Scope: "s", Budget: 7}}, {Grant: world.Grant{Effect: "Test.Do", Scope: "t", Budget: 2}},
}}}

// What users are told. The codes are of the task dialect.
const (
	taskOther  = "Invalid params: this messageId was used for a message with other content"
	taskSkill  = "Skill not found: "
	taskResend = "Internal error: whether the call was made is not known; send the same message again"
	taskGone   = "Task not found"
	taskEnded  = "Invalid state transition"
)

// keptTask is a task at its end, as the model has it.
type keptTask struct {
	digest  string
	answer  string // as the caller was told it
	expires time.Time
}

// people makes two users, who have the same plan.
func (w *realWorld) people() error {
	w.named = map[string]string{}
	for _, subject := range []string{"ada", "bob"} {
		m, err := w.ops.MintToken(context.Background(), admin.TokenRequest{Subject: subject, Plan: "pro", TTL: "8760h"})
		if err != nil {
			return err
		}
		w.users = append(w.users, m.Credential)
		w.m.users = append(w.m.users, &session{episode: m.Token.Episode, expires: time.Now().Add(365 * 24 * time.Hour),
			grants: []grant{{"Test.Do", "s", 7}, {"Test.Do", "t", 2}}})
	}
	return nil
}

// wireTask is what comes back of a message.
type wireTask struct {
	Result *struct {
		ID     string `json:"id"`
		Status struct {
			State   string `json:"state"`
			Message struct {
				Parts []wirePart `json:"parts"`
			} `json:"message"`
		} `json:"status"`
		Artifacts []struct {
			Parts []wirePart `json:"parts"`
		} `json:"artifacts"`
		Metadata struct {
			Entry *int `json:"entry_index"`
		} `json:"metadata"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type wirePart struct {
	Text string  `json:"text"`
	Data rawJSON `json:"data"`
}

// ask makes one request of a user.
func (w *realWorld) ask(user int, method string, params any) (text string, t wireTask, err error) {
	rec := w.send(context.Background(), "POST", "/api/v1/a2a", w.users[user], hashref.MustMarshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
	err = json.Unmarshal(rec.Body.Bytes(), &t)
	return rec.Body.String(), t, err
}

// message sends a message, in both worlds.
func (w *realWorld) message(s step) (string, error) {
	s.Who %= len(w.users)
	if s.Task == "" {
		w.fresh++
		s.Task = fmt.Sprint("f", w.fresh)
	}
	again := s
	again.Fault = ""
	w.posted = append(w.posted, again)
	id, digest := invocation("tasks", w.m.users[s.Who].episode, s.Task), s.Skill+" "+string(s.Args.wire(s.Skill))
	old := w.m.kept[id]
	if old != nil && !time.Now().Before(old.expires) {
		old = nil
	}
	var want verdict
	var took time.Duration
	if old == nil {
		want, took = w.m.call(s, func(*visit, string) {})
	}
	w.sure.fault, w.sure.persist = s.Fault, s.Persist
	began := time.Now()
	text, got, err := w.ask(s.Who, "message/send", map[string]any{"message": map[string]any{"role": "user", "kind": "message", "messageId": s.Task,
		"metadata": map[string]any{"skillId": s.Skill}, "parts": []any{map[string]any{"kind": "data", "data": rawJSON(s.Args.wire(s.Skill))}}}})
	synctest.Wait()
	w.sure.fault = ""
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	if got.Result != nil {
		w.named[id] = "task:" + w.m.users[s.Who].episode + ":" + got.Result.ID
	}
	if d := time.Since(began); d != took {
		return "", fmt.Errorf("it took %v, in the model %v", d, took)
	}
	if old != nil {
		say := old.answer
		if old.digest != digest {
			return "other content", says(text, got, taskOther)
		}
		if text != say {
			return "", fmt.Errorf("the task is %s, was %s", text, say)
		}
		return "kept task", nil
	}
	return w.ended(s, id, digest, text, got, want)
}

// says holds an error to its text.
func says(text string, got wireTask, want string) error {
	if got.Error == nil || !strings.HasPrefix(got.Error.Message, want) {
		return fmt.Errorf("it was told %s, in the model %q", text, want)
	}
	return nil
}

// ended compares what a message came to.
func (w *realWorld) ended(s step, id, digest, text string, got wireTask, want verdict) (string, error) {
	switch want.refused {
	case msgNotAuthorized:
		return "skill not found", says(text, got, taskSkill)
	case msgUsed:
		return "other content", says(text, got, taskOther)
	case msgUnconfirmed:
		return "resend", says(text, got, taskResend)
	}
	if s.Fault == "keep" {
		if s.Persist {
			w.m.kept[id] = &keptTask{digest: digest, expires: time.Now().Add(keptTime)}
			// What is kept is found out by asking once more.
			again := s
			again.Fault = ""
			if err := says(text, got, taskResend); err != nil {
				return "", err
			}
			text, t, err := w.sendAgain(again)
			if err != nil || t.Result == nil {
				return "", fmt.Errorf("sent again, a task that is kept: %s, %v", text, err)
			}
			w.named[id], w.m.kept[id].answer = "task:"+w.m.users[s.Who].episode+":"+t.Result.ID, text
			return "resend", w.task(s, text, t, want)
		}
		return "resend", says(text, got, taskResend)
	}
	w.m.kept[id] = &keptTask{digest: digest, answer: text, expires: time.Now().Add(keptTime)}
	return "task", w.task(s, text, got, want)
}

func (w *realWorld) sendAgain(s step) (string, wireTask, error) {
	return w.ask(s.Who, "message/send", map[string]any{"message": map[string]any{"role": "user", "kind": "message", "messageId": s.Task,
		"metadata": map[string]any{"skillId": s.Skill}, "parts": []any{map[string]any{"kind": "data", "data": rawJSON(s.Args.wire(s.Skill))}}}})
}

// task compares a task at its end with the model's verdict of its call.
func (w *realWorld) task(s step, text string, got wireTask, want verdict) error {
	if got.Result == nil {
		return fmt.Errorf("it was told %s, in the model it is a task: %+v", text, want)
	}
	failed := map[string]string{
		msgExecution: "the skill raised an error, or went over its bounds of time, steps, memory or output", msgConvention: "the skill broke its calling convention",
		msgOutput: "the skill's output is not a JSON object", msgUnrecorded: msgUnrecorded,
	}[want.refused]
	parts := got.Result.Status.Message.Parts
	if want.entry < 0 {
		if got.Result.Status.State != "failed" || len(parts) == 0 || !strings.HasPrefix(parts[0].Text, failed) || got.Result.Metadata.Entry != nil {
			return fmt.Errorf("it was told %s, in the model %q", text, failed)
		}
		if n := strings.Count(parts[0].Text, "sha256:"); n != want.unrecorded {
			return fmt.Errorf("it was told %s, in the model %d records", text, want.unrecorded)
		}
		return nil
	}
	if e := got.Result.Metadata.Entry; e == nil || *e != want.entry {
		return fmt.Errorf("it was told %s, in the model it is entry %d", text, want.entry)
	}
	call := w.m.log[want.entry].call
	if ok, said := call.out["ok"].(bool); said && !ok {
		if got.Result.Status.State != "failed" || len(parts) != 2 {
			return fmt.Errorf("it was told %s, in the model %v", text, call.out)
		}
		return w.output(parts[1].Data, call)
	}
	if got.Result.Status.State != "completed" || len(got.Result.Artifacts) != 1 {
		return fmt.Errorf("it was told %s, in the model %v", text, call.out)
	}
	return w.output(got.Result.Artifacts[0].Parts[0].Data, call)
}

// about asks for a task that a message has, or had, and tries to cancel it.
func (w *realWorld) about(s step) (string, error) {
	if len(w.posted) == 0 {
		return "nothing", nil
	}
	m := w.posted[len(w.posted)-1-s.Who%len(w.posted)]
	id := invocation("tasks", w.m.users[m.Who].episode, m.Task)
	name := w.named[id]
	if name == "" {
		return "nothing", nil
	}
	params := map[string]any{"id": name[strings.LastIndexByte(name, ':')+1:]}
	if text, t, err := w.ask(1-m.Who, s.What, params); err != nil || says(text, t, taskGone) != nil {
		return "", fmt.Errorf("another user is told %s, %v", text, err)
	}
	text, t, err := w.ask(m.Who, s.What, params)
	if err != nil {
		return "", err
	}
	k := w.m.kept[id]
	switch {
	case k == nil || !time.Now().Before(k.expires):
		return "task gone", says(text, t, taskGone)
	case s.What == "tasks/cancel":
		return "task ended", says(text, t, taskEnded)
	case text != k.answer:
		return "", fmt.Errorf("the task is %s, was %s", text, k.answer)
	}
	return "kept task", nil
}
