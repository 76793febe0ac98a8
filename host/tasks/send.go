package tasks

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/world"
)

// kindTask is what tasks are kept as.
const kindTask = "task"

// flight is a message under way. Whoever sends it again meanwhile waits for the same end.
type flight struct {
	digest world.Ref
	done   chan struct{} // closed when the rest is set
	task   *Task
	err    error
}

// send answers message/send. The same message, sent again, has the same task, whether it is
// under way, at its end, or its end was lost; nothing runs twice. A call that was begun goes
// on when its caller goes away.
func (h *Handler) send(ctx context.Context, s world.Session, params jsontext.Value) ([]byte, error) {
	m, err := parseMessage(params)
	if err != nil {
		return nil, err
	}
	if m.task != "" {
		return nil, h.continued(ctx, s, m.task)
	}
	id := derived("task", s.Episode, m.id)
	f, mine, err := h.board(s.Episode, keyOf(s, id), m.digest)
	if err != nil {
		return nil, err
	}
	if mine {
		go h.fly(context.WithoutCancel(ctx), f, s, m, id)
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, errResend
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.task.encode(), nil
}

// continued refuses a message for a task that there is: it is at its end.
func (h *Handler) continued(ctx context.Context, s world.Session, id string) error {
	if _, err := h.kept(ctx, s, id); err != nil {
		return err
	}
	return invalidParams("the task of message.taskId is at its end; leave taskId out, and tie tasks together by contextId")
}

// board finds the flight of a message, or begins one that is then the caller's to end.
func (h *Handler) board(episode string, key, digest world.Ref) (f *flight, mine bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.flights[key]; f != nil {
		if f.digest != digest {
			return nil, false, errOtherContent
		}
		return f, false, nil
	}
	if len(h.flights) >= MaxFlights || !h.enlist(episode) {
		return nil, false, endings[world.KindCapacity].err
	}
	f = &flight{digest: digest, done: make(chan struct{})}
	h.flights[key] = f
	h.running.Add(1)
	return f, true, nil
}

// fly brings a message to its end, for all who wait for it.
func (h *Handler) fly(ctx context.Context, f *flight, s world.Session, m *message, id string) {
	defer h.running.Done()
	defer func() {
		if p := recover(); p != nil {
			h.door.Log(m.skill, surface.Panicked(p))
			f.err = errInternal
		}
		h.mu.Lock()
		delete(h.flights, keyOf(s, id))
		h.dismiss(s.Episode)
		h.mu.Unlock()
		close(f.done)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	f.task, f.err = h.finish(ctx, s, m, id)
}

// finish is the task that a message has already, or else what its call comes to.
func (h *Handler) finish(ctx context.Context, s world.Session, m *message, id string) (*Task, error) {
	switch old, err := h.kept(ctx, s, id); {
	case err == nil && old.Digest != m.digest:
		return nil, errOtherContent
	case err == nil:
		return &old.Task, nil
	case !missing(err):
		return nil, err
	}
	d, err := h.skill(ctx, s, m.skill)
	if err != nil {
		return nil, err
	}
	args, err := m.args(d)
	if err != nil {
		return nil, err
	}
	r := begun(s, m, id)
	if err := h.count(ctx, s, d, r.Task.Metadata.Invocation); err != nil {
		return nil, err
	}
	if err := h.call(ctx, s, d.ID, args, &r.Task); err != nil {
		return nil, err
	}
	kept, err := h.keep(ctx, s, r)
	switch {
	case err != nil:
		// It cannot be had again, so it is not told: sent again, the message finds what was
		// committed.
		h.door.Log(m.skill+" "+id, err)
		return nil, errResend
	case kept.Digest != m.digest:
		return nil, errOtherContent
	}
	return &kept.Task, nil
}

// limited is the refusal of a call for which the user's pool has none left.
type limited struct{ wait time.Duration }

func (limited) Error() string { return "rate limit exceeded" }

// count takes a call out of the user's pool, unless it was begun before, and its end was
// lost: that one counted then.
func (h *Handler) count(ctx context.Context, s world.Session, d *world.Descriptor, id world.InvocationID) error {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	earlier, err := h.cfg.Tasks.Invocation(ctx, id)
	if err != nil || earlier.State != store.StateUnknown {
		return err
	}
	if wait := h.cfg.Limits.Admit(s, d.RateClass); wait > 0 {
		return limited{wait}
	}
	return nil
}

// skill finds what the session sees.
func (h *Handler) skill(ctx context.Context, s world.Session, id string) (*world.Descriptor, error) {
	ctx, cancel := context.WithTimeout(ctx, ViewDeadline)
	defer cancel()
	seen, err := surface.Within(ctx, 0, h.door.Late("view"), func(ctx context.Context) ([]*world.Descriptor, error) {
		return h.cfg.Skills.View(ctx, s)
	})
	if err != nil {
		return nil, err
	}
	for _, d := range seen {
		if d.ID == id {
			return d, nil
		}
	}
	return nil, skillNotFound(id)
}

// call runs the skill and puts the task at its end. An error is what the caller is told of a
// call that says nothing of the skill.
func (h *Handler) call(ctx context.Context, s world.Session, skill string, args []byte, t *Task) error {
	ctx, cancel := context.WithTimeout(ctx, CallDeadline)
	defer cancel()
	what := skill + " " + t.ID
	var ran, over atomic.Bool
	slot := func(ctx context.Context) (func(), error) {
		release, err := h.slotOf(s.Episode)(ctx)
		ran.Store(err == nil)
		return release, err
	}
	res, err := surface.Within(ctx, Grace, h.door.Late(what), func(ctx context.Context) (coordinator.Result, error) {
		defer over.Store(true)
		return h.cfg.Calls.Invoke(ctx, coordinator.Call{
			Surface: world.SurfaceTasks, Session: s, Skill: skill, Task: t.ID, Args: args, Slot: slot,
		})
	})
	if err == nil {
		t.committed(res, h.cfg.Now())
		return nil
	}
	kind := surface.KindOf(err)
	if kind == world.KindDeadline && !ran.Load() {
		kind = world.KindCapacity // all its time went by in waiting for its turn
	}
	e, known := endings[kind]
	if !known {
		e = endings[world.KindInternal]
	}
	if surface.HasCause(err) || e.failed == "" {
		h.door.Log(what, err)
	}
	switch {
	case !over.Load() || errors.Is(err, coordinator.ErrInFlight):
		return errResend // it was left behind, and may yet become an entry
	case kind == world.KindNotAuthorized:
		return skillNotFound(skill)
	case e.failed == "":
		return e.err
	}
	t.failed(e.failed+records(err), h.cfg.Now())
	return nil
}

// records names the effect records of a call that is no entry.
func records(err error) string {
	var e *world.EffectsUnrecordedError
	if !errors.As(err, &e) {
		return ""
	}
	var b strings.Builder
	for _, ref := range e.Refs {
		b.WriteString(" " + ref.String())
	}
	return b.String()
}

// missing tells whether an error is that there is no such task, or not for this caller, or
// not any more.
func missing(err error) bool {
	var e surface.Error
	return errors.As(err, &e) && e.Code == CodeTaskNotFound
}

// kept reads a task of the session's user.
func (h *Handler) kept(ctx context.Context, s world.Session, id string) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	k, err := h.cfg.Tasks.Kept(ctx, kindTask, keyOf(s, id))
	if world.KindOf(err) == world.KindNotFound {
		return nil, errTaskNotFound
	}
	if err != nil {
		return nil, err
	}
	if !h.cfg.Now().Before(k.Expires) {
		return nil, errTaskNotFound
	}
	return decoded(k, id)
}

func decoded(k store.Kept, id string) (*record, error) {
	r := &record{}
	if err := hashref.DecodeKnown(k.Body, r); err != nil {
		return nil, &world.Error{Op: "tasks.kept", Kind: world.KindIntegrity, Subject: "task " + id, Err: err}
	}
	return r, nil
}

// keep keeps a task that is at its end, and gives what is kept then: where several daemons serve
// one world, another may have brought the same message to its end meanwhile. It does not end with
// the call: what was done is told.
func (h *Handler) keep(ctx context.Context, s world.Session, r *record) (*record, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StoreTimeout)
	defer cancel()
	row := store.Kept{Kind: kindTask, Key: keyOf(s, r.Task.ID), Expires: h.cfg.Now().Add(Kept), Body: body}
	there, err := h.keepFirst(ctx, row)
	if err != nil || bytes.Equal(there.Body, body) {
		return r, err
	}
	old, err := decoded(there, r.Task.ID)
	if err != nil || !old.givesWay(r) {
		return old, err
	}
	_, err = h.cfg.Tasks.Keep(ctx, row, true)
	return r, err
}

// keepFirst keeps a row unless there is one that has not ended, and gives what is kept then.
func (h *Handler) keepFirst(ctx context.Context, row store.Kept) (store.Kept, error) {
	there, err := h.cfg.Tasks.Keep(ctx, row, false)
	if err != nil || h.cfg.Now().Before(there.Expires) {
		return there, err
	}
	// It is forgotten, not replaced: what another daemon keeps meanwhile stays.
	if err := h.sweep(ctx); err != nil {
		return there, err
	}
	if there, err = h.cfg.Tasks.Keep(ctx, row, false); err == nil && !h.cfg.Now().Before(there.Expires) {
		err = world.Errorf(world.KindTimeout, "tasks.keep", "too many tasks have ended that are kept still")
	}
	return there, err
}

// get answers tasks/get.
func (h *Handler) get(ctx context.Context, s world.Session, params jsontext.Value) ([]byte, error) {
	id, members, err := taskID(params)
	if err != nil {
		return nil, err
	}
	r, err := h.kept(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if err := r.Task.last(members["historyLength"]); err != nil {
		return nil, err
	}
	return r.Task.encode(), nil
}

// cancelTask answers tasks/cancel. Tasks are kept at their end alone, so that all that can
// be named is refused; of one that is not, this is its end.
func (h *Handler) cancelTask(ctx context.Context, s world.Session, params jsontext.Value) ([]byte, error) {
	id, _, err := taskID(params)
	if err != nil {
		return nil, err
	}
	r, err := h.kept(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if r.Task.Status.State.Terminal() {
		return nil, errUncancelable
	}
	r.Task.end(Canceled, h.cfg.Now())
	if r, err = h.keep(ctx, s, r); err != nil {
		return nil, err
	}
	return r.Task.encode(), nil
}
