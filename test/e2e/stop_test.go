package e2e

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/worldtest"
)

// TestAStopWaitsForEffects: a caller that goes away leaves its effect running; a daemon
// that is told to stop then waits for it, and nothing is indeterminate at the next start.
func TestAStopWaitsForEffects(t *testing.T) {
	bench := newBench(t)
	w := worldtest.Start(t, worldtest.Options{NoPacks: true, Handlers: []broker.Handler{bench}, WorkerCommand: worker(t)})
	w.Publish(`[{"id":"do","title":"Do","description":"","transitionFnFile":"m.star","inputSchema":{},"outputSchema":{},
		"access":{"effect":"Test.Do","scope":"bench","cost":1},"declaredEffects":[{"effect":"Test.Do","scope":"bench","cost":1}]}]`,
		map[string][]byte{"m.star": []byte("def main(text):\n    return std.plan('Test.Do', 'bench', 1, json.decode(text)['args'])\n")})
	token := w.Mint("ep1", "Test.Do=bench:9")
	ctx, leave := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/a2a/", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"t","metadata":{"skill_id":"do"},"message":{"parts":[{"type":"data","data":{"op":"wait"}}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Error("it was answered")
		}
	}()
	<-bench.entered
	leave()
	<-gone
	restarted := make(chan struct{})
	address := strings.TrimPrefix(w.URL, "http://")
	go func() {
		w.Restart()
		close(restarted)
	}()
	for { // until the listener is closed: now only the effect is waited for
		conn, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		conn.Close()
	}
	bench.open()
	<-restarted
	if said := w.Stderr(); strings.Contains(said, "indeterminate") {
		t.Fatal(said)
	}
	a := &actor{t, w, token}
	if tk := a.send("t", "do", map[string]any{"op": "wait"}); tk.Result.Metadata.EntryIndex != 1 {
		t.Fatalf("%+v", tk)
	}
}
