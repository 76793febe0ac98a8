package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"ailang.dev/world/host/world"
)

func at(n int64, err error) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) { return n, err }
}

func (s *Set) read(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d, %v", w.Code, err)
	}
	return string(b)
}

func TestWhatIsTold(t *testing.T) {
	s := New(at(7, nil))
	end := s.Begin()
	s.Call(world.SurfaceMCP, "workspace-read", OutcomeOK, 3*time.Millisecond)
	s.Call(world.SurfaceA2A, "workspace-read", OutcomeDenied, time.Second)
	s.Refusal(world.SurfaceMCP, world.KindCapacity)
	s.Effect("Workspace.Read", "ok", 5, time.Millisecond)
	s.Effect("Workspace.Read", "denied", 0, 0)
	s.Step("plan", time.Millisecond)
	s.Batch(Batch{Operations: 3, Bytes: 300, Waiting: 2, Waits: []time.Duration{0, time.Millisecond, time.Second}, Running: time.Millisecond,
		Flush: 6 * time.Millisecond, Written: true})
	s.Batch(Batch{Operations: 1, Failed: true})
	s.Batch(Batch{Operations: 1})
	text := s.read(t)
	for _, want := range []string{
		`world_calls_total{outcome="ok",surface="mcp",tool="workspace-read"} 1`,
		`world_calls_total{outcome="denied",surface="a2a",tool="workspace-read"} 1`,
		`world_call_seconds_bucket{outcome="ok",surface="mcp",le="0.005"} 1`,
		`world_calls_in_flight 1`,
		`world_refusals_total{kind="Capacity",surface="mcp"} 1`,
		`world_effects_total{effect="Workspace.Read",status="ok"} 1`,
		`world_effects_total{effect="Workspace.Read",status="denied"} 1`,
		`world_effect_seconds_count{effect="Workspace.Read"} 1`,
		`world_budget_spent_total{effect="Workspace.Read"} 5`,
		`world_call_step_seconds_count{step="plan"} 1`,
		`world_store_batch_operations_sum 5`,
		`world_store_batch_bytes_sum 300`,
		`world_store_queue_operations_sum 2`,
		`world_store_wait_seconds_count 3`,
		`world_store_flush_seconds_count 1`,
		`world_store_flush_seconds_bucket{le="0.01"} 1`,
		`world_store_run_seconds_count 3`,
		`world_store_batches_lost_total 1`,
		`world_log_entries 7`,
		`world_build_info{version="` + world.Version + `"} 1`,
		`go_goroutines `, `process_open_fds `,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("it lacks %s", want)
		}
	}
	if end(); !strings.Contains(s.read(t), "\nworld_calls_in_flight 0") {
		t.Error("a call that ended is in flight")
	}
	if found, err := testutil.GatherAndLint(s.reg); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	if !strings.Contains(New(at(0, errors.New("no"))).read(t), "\nworld_log_entries -1") {
		t.Error("a log that cannot be read has entries")
	}
}

// TestNamesAreFew: whatever names callers bring, there are at most so many rows.
func TestNamesAreFew(t *testing.T) {
	s := New(at(0, nil))
	for i := range 3 * MaxTools {
		s.Call(world.SurfaceMCP, fmt.Sprintf("tool-%d", i), OutcomeOK, 0)
		s.Effect(fmt.Sprintf("Effect%d", i), "ok", 1, 0)
	}
	s.Call(world.SurfaceMCP, "", OutcomeError, 0)
	if n := testutil.CollectAndCount(s.calls); n != MaxTools+2 {
		t.Errorf("%d rows of calls", n)
	}
	if n := testutil.CollectAndCount(s.spent); n != MaxEffects+1 {
		t.Errorf("%d rows of effects", n)
	}
	if got := testutil.ToFloat64(s.calls.WithLabelValues(OtherName, "mcp", OutcomeOK)); got != 2*MaxTools {
		t.Errorf("%v calls of other tools", got)
	}
}

func BenchmarkCall(b *testing.B) {
	s := New(at(0, nil))
	b.ReportAllocs()
	for b.Loop() {
		s.Call(world.SurfaceMCP, "workspace-read", OutcomeOK, time.Millisecond)
	}
}
