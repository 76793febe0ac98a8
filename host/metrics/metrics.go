// Package metrics counts what a daemon does, for Prometheus to read: calls, effects,
// refusals, what the writer of the store does. It decides nothing, keeps nothing over a
// restart, and takes no label from a caller that is not known to be one of few. Answers
// spec/18-workbench.md.
package metrics

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ailang.dev/world/host/world"
)

// Bounds of what is told.
const (
	MaxTools   = 256 // names of tools that have rows of their own; all others share OtherName
	MaxEffects = 64  // names of effects that do
	MaxAtOnce  = 4   // readings at once

	OtherName   = "other"
	headTimeout = time.Second // the look at the log's end, at a reading
)

// Outcomes of calls that became an entry. A call that did not has outcome "error", and its
// kind is counted as a refusal.
const (
	OutcomeOK      = "ok"
	OutcomeRefused = "refused"
	OutcomeDenied  = "denied"
	OutcomeFailed  = "failed"
	OutcomeReplay  = "replayed"
	OutcomeError   = "error"
)

// Set is the metrics of one daemon. Its methods may be called from any goroutine.
type Set struct {
	reg     *prometheus.Registry
	tools   names
	effects names

	calls     *prometheus.CounterVec
	callTime  *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	refusals  *prometheus.CounterVec
	effectN   *prometheus.CounterVec
	effectT   *prometheus.HistogramVec
	spent     *prometheus.CounterVec
	steps     *prometheus.HistogramVec
	batchOps  prometheus.Histogram
	batchSize prometheus.Histogram
	queued    prometheus.Histogram
	wait      prometheus.Histogram
	ran       prometheus.Histogram
	flush     prometheus.Histogram
	lost      prometheus.Counter
	shed      prometheus.Counter
	conns     atomic.Pointer[func() float64]
}

// seconds are the buckets of durations, from half a millisecond to the deadline of a call.
var seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20}

// New makes the metrics. next tells how many entries the log has.
func New(next func(ctx context.Context) (int64, error)) *Set {
	s := &Set{reg: prometheus.NewRegistry(), tools: names{most: MaxTools}, effects: names{most: MaxEffects}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		s.reg.MustRegister(c)
		return c
	}
	times := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds}, labels)
		s.reg.MustRegister(h)
		return h
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		s.reg.MustRegister(h)
		return h
	}
	s.calls = counter("world_calls_total", "Calls of transitions, by tool, surface and how they ended.", "tool", "surface", "outcome")
	s.callTime = times("world_call_seconds", "Time of a call from admission to its answer.", "surface", "outcome")
	s.steps = times("world_call_step_seconds", "Time of the parts of a call.", "step")
	s.refusals = counter("world_refusals_total", "Credentials that were refused, and calls that became no entry, by surface and kind.", "surface", "kind")
	s.effectN = counter("world_effects_total", "Effects, by name and how they ended.", "effect", "status")
	s.effectT = times("world_effect_seconds", "Time of a handler.", "effect")
	s.spent = counter("world_budget_spent_total", "What effects cost their episodes.", "effect")
	s.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{Name: "world_calls_in_flight", Help: "Calls that run now."})
	s.lost = prometheus.NewCounter(prometheus.CounterOpts{Name: "world_store_batches_lost_total", Help: "Transactions of the writer that did not become durable."})
	s.shed = prometheus.NewCounter(prometheus.CounterOpts{Name: "world_connections_shed_total", Help: "Connections that were closed because there were too many."})
	s.batchOps = histogram("world_store_batch_operations", "Operations of a transaction of the writer.", prometheus.ExponentialBuckets(1, 2, 10))
	s.batchSize = histogram("world_store_batch_bytes", "Payload bytes of a transaction of the writer.", prometheus.ExponentialBuckets(256, 8, 7))
	s.queued = histogram("world_store_queue_operations", "Operations that waited when a transaction began.", append([]float64{0}, prometheus.ExponentialBuckets(1, 2, 11)...))
	s.wait = histogram("world_store_wait_seconds", "Time of an operation in the writer's queue.", seconds)
	s.ran = histogram("world_store_run_seconds", "Time of a transaction before its flush.", seconds)
	s.flush = histogram("world_store_flush_seconds", "Time of the flush that makes a transaction durable.", seconds)
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "world_build_info", Help: "1, with the version as a label.", ConstLabels: prometheus.Labels{"version": world.Version}})
	build.Set(1)
	s.reg.MustRegister(s.shed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "world_connections", Help: "Open connections to the listener."}, func() float64 {
		if count := s.conns.Load(); count != nil {
			return (*count)()
		}
		return 0
	}))
	s.reg.MustRegister(s.inFlight, s.lost, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "world_log_entries", Help: "Entries of the log; -1 if it cannot be read now."}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), headTimeout)
			defer cancel()
			n, err := next(ctx)
			if err != nil {
				return -1
			}
			return float64(n)
		}))
	return s
}

// Handler answers GET /metrics. A reading is over when it is made, whoever is slow to take it.
func (s *Set) Handler() http.Handler {
	read := promhttp.HandlerFor(s.reg, promhttp.HandlerOpts{MaxRequestsInFlight: MaxAtOnce, Timeout: 5 * time.Second, DisableCompression: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := page{ResponseWriter: w, status: http.StatusOK}
		read.ServeHTTP(&p, r)
		w.WriteHeader(p.status)
		_, _ = w.Write(p.body.Bytes()) // a client that is gone is told nothing
	})
}

// page keeps an answer until all of it is there.
type page struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (p *page) WriteHeader(status int) { p.status = status }

// Write implements http.ResponseWriter.
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

// Connections says where the open connections are counted.
func (s *Set) Connections(count func() float64) { s.conns.Store(&count) }

// Shed counts a connection that was closed because there were too many.
func (s *Set) Shed() { s.shed.Inc() }

// Begin counts a call that runs; call the answer at its end.
func (s *Set) Begin() (end func()) {
	s.inFlight.Inc()
	return s.inFlight.Dec
}

// Call counts a call that has ended. tool is "" where it is not known to be one.
func (s *Set) Call(surface world.Surface, tool, outcome string, took time.Duration) {
	s.calls.WithLabelValues(s.tools.of(tool), string(surface), outcome).Inc()
	s.callTime.WithLabelValues(string(surface), outcome).Observe(took.Seconds())
}

// Refusal counts a credential that was refused, or a call that became no entry.
func (s *Set) Refusal(surface world.Surface, kind world.Kind) {
	s.refusals.WithLabelValues(string(surface), kind.String()).Inc()
}

// Step counts a part of a call.
func (s *Set) Step(name string, took time.Duration) {
	s.steps.WithLabelValues(name).Observe(took.Seconds())
}

// Effect counts an effect that has ended; cost is what was spent.
func (s *Set) Effect(effect, status string, cost int64, took time.Duration) {
	effect = s.effects.of(effect)
	s.effectN.WithLabelValues(effect, status).Inc()
	if took > 0 {
		s.effectT.WithLabelValues(effect).Observe(took.Seconds())
	}
	s.spent.WithLabelValues(effect).Add(float64(cost))
}

// Batch is one transaction of the writer.
type Batch struct {
	Waits           []time.Duration // of its operations in the queue
	Bytes, Waiting  int
	Running, Flush  time.Duration
	Operations      int
	Written, Failed bool
}

// Batch counts a transaction.
func (s *Set) Batch(b Batch) {
	s.queued.Observe(float64(b.Waiting))
	s.batchOps.Observe(float64(b.Operations))
	s.batchSize.Observe(float64(b.Bytes))
	for _, w := range b.Waits {
		s.wait.Observe(w.Seconds())
	}
	s.ran.Observe(b.Running.Seconds())
	switch {
	case b.Failed:
		s.lost.Inc()
	case b.Written:
		s.flush.Observe(b.Flush.Seconds())
	}
}

// names are the labels that have rows of their own: the first few that were seen.
type names struct {
	most int
	mu   sync.Mutex
	seen map[string]bool
}

func (n *names) of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.seen[name]:
		return name
	case name == "" || len(n.seen) >= n.most:
		return OtherName
	}
	if n.seen == nil {
		n.seen = make(map[string]bool)
	}
	n.seen[name] = true
	return name
}
