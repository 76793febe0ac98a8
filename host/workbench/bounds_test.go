package workbench

import (
	"context"
	"errors"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// log is a store of entries that no call made, all read from memory.
type log struct {
	Store
	n      int64
	bad    map[int64]error // entries that cannot be read
	reads  atomic.Int64
	before func(ctx context.Context) error // every read
}

func (l *log) read(ctx context.Context) error {
	l.reads.Add(1)
	if l.before != nil {
		return l.before(ctx)
	}
	return nil
}

func (l *log) Head(ctx context.Context) (store.Head, error) {
	if err := l.read(ctx); err != nil {
		return store.Head{}, err
	}
	return store.Head{World: hashref.Zero, Next: l.n}, nil
}

func (l *log) Entry(ctx context.Context, i int64) (world.Entry, error) {
	if err := l.read(ctx); err != nil {
		return world.Entry{}, err
	}
	if err := l.bad[i]; err != nil {
		return world.Entry{}, err
	}
	if i >= l.n {
		return world.Entry{}, world.Errorf(world.KindNotFound, "store.Entry", "log entry not found")
	}
	return world.Entry{Header: world.EntryHeader{EntryIndex: i, WrittenBy: "somebody"}, EntryHash: hashref.SumString(strconv.FormatInt(i, 10)),
		TransitionRef: hashref.Zero}, nil
}

func (l *log) Entries(ctx context.Context, from int64, limit int) ([]world.Entry, error) {
	var all []world.Entry
	for i := from; i < min(from+int64(limit), l.n); i++ {
		e, err := l.Entry(ctx, i)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func (l *log) ObjectMeta(ctx context.Context, ref world.Ref) (world.ObjectMeta, error) {
	if err := l.read(ctx); err != nil {
		return world.ObjectMeta{}, err
	}
	return world.ObjectMeta{Hash: ref, SemanticID: "some/kind"}, nil
}

func (l *log) Unresolved(ctx context.Context, _ int64, _ int) ([]store.Invocation, int64, error) {
	return nil, 0, l.read(ctx)
}

type noBook struct{}

func (noBook) List(context.Context) ([]approvals.Approval, error) { return nil, nil }
func (noBook) Subject(context.Context, approvals.Approval) (approvals.Subject, error) {
	return approvals.Subject{}, nil
}

type noRegistry struct{}

func (noRegistry) Snapshot(context.Context) (*registry.Snapshot, error) {
	return &registry.Snapshot{}, nil
}

func over(l *log, told *[]string) *Pages {
	return New(Config{Store: l, Registry: noRegistry{}, Approvals: noBook{}, Now: time.Now, Logf: func(format string, _ ...any) {
		if told != nil {
			*told = append(*told, format)
		}
	}})
}

func (p *Pages) ask(ctx context.Context, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	for _, rt := range routes {
		if rt.pattern == "GET /workbench" {
			p.serve(rt).ServeHTTP(w, httptest.NewRequest("GET", path, nil).WithContext(ctx))
		}
	}
	return w
}

// TestPagesBothWays: going to older pages from the newest meets every entry once, and so
// does going back.
func TestPagesBothWays(t *testing.T) {
	l := &log{n: 2*TimelinePage + 7}
	p := over(l, nil)
	follow := func(from, name string) (seen map[int64]int) {
		seen = map[int64]int{}
		for at, n := from, 0; at != ""; n++ {
			if n > 10 {
				t.Fatal("the pages do not end")
			}
			tl := p.timelineOf(t, at)
			for _, s := range tl.Stories {
				seen[s.Index]++
			}
			if at = tl.Older; name == "newer" {
				at = tl.Newer
			}
		}
		return seen
	}
	for _, seen := range []map[int64]int{follow("/workbench", "older"), follow("/workbench?from=0", "newer")} {
		for i := range l.n {
			if seen[i] == 0 {
				t.Errorf("entry %d is on no page", i)
			}
		}
	}
}

func (p *Pages) timelineOf(t *testing.T, path string) *timeline {
	t.Helper()
	from := int64(-1)
	if _, s, ok := strings.Cut(path, "from="); ok {
		from, _ = strconv.ParseInt(s, 10, 64)
	}
	tl, err := p.timeline(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// TestAPageCostsTheSameInAnyLog: the reads of a page do not grow with the log.
func TestAPageCostsTheSameInAnyLog(t *testing.T) {
	reads := func(n int64, path string) int64 {
		l := &log{n: n}
		if w := over(l, nil).ask(t.Context(), path); w.Code != 200 {
			t.Fatalf("%s: %d", path, w.Code)
		}
		return l.reads.Load()
	}
	for _, path := range []string{"/workbench", "/workbench?from=100"} {
		if small, large := reads(1000, path), reads(1_000_000_000, path); small != large || large > 3*TimelinePage {
			t.Errorf("%s: %d reads in a log of a thousand, %d in one of a billion", path, small, large)
		}
	}
}

// TestDamageIsTold: an entry that does not prove itself is told among those that do, and on
// its own page by its name.
func TestDamageIsTold(t *testing.T) {
	l := &log{n: 9, bad: map[int64]error{4: &world.Error{Op: "store.Entry", Kind: world.KindIntegrity, Err: errors.New("row entries 4 is damaged")}}}
	var told []string
	p := over(l, &told)
	w := p.ask(t.Context(), "/workbench")
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, "row entries 4 is damaged") || strings.Count(body, `class="idx"`) != 9 || !strings.Contains(body, "⚠ damaged") {
		t.Errorf("%d %s", w.Code, body)
	}
	w = p.ask(t.Context(), "/workbench?entry=4")
	if body := w.Body.String(); w.Code != 500 || !strings.Contains(body, "row entries 4 is damaged") || len(told) != 1 {
		t.Errorf("%d, told %q: %s", w.Code, told, body)
	}
}

// TestDeadline: a store that does not answer ends in a refusal, and so does the wait for a
// turn.
func TestDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{}, MaxAtOnce)
	l := &log{n: 9, before: func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		return world.Wrap(world.KindTimeout, "store.Head", ctx.Err())
	}}
	p := over(l, nil)
	codes := make(chan int)
	for range MaxAtOnce {
		go func() { codes <- p.ask(ctx, "/workbench").Code }()
	}
	for range MaxAtOnce {
		<-began
	}
	late, done := context.WithCancel(t.Context())
	done()
	if w := p.ask(late, "/workbench"); w.Code != 503 || !strings.Contains(w.Body.String(), "too many pages are being made") {
		t.Errorf("a ninth: %d", w.Code)
	}
	cancel()
	for range MaxAtOnce {
		if code := <-codes; code != 503 {
			t.Errorf("%d", code)
		}
	}
}

// TestEveryKindHasItsPage: what is not the reader's to know is told to the log alone.
func TestEveryKindHasItsPage(t *testing.T) {
	want := map[world.Kind]string{
		world.KindBadRequest: "400 BadRequest", world.KindSessionBad: "400 InvalidSession", world.KindSessionAbsent: "401 SessionAbsent",
		world.KindSessionUnknown: "401 SessionUnknown", world.KindSessionExpired: "401 SessionExpired", world.KindNotFound: "404 NotFound",
		world.KindNoWorld: "404 NotFound", world.KindTimeout: "503 Timeout", world.KindIndexMissing: "503 LookupIndexUnavailable",
		world.KindIntegrity: "500 Integrity",
	}
	for _, k := range world.Kinds() {
		f := explain(world.Wrap(k, "op", errors.New("the cause")))
		if want[k] == "" {
			want[k] = "500 Internal"
		}
		if got := strconv.Itoa(f.Status) + " " + f.Class; got != want[k] {
			t.Errorf("%v: %s, want %s", k, got, want[k])
		}
		if strings.Contains(f.Message, "the cause") && k != world.KindIntegrity {
			t.Errorf("%v tells %q", k, f.Message)
		}
		if f.Message == "" || f.Do == "" {
			t.Errorf("%v: nothing is said, or nothing to do", k)
		}
	}
	l := &log{before: func(context.Context) error { panic("the cause") }}
	var told []string
	if w := over(l, &told).ask(t.Context(), "/workbench"); w.Code != 500 || strings.Contains(w.Body.String(), "the cause") || len(told) != 1 {
		t.Errorf("a panic: %d, told %q", w.Code, told)
	}
}

type wideRegistry struct{}

func (wideRegistry) Snapshot(context.Context) (*registry.Snapshot, error) {
	schema := []byte(`{"enum":["` + strings.Repeat(strings.Repeat("<", 500)+`","`, 60) + `"]}`)
	s := &registry.Snapshot{Head: hashref.Zero}
	for range TransitionPage {
		s.Transitions = append(s.Transitions, &world.Descriptor{ID: "wide", InputSchema: schema, OutputSchema: schema})
	}
	return s, nil
}

// TestTransitionsAreBounded: large schemas are shown until the page is full.
func TestTransitionsAreBounded(t *testing.T) {
	p := New(Config{Store: &log{n: 1}, Registry: wideRegistry{}, Approvals: noBook{}, Now: time.Now})
	for _, rt := range routes {
		if rt.pattern != "GET /workbench/transitions" {
			continue
		}
		w := httptest.NewRecorder()
		p.serve(rt).ServeHTTP(w, httptest.NewRequest("GET", "/workbench/transitions", nil))
		if text := w.Body.String(); w.Code != 200 || len(text) > 2<<20 || !strings.Contains(text, "This page is full") || strings.Count(text, "&lt;") < 10_000 {
			t.Errorf("%d, %d bytes", w.Code, len(text))
		}
	}
}
