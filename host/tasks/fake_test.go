package tasks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// house is what a handler is served with here: users by their tokens, one skill, a clock.
type house struct {
	t *testing.T
	*Handler

	mu     sync.Mutex
	now    time.Time
	calls  []coordinator.Call
	kept   map[string]store.Kept
	told   []string
	seen   []*world.Descriptor
	wait   time.Duration
	invoke func(context.Context, coordinator.Call) (coordinator.Result, error)
	broken error // of the store
	states map[world.InvocationID]store.State
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), kept: map[string]store.Kept{},
		seen: []*world.Descriptor{{ID: DefaultSkill, TextArgument: "question"}}}
	h.invoke = func(context.Context, coordinator.Call) (coordinator.Result, error) { return answer(`{"ok":true}`), nil }
	h.Handler = New(Config{Users: h, Gate: func(plan string) bool { return plan != "free" }, Limits: h, Skills: h, Calls: h, Tasks: h, Now: h.clock, Logf: h.logf})
	return h
}

func answer(output string) coordinator.Result {
	return coordinator.Result{Invocation: "task:x", Output: []byte(output), World: hashref.SumString("w"), Entry: 7}
}

func (h *house) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *house) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *house) logf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, fmt.Sprintf(format, args...))
}

// Resolve knows who calls by "Bearer <episode>:<plan>".
func (h *house) Resolve(_ context.Context, lines []string) (world.Session, error) {
	if len(lines) == 0 {
		return world.Session{}, world.Errorf(world.KindSessionAbsent, "test", "absent")
	}
	episode, plan, ok := strings.Cut(strings.TrimPrefix(lines[0], "Bearer "), ":")
	if !ok {
		return world.Session{}, world.Errorf(world.KindSessionUnknown, "test", "unknown")
	}
	return world.Session{Episode: episode, Plan: plan}, nil
}

func (h *house) Admit(world.Session, string) time.Duration { return h.wait }

func (h *house) View(context.Context, world.Session) ([]*world.Descriptor, error) { return h.seen, nil }

func (h *house) Invoke(ctx context.Context, c coordinator.Call) (coordinator.Result, error) {
	h.mu.Lock()
	h.calls = append(h.calls, c)
	h.mu.Unlock()
	return h.invoke(ctx, c)
}

func (h *house) Kept(_ context.Context, kind string, key world.Ref) (store.Kept, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return store.Kept{}, h.broken
	}
	k, ok := h.kept[kind+key.String()]
	if !ok {
		return store.Kept{}, world.Errorf(world.KindNotFound, "test", "none")
	}
	return k, nil
}

func (h *house) Keep(_ context.Context, k store.Kept, replace bool) (store.Kept, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return store.Kept{}, h.broken
	}
	if there, ok := h.kept[k.Kind+k.Key.String()]; ok && !replace {
		return there, nil
	}
	h.kept[k.Kind+k.Key.String()] = k
	return k, nil
}

func (h *house) Invocation(_ context.Context, id world.InvocationID) (store.Invocation, error) {
	return store.Invocation{State: h.states[id]}, nil
}

func (h *house) SweepKept(_ context.Context, ended time.Time, limit int) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, k := range h.kept {
		if n < limit && !k.Expires.After(ended) {
			delete(h.kept, name)
			n++
		}
	}
	return n, nil
}

func (h *house) invoked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

func (h *house) said(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.told, func(line string) bool { return strings.Contains(line, what) })
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	Result Task
	Error  struct {
		Code    int
		Message string
		Data    struct{ RetryAfter int }
	}
}

func (h *house) post(ctx context.Context, who, body string) reply {
	return h.postTo(ctx, h.Handler, who, body)
}

// postTo posts to another daemon's handler of the same house.
func (h *house) postTo(ctx context.Context, to *Handler, who, body string) reply {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, Path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+who)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		h.t.Error(err)
	}
	got := reply{status: w.Code, header: w.Result().Header}
	if err := json.Unmarshal(text, &got, json.MatchCaseInsensitiveNames(true)); err != nil {
		h.t.Errorf("%v: %s", err, text)
	}
	return got
}

func sendText(message, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","kind":"message","messageId":%q,"parts":[{"kind":"text","text":%q}]}}}`, message, text)
}

func named(method, id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"id":%q}}`, method, id)
}
