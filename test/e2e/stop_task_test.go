package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"ailang.dev/world/host/worldtest"
)

// TestADaemonStopsWithTasks stops a daemon while a task runs whose caller went away: the
// task is finished and kept first, and found after the start.
func TestADaemonStopsWithTasks(t *testing.T) {
	s := newStage(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Plans: testPlans()})
	s.publish("skills.json")
	token := s.MintToken("ada", "enterprise", "1h")
	body := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","kind":"message","messageId":"m1",` +
		`"metadata":{"skillId":"skill-do"},"parts":[{"kind":"data","data":{"op":"wait"}}]}}}`
	ctx, leave := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() { // a caller that goes away while the task runs
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/v1/a2a", strings.NewReader(body))
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			_, err = http.DefaultClient.Do(r)
		}
		gone <- err
	}()
	<-s.bench.entered
	leave()
	if err := <-gone; err == nil {
		t.Error("who went away has an answer")
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.Restart() }()
	s.bench.open()
	<-stopped
	again := s.post("/api/v1/a2a", token, body)
	if !strings.Contains(again, `"state":"completed"`) || !strings.Contains(again, `"entry_index":1`) {
		t.Errorf("after the start: %s", again)
	}
	if head, err := s.Core.Store.Head(context.Background()); err != nil || head.Next != 2 {
		t.Errorf("%d entries (%v)", head.Next-1, err)
	}
}
