package mcp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"ailang.dev/world/host/coordinator"
	"ailang.dev/world/host/hashref"
)

// FuzzPost states of any body that a live session may send:
//
//   - the status is 200, 202 or 400, and the answer of all but 202 holds one JSON value that is a
//     JSON-RPC response, or an array of them;
//   - what is called was named in the body, with arguments that are canonical (the fake holds
//     them to it);
//   - a batch calls nothing if it is refused as a whole.
func FuzzPost(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":null}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":-0,"method":"tools/call","params":{"name":"tools_decho","arguments":{"a":[1e2,"\ud83d\ude00",null]}}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ailang-read"}}]`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"id":1,"id":2}`, `[]`, `null`, "\xff", ``, `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":[]}`,
	} {
		f.Add([]byte(seed))
	}
	host := &fakeHost{}
	h := New(host.config())
	f.Fuzz(func(t *testing.T, body []byte) {
		host.t, host.calls = t, nil
		w := post(h, token, string(body))
		switch w.Code {
		case http.StatusAccepted:
			if w.Body.Len() > 0 {
				t.Errorf("202 with %q", w.Body)
			}
			return
		case http.StatusOK, http.StatusBadRequest:
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		text := w.Body.String()
		if data, event := strings.CutPrefix(text, "event: message\ndata: "); event {
			text = data
		}
		if w.Code == http.StatusOK {
			checkResponses(t, []byte(strings.TrimSpace(text)))
		}
		for _, c := range host.calls {
			checkCall(t, body, c)
		}
	})
}

func checkResponses(t *testing.T, text []byte) {
	t.Helper()
	type response struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	var all []response
	if len(text) > 0 && text[0] == '[' {
		if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
			t.Fatalf("%v: %s", err, text)
		}
	} else {
		var one response
		if err := json.Unmarshal(text, &one); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		all = []response{one}
	}
	for _, r := range all {
		if r.JSONRPC != "2.0" || len(r.ID) == 0 || (r.Result == nil) == (r.Error == nil) {
			t.Errorf("no response: %s", text)
		}
	}
}

func checkCall(t *testing.T, body []byte, c coordinator.Call) {
	t.Helper()
	if c.Skill != echo.ID && c.Skill != read.ID && c.Skill != gone.ID {
		t.Errorf("%q was called, which the session does not see", c.Skill)
	}
	if _, err := hashref.CanonicalObject(c.Args); err != nil {
		t.Errorf("arguments %s of %q: %v", c.Args, body, err)
	}
}
