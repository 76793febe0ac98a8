package main

import (
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of what a histogram tells apart, in microseconds.
const (
	longest     = 4 * int64(callTimeout/time.Microsecond)
	significant = 3 // digits
)

func newHist() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, significant) }

// tally is what became of requests.
type tally struct {
	OK      int64            `json:"ok"`
	Refused int64            `json:"refused,omitempty"`
	Unknown int64            `json:"unknown,omitempty"`
	Wrong   int64            `json:"wrong,omitempty"`
	Labels  map[string]int64 `json:"not_ok,omitempty"` // how often each of those that were not ok
}

func (t *tally) add(o outcome) {
	switch o.verdict {
	case ok:
		t.OK++
		return
	case refused:
		t.Refused++
	case unknown:
		t.Unknown++
	case wrong:
		t.Wrong++
	}
	if t.Labels == nil {
		t.Labels = map[string]int64{}
	}
	key := o.label
	if _, known := t.Labels[key]; !known && len(t.Labels) >= maxLabels {
		key = "others"
	}
	t.Labels[key]++
}

// maxLabels bounds the sorts of refusals that are told apart.
const maxLabels = 64

func (t *tally) merge(u tally) {
	t.OK, t.Refused, t.Unknown, t.Wrong = t.OK+u.OK, t.Refused+u.Refused, t.Unknown+u.Unknown, t.Wrong+u.Wrong
	for l, n := range u.Labels {
		if t.Labels == nil {
			t.Labels = map[string]int64{}
		}
		t.Labels[l] += n
	}
}

func (t tally) clone() tally {
	t.Labels = maps.Clone(t.Labels)
	return t
}

// all counts what was answered, and what was sent and not answered.
func (t tally) all() int64 { return t.OK + t.Refused + t.Unknown + t.Wrong }

// point is a window of time: what ended in it.
type point struct {
	At      float64 `json:"at"`   // seconds from the start of the run to the window's end
	Took    float64 `json:"took"` // its seconds
	OK      int64   `json:"ok"`
	Refused int64   `json:"refused,omitempty"`
	Other   int64   `json:"other,omitempty"`
	P50     int64   `json:"p50_us"`
	P99     int64   `json:"p99_us"`
	Max     int64   `json:"max_us"`
	RefP99  int64   `json:"refused_p99_us,omitempty"`
}

// recorder keeps the time and the end of each request of a part. Its methods may be called
// from any goroutine.
type recorder struct {
	start  time.Time // of the run
	begun  time.Time // of the part
	window time.Duration

	mu      sync.Mutex
	kinds   []tally
	good    []*hdrhistogram.Histogram // by kind: those that were ok
	bad     *hdrhistogram.Histogram   // refusals
	points  []point
	edge    time.Time // when the window that is filled began
	stopped time.Time // when no more points were wanted, if so
	current point
	now     *hdrhistogram.Histogram
	nowBad  *hdrhistogram.Histogram
}

func newRecorder(start time.Time, window time.Duration, kinds int) *recorder {
	r := &recorder{start: start, begun: time.Now(), window: window, kinds: make([]tally, kinds), bad: newHist(), now: newHist(), nowBad: newHist()}
	for range kinds {
		r.good = append(r.good, newHist())
	}
	r.edge = r.begun
	return r
}

// add counts a request of a kind that was due at a time, was sent then or later, and has
// ended now. An answer's time counts from when it was due, so that what a slow daemon keeps
// from being sent is part of it; a refusal's from when it was sent, which is how fast it says no.
func (r *recorder) add(k int, due, sent time.Time, o outcome) {
	end := time.Now()
	if o.verdict == refused {
		due = sent
	}
	took := max(min(end.Sub(due).Microseconds(), longest), 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roll(end)
	r.kinds[k].add(o)
	switch o.verdict {
	case ok:
		r.current.OK++
		// Within the bounds that took was put into, neither can fail.
		_ = r.good[k].RecordValue(took)
		_ = r.now.RecordValue(took)
	case refused:
		r.current.Refused++
		_ = r.bad.RecordValue(took)
		_ = r.nowBad.RecordValue(took)
	default:
		r.current.Other++
	}
}

// roll ends windows that are over. The lock is held.
func (r *recorder) roll(now time.Time) {
	for now.Sub(r.edge) >= r.window {
		r.cut(r.window)
	}
}

func (r *recorder) cut(took time.Duration) {
	r.edge = r.edge.Add(took)
	p := r.current
	p.At, p.Took = r.edge.Sub(r.start).Seconds(), took.Seconds()
	p.P50, p.P99, p.Max = r.now.ValueAtQuantile(50), r.now.ValueAtQuantile(99), r.now.Max()
	p.RefP99 = r.nowBad.ValueAtQuantile(99)
	r.points = append(r.points, p)
	r.current = point{}
	r.now.Reset()
	r.nowBad.Reset()
}

// until leaves the points out that lie after a time. What ended then stays counted.
func (r *recorder) until(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roll(time.Now())
	for n := len(r.points); n > 0 && r.start.Add(time.Duration(r.points[n-1].At*float64(time.Second))).After(t.Add(r.window/2)); n-- {
		r.points = r.points[:n-1]
	}
	r.current, r.stopped = point{}, t
}

// end closes the last window, unless it is a small rest, and tells all.
func (r *recorder) end() []point {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped.IsZero() {
		r.edge = r.stopped
		return r.points
	}
	now := time.Now()
	r.roll(now)
	if rest := now.Sub(r.edge); r.current.OK > 0 && rest >= r.window/2 {
		r.cut(rest)
	}
	return r.points
}

// whole is the histogram of all kinds.
func (r *recorder) whole() *hdrhistogram.Histogram {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := newHist()
	for _, h := range r.good {
		all.Merge(h)
	}
	return all
}

func (r *recorder) total() tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	var t tally
	for _, k := range r.kinds {
		t.merge(k)
	}
	return t
}
