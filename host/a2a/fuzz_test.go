package a2a

import (
	"encoding/json"
	"testing"

	"ailang.dev/world/host/hashref"
)

// FuzzPost states of any body that a live session may send: the answer is HTTP 200 with one
// JSON-RPC response, which has a result or an error and never both; what is called has
// canonical arguments and a task id.
func FuzzPost(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"t","metadata":{"skill_id":"tools.echo"},"message":{"role":"user","parts":[{"type":"data","data":{"a":1}}]}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"tasks/send","params":{"id":"t","metadata":{"skill_id":"ailang-read","transition_fn":"sha256:00"},"message":{"role":"user","parts":[{"type":"text","text":"{}"}]}}}`,
		`{"jsonrpc":"2.0","id":null,"method":"tasks/get"}`, `{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"id":"t"}}`, `[]`, `{}`, "\xff", `{"a":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	host := &fakeHost{}
	h := New(host.config())
	f.Fuzz(func(t *testing.T, body []byte) {
		host.t, host.calls = t, nil
		w := post(t, h, token, string(body))
		var r struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  json.RawMessage `json:"result"`
			Error   json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || r.JSONRPC != "2.0" || len(r.ID) == 0 || (r.Result == nil) == (r.Error == nil) {
			t.Fatalf("no response (%v): %s", err, w.Body)
		}
		for _, c := range host.calls {
			if _, err := hashref.CanonicalObject(c.Args); err != nil || c.Task == "" {
				t.Errorf("%q called %+v: %v", body, c, err)
			}
		}
	})
}
