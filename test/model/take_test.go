package model

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/admin"
	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// pauseFor is how long a call is held up where that is the story.
const pauseFor = 9 * time.Second

// take takes one step in both worlds, and compares them. It gives the name of how it ended.
func (w *realWorld) take(s step) (how string, err error) {
	if how, err = w.step(s); err != nil {
		return "", err
	}
	synctest.Wait()
	return how, w.compare()
}

func (w *realWorld) step(s step) (string, error) {
	ctx := context.Background()
	switch s.Do {
	case "mint":
		return w.mint(ctx, s)
	case "wait":
		time.Sleep(time.Duration(s.Seconds) * time.Second)
		return "waited", nil
	case "publish":
		w.m.skills[s.Skill] = s.Version
		return "published", w.publish(s.Skill, s.Version)
	case "remove":
		if _, there := w.m.skills[s.Skill]; !there {
			return "nothing", nil
		}
		delete(w.m.skills, s.Skill)
		_, err := w.ops.Remove(ctx, []string{s.Skill})
		return "removed", err
	case "restart":
		return "restarted", w.reopen(w.path)
	case "kill":
		path, err := w.snapshot()
		if err != nil {
			return "", err
		}
		return "restarted", w.reopen(path)
	case "revoke all":
		return w.revokeAll(ctx, episodes[s.Episode])
	case "decide":
		return w.decide(ctx, s.Who)
	case "burst":
		return w.burst(ctx, s)
	case "message":
		return w.message(s)
	case "resend":
		if len(w.posted) == 0 {
			return "nothing", nil
		}
		return w.message(w.posted[len(w.posted)-1-s.Who%len(w.posted)])
	case "task":
		return w.about(s)
	}
	if len(w.m.sessions) == 0 {
		return "nothing", nil
	}
	if s.Do == "again" || s.Do == "anew" {
		if len(w.sent) == 0 {
			return "nothing", nil
		}
		again := w.sent[len(w.sent)-1-s.Who%len(w.sent)]
		if s.Do == "anew" {
			again.Task = "" // the same arguments, another task
		}
		return w.oneCall(ctx, again)
	}
	s.Who %= len(w.m.sessions)
	switch s.Do {
	case "call":
		return w.oneCall(ctx, s)
	case "list":
		return w.list(s.Who)
	case "revoke":
		w.m.sessions[s.Who].revoked = true
		return "revoked", w.revoke(ctx, s.Who)
	case "commit":
		return w.commit(s)
	}
	return "", fmt.Errorf("there is no step %q", s.Do)
}

func (w *realWorld) mint(ctx context.Context, s step) (string, error) {
	r := admin.MintRequest{Episode: episodes[s.Episode], TTL: time.Duration(s.Seconds) * time.Second}
	now := &session{episode: r.Episode, expires: time.Now().Add(r.TTL)}
	for _, text := range s.Grants {
		g, err := world.ParseGrant(text)
		if err != nil {
			return "", err
		}
		r.Grants = append(r.Grants, g)
		now.grants = append(now.grants, grant{g.Effect, g.Scope, g.Budget})
	}
	m, err := w.ops.Mint(ctx, r)
	if err != nil {
		return "", err
	}
	w.creds, w.m.sessions = append(w.creds, m.Credential), append(w.m.sessions, now)
	return "minted", nil
}

func (w *realWorld) revoke(ctx context.Context, who int) error {
	id, ok := authority.CredentialID(w.creds[who])
	if !ok {
		return fmt.Errorf("%q is no credential", w.creds[who])
	}
	return w.ops.Revoke(ctx, id)
}

func (w *realWorld) revokeAll(ctx context.Context, episode string) (string, error) {
	want := 0
	for _, s := range w.m.sessions {
		if s.episode == episode && !s.revoked {
			s.revoked = true
			want++
		}
	}
	if n, err := w.ops.RevokeEpisode(ctx, episode); err != nil || n != want {
		return "", fmt.Errorf("%d sessions were revoked, %v; in the model %d", n, err, want)
	}
	return "revoked", nil
}

// prepare names the task that a call is of, and tells the model's side of it.
func (w *realWorld) prepare(s step) step {
	if s.Door == "mcp" {
		s.Task = ""
		return s
	}
	if s.Task == "" {
		w.fresh++
		s.Task = fmt.Sprint("f", w.fresh)
	}
	w.doer.mu.Lock()
	defer w.doer.mu.Unlock()
	w.doer.ours[world.AgentInvocation(w.m.sessions[s.Who].episode, s.Task)] = true
	return s
}

// event is what happens in the midst of a call, in the model.
func (m *reference) event(s step) func(*visit, string) {
	return func(v *visit, at string) {
		if at != s.At {
			return
		}
		s.At = "" // once
		switch s.What {
		case "cancel":
			v.canceled = true
		case "kill":
			panic(killed{})
		case "wait":
			if mayWait(at) {
				v.now = v.now.Add(pauseFor)
			}
		case "revoke":
			m.sessions[s.Who].revoked = true
		case "remove":
			delete(m.skills, s.Skill)
		case "publish":
			m.skills[s.Skill] = 1 - v.version
		}
	}
}

// mayWait tells whether a call may be held up at a step: what follows an effect has less time
// than that.
func mayWait(at string) bool {
	return at == "call.admitted" || at == "call.planned" || at == "effect.intended" || at == "effect.performed"
}

func (w *realWorld) oneCall(ctx context.Context, s step) (string, error) {
	s = w.prepare(s)
	if s.Task != "" {
		plain := s
		plain.At, plain.What, plain.Fault = "", "", ""
		w.sent = append(w.sent, plain)
	}
	if transitions[s.Skill].files && (s.What == "publish" || s.What == "remove") {
		s.What = ""
	}
	version := w.m.skills[s.Skill]
	want, took := w.m.call(s, w.m.event(s))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var path string
	var oops error
	canceled := false
	at := s.At
	w.pause = func(step string) {
		if step != at {
			return
		}
		at = ""
		switch s.What {
		case "cancel":
			canceled = true
			cancel()
		case "kill":
			path, oops = w.snapshot()
			end()
		case "wait":
			if mayWait(step) {
				time.Sleep(pauseFor)
			}
		case "revoke":
			oops = w.revoke(context.Background(), s.Who)
		case "remove":
			_, oops = w.ops.Remove(context.Background(), []string{s.Skill})
		case "publish":
			oops = w.publish(s.Skill, 1-version)
		}
	}
	w.sure.fault, w.sure.persist = s.Fault, s.Persist
	began := time.Now()
	got, err := w.call(ctx, s)
	if err != nil && !want.any {
		return "", err
	}
	if canceled && err == nil {
		// Nobody waits for the answer, but the call goes on.
		want.any = true
		if err := w.coord.Wait(context.Background()); err != nil {
			return "", err
		}
	}
	synctest.Wait()
	w.pause, w.sure.fault = nil, ""
	if oops != nil {
		return "", oops
	}
	spent := time.Since(began)
	if path != "" {
		if err := w.reopen(path); err != nil {
			return "", err
		}
	}
	if err := w.told(s, got, want); err != nil {
		return "", err
	}
	if !want.any && spent != took {
		return "", fmt.Errorf("it took %v, in the model %v", spent, took)
	}
	return want.how, nil
}

// burst makes calls at once. The model makes them in the order in which they became entries.
func (w *realWorld) burst(ctx context.Context, s step) (string, error) {
	if len(w.m.sessions) == 0 {
		return "nothing", nil
	}
	replies, errs := make([]reply, len(s.Calls)), make([]error, len(s.Calls))
	calls := slices.Clone(s.Calls)
	var wg sync.WaitGroup
	for i := range calls {
		calls[i].Who %= len(w.m.sessions)
		calls[i].Door, calls[i].Task = "a2a", ""
		calls[i] = w.prepare(calls[i])
	}
	for i := range calls {
		wg.Go(func() { replies[i], errs[i] = w.call(ctx, calls[i]) })
	}
	wg.Wait()
	order := make([]int, len(calls))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(replies[a].entry, replies[b].entry) })
	for _, i := range order {
		if errs[i] != nil {
			return "", errs[i]
		}
		want, _ := w.m.call(calls[i], func(*visit, string) {})
		if err := w.told(calls[i], replies[i], want); err != nil {
			return "", fmt.Errorf("call %d of the burst: %w", i, err)
		}
	}
	return "burst", nil
}

// decide grants or denies the approval with a number.
func (w *realWorld) decide(ctx context.Context, n int) (string, error) {
	all, err := w.ops.Approvals(ctx)
	if err != nil || len(all) != len(w.m.approvals) {
		return "", fmt.Errorf("%d approvals, %v; in the model %d", len(all), err, len(w.m.approvals))
	}
	if len(all) == 0 {
		return "nothing", nil
	}
	now := time.Now().Truncate(time.Second)
	for i, a := range w.m.approvals {
		if got := string(all[i].At(now)); got != a.at(now) {
			return "", fmt.Errorf("approval %d is %s, in the model %s", i, got, a.at(now))
		}
	}
	yes := n%3 != 2
	i := len(all) - 1 - n%len(all)
	a := w.m.approvals[i]
	state := a.at(now)
	refuses := state != "pending" && (state != "granted" || yes)
	_, err = w.ops.DecideApproval(ctx, all[i].ID, approvals.Decision{Grant: yes, By: "ada"})
	switch {
	case refuses != (err != nil):
		return "", fmt.Errorf("deciding what is %s: %v", state, err)
	case refuses:
	case yes:
		a.state, a.expires = "granted", now.Add(grantTime)
	default:
		a.state = "denied"
	}
	return "decided", nil
}

// commit commits an entry over REST, or tries to.
func (w *realWorld) commit(s step) (string, error) {
	who := w.m.sessions[s.Who]
	id, again := "", false
	var body []byte
	if s.Task != "" {
		id = "rest:" + s.Task
		if was := w.m.commits[id]; was != "" && s.What == "" {
			body, again = []byte(was), true
		}
	}
	if body == nil {
		var err error
		if body, err = w.commitBody(id, s.What); err != nil {
			return "", err
		}
	}
	w.sure.fault, w.sure.persist = s.Fault, s.Persist
	rec := w.send(context.Background(), "POST", "/v1/commit", w.creds[s.Who], body)
	w.sure.fault = ""
	var a struct {
		Error struct {
			Class string `json:"class"`
		} `json:"error"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &a); err != nil {
		return "", err
	}
	class, want := a.Error.Class, map[string]string{"stale": "HeadConflict", "index": "BadRequest", "chain": "BadRequest", "hash": "Internal"}[s.What]
	switch {
	case who.revoked:
		want = "SessionUnknown"
	case !time.Now().Before(who.expires):
		want = "SessionExpired"
	case id != "" && w.m.commits[id] != "" && !again:
		want = "BadRequest"
	case want != "":
	default:
		if !again && (s.Fault == "" || s.Persist) {
			w.m.log = append(w.m.log, entry{writer: "test"})
			if id != "" {
				w.m.commits[id] = string(body)
			}
		}
		if s.Fault != "" {
			want = "CommitUncertain"
		}
	}
	if class != want || (rec.Code == http.StatusOK) != (want == "") {
		return "", fmt.Errorf("committed: %d %s, in the model %q", rec.Code, rec.Body, want)
	}
	if id != "" {
		if err := w.receipt(id); err != nil {
			return "", err
		}
	}
	switch {
	case want == "" && again:
		return "commit replayed", nil
	case want == "":
		return "committed", nil
	case want == "SessionUnknown":
		return msgUnknown, nil
	case want == "SessionExpired":
		return msgExpired, nil
	}
	return want, nil
}

func (w *realWorld) receipt(id string) error {
	var r struct {
		State string `json:"state"`
	}
	want := "not-started"
	if w.m.commits[id] != "" {
		want = "resolved"
	}
	if _, err := w.get("/v1/receipts/"+id, &r); err != nil || r.State != want {
		return fmt.Errorf("the receipt of %s is %q, %v; in the model %q", id, r.State, err, want)
	}
	return nil
}

// commitBody is the next entry, or one with a fault.
func (w *realWorld) commitBody(id, wrong string) ([]byte, error) {
	var head string
	if _, err := w.get("/v1/head", &head); err != nil {
		return nil, err
	}
	w.fresh++
	payload := fmt.Appendf(nil, "commit %d", w.fresh)
	object := hashref.Sum(payload).String()
	hash := hashref.SumString(fmt.Sprint("entry ", w.fresh)).String()
	index, revision := len(w.m.log), len(w.m.log)
	switch wrong {
	case "stale":
		head = hashref.SumString("another head").String()
	case "index":
		index++
	case "chain":
		revision += 7
	case "hash":
		payload = append(payload, '!')
	}
	return hashref.MustMarshal(map[string]any{
		"invocationId": id, "observedHead": head,
		"objects": []any{map[string]any{"hash": object, "interfaceHash": hashref.SumString("test/thing").String(), "semanticId": "test/thing", "provenance": "test",
			"payload": base64.StdEncoding.EncodeToString(payload)}},
		"nextWorld": map[string]any{"ref": hashref.SumString(fmt.Sprint("world ", w.fresh)).String(), "revision": revision, "stateRoot": object, "logHead": hash},
		"entry": map[string]any{"entryHash": hash, "transitionRef": object, "header": map[string]any{"entryIndex": index, "semanticsEpoch": 1,
			"transitionFn": object, "interpreter": object, "prevEntryHash": w.prev.String(), "writtenBy": "test"}},
	}), nil
}
