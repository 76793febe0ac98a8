package model

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/capsule"
	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// compare holds all that a step may have changed against the model.
func (w *realWorld) compare() error {
	if err := w.entries(); err != nil {
		return err
	}
	for key, want := range w.m.spent {
		episode, rest, _ := strings.Cut(key, " ")
		effect, scope, _ := strings.Cut(rest, "=")
		if got, err := w.store.Spent(context.Background(), episode, effect, scope); err != nil || got != want {
			return fmt.Errorf("%s: spent %d, %v; the model %d", key, got, err, want)
		}
	}
	w.doer.mu.Lock()
	defer w.doer.mu.Unlock()
	for key, want := range w.m.performed {
		if got := w.doer.done[key]; got != want {
			return fmt.Errorf("effect %s was done %d times, in the model %d", key, got, want)
		}
	}
	if len(w.doer.done) != len(w.m.performed) {
		return fmt.Errorf("effects done: %v; in the model %v", w.doer.done, w.m.performed)
	}
	for path, want := range w.m.files {
		got, err := os.ReadFile(filepath.Join(w.dir, "ws", path))
		if err != nil || string(got) != want {
			return fmt.Errorf("file %s is %q, %v; in the model %q", path, got, err, want)
		}
	}
	return nil
}

// wireEntry is a log entry as REST has it.
type wireEntry struct {
	Header struct {
		EntryIndex     int       `json:"entryIndex"`
		SemanticsEpoch int       `json:"semanticsEpoch"`
		TransitionFn   world.Ref `json:"transitionFn"`
		Interpreter    world.Ref `json:"interpreter"`
		PrevEntryHash  world.Ref `json:"prevEntryHash"`
		WrittenBy      string    `json:"writtenBy"`
	} `json:"header"`
	EntryHash     world.Ref `json:"entryHash"`
	TransitionRef world.Ref `json:"transitionRef"`
}

// entries reads what is new in the log, over REST.
func (w *realWorld) entries() error {
	var page struct {
		Items []wireEntry `json:"items"`
	}
	if _, err := w.get(fmt.Sprintf("/v1/log?from=%d&limit=500", w.seen), &page); err != nil {
		return err
	}
	if got, want := w.seen+len(page.Items), len(w.m.log); got != want {
		return fmt.Errorf("the log has %d entries, in the model %d", got, want)
	}
	for _, e := range page.Items {
		if err := w.entry(e); err != nil {
			return fmt.Errorf("entry %d: %w", w.seen, err)
		}
		w.seen, w.prev = w.seen+1, e.EntryHash
	}
	var head string
	if _, err := w.get("/v1/head", &head); err != nil {
		return err
	}
	var selected struct {
		Ref       string    `json:"ref"`
		Revision  int       `json:"revision"`
		StateRoot world.Ref `json:"stateRoot"`
		LogHead   world.Ref `json:"logHead"`
	}
	if _, err := w.get("/v1/worlds/"+head, &selected); err != nil {
		return err
	}
	if selected.Revision != w.seen-1 || selected.LogHead != w.prev || selected.Ref != head {
		return fmt.Errorf("the head is %+v, the last entry %d %s", selected, w.seen-1, w.prev)
	}
	return nil
}

// entry compares one entry with the model's.
func (w *realWorld) entry(e wireEntry) error {
	want := w.m.log[w.seen]
	if e.Header.EntryIndex != w.seen || e.Header.WrittenBy != want.writer || w.seen > 0 && e.Header.PrevEntryHash != w.prev {
		return fmt.Errorf("%+v after %s; the model wrote it by %s", e, w.prev, want.writer)
	}
	if want.call == nil {
		return nil
	}
	if e.Header.TransitionFn != hashref.SumString(want.source) {
		return fmt.Errorf("it is of transition %s, in the model of %s", e.Header.TransitionFn, hashref.SumString(want.source))
	}
	var rec struct {
		Invocation string    `json:"invocationId"`
		Output     world.Ref `json:"output"`
	}
	text, err := w.payload(e.TransitionRef)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &rec); err != nil {
		return err
	}
	if strings.HasPrefix(want.invocation, "task:") {
		if name := w.named[want.invocation]; name != "" && name != rec.Invocation || !strings.HasPrefix(rec.Invocation, "task:") {
			return fmt.Errorf("it is of %s, in the model of %s, %s", rec.Invocation, want.invocation, name)
		}
	} else if want.invocation != "" && rec.Invocation != want.invocation {
		return fmt.Errorf("it is of %s, in the model of %s", rec.Invocation, want.invocation)
	}
	out, err := w.payload(rec.Output)
	if err != nil {
		return err
	}
	return w.output(out, want.call)
}

// payload reads an object over REST.
func (w *realWorld) payload(ref world.Ref) ([]byte, error) {
	var o struct {
		Payload string `json:"payload"`
	}
	status, err := w.get("/v1/objects/"+ref.String()+"?payload=true", &o)
	if err != nil || status != 200 {
		return nil, fmt.Errorf("object %s: %d, %v", ref, status, err)
	}
	return base64.StdEncoding.DecodeString(o.Payload)
}

// output compares an output, and the records that it names, with the model's.
func (w *realWorld) output(text []byte, want *done) error {
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		return err
	}
	var block struct {
		World *struct {
			Effects []struct {
				ID     string     `json:"id"`
				Status string     `json:"status"`
				Record *world.Ref `json:"record"`
			} `json:"effects"`
		} `json:"world"`
	}
	if err := json.Unmarshal(text, &block); err != nil {
		return err
	}
	delete(out, "world")
	if want.approval != "" {
		said, _ := out["refused"].(string)
		id, _ := out["approval"].(string)
		if !strings.HasPrefix(said, want.approval) || len(id) != 16 || !strings.Contains(said, id) {
			return fmt.Errorf("it says %s, in the model %s", text, want.approval)
		}
	} else if want.out == nil {
		if out["ok"] != want.ok {
			return fmt.Errorf("it says %s, in the model ok is %v", text, want.ok)
		}
	} else if got, say := hashref.MustMarshal(out), hashref.MustMarshal(want.out); !bytes.Equal(got, say) {
		return fmt.Errorf("it says %s, in the model %s", got, say)
	}
	if block.World == nil {
		if want.effects != nil {
			return fmt.Errorf("%s names no effects, the model %v", text, want.effects)
		}
		return nil
	}
	if len(block.World.Effects) != len(want.effects) {
		return fmt.Errorf("%s names other effects than the model: %+v", text, want.effects)
	}
	for i, e := range block.World.Effects {
		r := want.effects[i]
		if e.ID != r.id || e.Status != r.status || (e.Record == nil) != (r.status == "skipped") {
			return fmt.Errorf("effect %+v, in the model %+v", e, r)
		}
		if e.Record == nil {
			continue
		}
		if err := w.record(*e.Record, r); err != nil {
			return fmt.Errorf("effect %s: %w", e.ID, err)
		}
	}
	return nil
}

// record compares an effect record with the model's.
func (w *realWorld) record(ref world.Ref, want record) error {
	text, err := w.payload(ref)
	if err != nil {
		return err
	}
	var got struct {
		Effect  string `json:"effect"`
		Scope   string `json:"scope"`
		Cost    int64  `json:"cost"`
		Before  int64  `json:"budgetBefore"`
		After   int64  `json:"budgetAfter"`
		Allowed bool   `json:"allowed"`
		Failed  bool   `json:"failed"`
		Denial  string `json:"denial"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	denial := ""
	if want.status == "denied" {
		denial = want.denial
	}
	if got.Effect != want.effect || got.Scope != want.scope || got.Cost != want.cost || got.Before != want.before || got.After != want.after ||
		got.Allowed != (want.status != "denied") || got.Failed != (want.status == "failed") || !strings.HasPrefix(got.Denial, denial) || (denial == "") != (got.Denial == "") {
		return fmt.Errorf("its record is %s, in the model %+v", text, want)
	}
	return nil
}

// told compares what a caller was told with what the model says.
func (w *realWorld) told(s step, got reply, want verdict) error {
	switch {
	case want.any:
		return nil
	case want.refused != "":
		say := want.refused
		if s.Door == "mcp" {
			switch say {
			case msgUnknown, msgExpired:
			case msgNotAuthorized:
				say = fmt.Sprintf("unknown tool %q", registry.ToolName(s.Skill))
			default:
				say = "host callback failed"
			}
		}
		if want.unrecorded > 0 && s.Door == "a2a" {
			if refs, ok := strings.CutPrefix(got.refused, say+" "); !ok || len(strings.Fields(refs)) != want.unrecorded {
				return fmt.Errorf("it was told %q %s, in the model %q and %d records", got.refused, got.output, say, want.unrecorded)
			}
			return nil
		}
		if got.refused != say {
			return fmt.Errorf("it was told %q %s, in the model %q", got.refused, got.output, say)
		}
	case got.output == nil:
		return fmt.Errorf("it was told %q, in the model it is entry %d", got.refused, want.entry)
	case s.Door == "a2a" && got.entry != want.entry:
		return fmt.Errorf("it was told entry %d, in the model %d", got.entry, want.entry)
	default:
		return w.output(got.output, w.m.log[want.entry].call)
	}
	return nil
}

// whole compares all of the world with the model at the end of a story, and has it prove
// itself and run again.
func (w *realWorld) whole(t *testing.T) error {
	ctx := context.Background()
	if err := w.compare(); err != nil {
		return err
	}
	open := 0
	for _, tk := range w.m.chosen {
		open += openOf(tk)
	}
	byEpisode := map[string][]int64{}
	for id, tk := range w.m.tasks {
		open += openOf(tk)
		if strings.HasPrefix(id, "task:") {
			if id = w.named[id]; id == "" {
				continue // no answer told how the daemon names it
			}
		}
		inv, err := w.store.Invocation(ctx, world.InvocationID(id))
		if err != nil {
			return err
		}
		committed := inv.State == store.StateCommitted
		if committed != (tk.entry >= 0) || committed && inv.EntryIndex != int64(tk.entry) || len(inv.Effects) != len(tk.effects) {
			return fmt.Errorf("%s is %+v, in the model %+v", id, inv, tk)
		}
		for i, e := range inv.Effects {
			if e.Record.IsNone() == tk.effects[i].durable || e.EffectID != tk.effects[i].id {
				return fmt.Errorf("effect %d of %s is %+v, in the model %+v", i, id, e, tk.effects[i])
			}
		}
	}
	left, _, err := w.store.Unresolved(ctx, 0, store.MaxPage)
	if err != nil {
		return err
	}
	for _, inv := range left {
		for _, e := range inv.Effects {
			if e.Record.IsNone() {
				open--
			}
		}
	}
	if open != 0 {
		return fmt.Errorf("%d intents more are open in the model than in the store: %+v", open, left)
	}
	for i, e := range w.m.log {
		if strings.HasPrefix(e.invocation, "a2a:") {
			episode := strings.Split(e.invocation, ":")[1]
			byEpisode[episode] = append(byEpisode[episode], int64(i))
		}
	}
	for episode, want := range byEpisode {
		got, err := w.store.EpisodeEntries(ctx, episode, 0, false, store.MaxPage)
		if err != nil {
			return err
		}
		for _, i := range want {
			if !slices.Contains(got, i) {
				return fmt.Errorf("entry %d of %s is not among its entries %v", i, episode, got)
			}
		}
	}
	return w.proves(t)
}

func openOf(t *task) int {
	n := 0
	for _, e := range t.effects {
		if !e.durable {
			n++
		}
	}
	return n
}

// collector is a test that remembers what it was told.
type collector struct {
	testing.TB
	errs []string
}

func (c *collector) Helper() {}
func (c *collector) Errorf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Sprintf(format, args...))
}
func (c *collector) Fatalf(format string, args ...any) {
	panic(fmt.Errorf(format, args...))
}

// proves has the store prove itself, as verify --deep does, and runs all calls again.
func (w *realWorld) proves(t *testing.T) (err error) {
	c := &collector{TB: t}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if len(c.errs) > 0 {
			err = errors.Join(err, errors.New(strings.Join(c.errs, "\n")))
		}
	}()
	worldtest.CheckAll(c, w.store)
	report, err := provenance.Verify(context.Background(), w.store, provenance.Scope{To: -1, Deep: true})
	if err != nil {
		return err
	}
	if report.Broken > 0 || report.Entries != int64(len(w.m.log)) {
		return fmt.Errorf("verify: %+v", report)
	}
	before := fmt.Sprint(w.doer.done)
	p := &coordinator.Replayer{Store: w.store, Engines: capsule.Set{w.engine}}
	for i := range int64(len(w.m.log)) {
		r, err := p.Replay(context.Background(), i)
		if err != nil || r.Diverged != "" || (r.Call == "") != (w.m.log[i].call == nil) {
			return fmt.Errorf("entry %d run again: %+v, %v", i, r, err)
		}
	}
	if after := fmt.Sprint(w.doer.done); after != before {
		return fmt.Errorf("running calls again did effects: %s, before %s", after, before)
	}
	return nil
}

// list compares what a session sees.
func (w *realWorld) list(who int) (string, error) {
	s := w.m.sessions[who]
	rec := w.send(context.Background(), "POST", "/mcp/", w.creds[who], []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	for _, c := range []struct {
		when bool
		say  string
	}{{s.revoked, msgUnknown}, {!s.revoked && !time.Now().Before(s.expires), msgExpired}} {
		if c.when {
			if rec.Code != 401 || strings.TrimSpace(rec.Body.String()) != c.say {
				return "", fmt.Errorf("listed: %d %s, want %s", rec.Code, rec.Body, c.say)
			}
			return "listed", nil
		}
	}
	_, data, _ := strings.Cut(rec.Body.String(), "data: ")
	var a struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(data), &a); err != nil {
		return "", fmt.Errorf("%w: %s", err, rec.Body)
	}
	var ids, got, want []string
	for id := range w.m.skills {
		t := transitions[id]
		if denial, _ := s.denies(t.access.effect, t.access.scope, t.access.budget, time.Now()); denial == "" {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	for _, id := range ids {
		want = append(want, registry.ToolName(id))
	}
	for _, tool := range a.Result.Tools {
		got = append(got, tool.Name)
	}
	if !slices.Equal(got, want) {
		return "", fmt.Errorf("listed %q, in the model %q", got, want)
	}
	return "listed", nil
}
