package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/worldtest"
)

// TestTasksUnderLoad has 64 callers send messages, and then call the same skill over /mcp/:
// each answer is an entry of its own, and none is lost.
func TestTasksUnderLoad(t *testing.T) {
	const callers, each = 64, 25
	w := worldtest.Start(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Plans: testPlans()})
	w.PublishPack("demo")
	tokens := make([]string, callers)
	for i := range tokens {
		tokens[i] = w.MintToken(fmt.Sprint("user", i%8), "enterprise", "1h")
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	run := func(call func(caller, n int) (path, body string), want string) time.Duration {
		began := time.Now()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for n := range each {
					path, body := call(i, n)
					req, err := http.NewRequest(http.MethodPost, w.URL+path, strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+tokens[i])
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Accept", "application/json, text/event-stream")
					resp, err := client.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					text := readAll(t, resp)
					if resp.StatusCode != http.StatusOK || !strings.Contains(text, want) {
						t.Errorf("%d %s", resp.StatusCode, text)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	sent := run(func(i, n int) (string, string) {
		return "/api/v1/a2a", sendMessage(fmt.Sprintf("m-%d-%d", i, n), "demo.answer", "hello")
	}, `"state":"completed"`)
	called := run(func(int, int) (string, string) { return "/mcp/", callTool("demo_danswer", `{"question":"hello"}`) }, "You asked: hello")
	head, err := w.Core.Store.Head(context.Background())
	if err != nil || head.Next != 1+2*callers*each {
		t.Errorf("%d entries, want %d (%v)", head.Next-1, 2*callers*each, err)
	}
	rate := func(d time.Duration) float64 { return callers * each / d.Seconds() }
	t.Logf("%d callers: %.0f tasks a second on /api/v1/a2a, %.0f calls a second on /mcp/", callers, rate(sent), rate(called))
	// The same messages again are read, and nothing runs.
	again := run(func(i, n int) (string, string) {
		return "/api/v1/a2a", sendMessage(fmt.Sprintf("m-%d-%d", i%8, n), "demo.answer", "hello")
	}, `"state":"completed"`)
	if now, err := w.Core.Store.Head(context.Background()); err != nil || now.Next != head.Next {
		t.Errorf("%d entries after sending again, before it %d (%v)", now.Next, head.Next, err)
	}
	t.Logf("sent again: %.0f a second", rate(again))
}
