package model

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
)

// send makes one request.
func (w *realWorld) send(ctx context.Context, method, path, credential string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	rec := connection{httptest.NewRecorder()}
	w.mux.ServeHTTP(rec, r)
	return rec.ResponseRecorder
}

// connection is a recorder whose deadlines can be set, as those of a connection can.
type connection struct{ *httptest.ResponseRecorder }

func (connection) SetReadDeadline(time.Time) error  { return nil }
func (connection) SetWriteDeadline(time.Time) error { return nil }

// get reads a route into v, and gives the status.
func (w *realWorld) get(path string, v any) (int, error) {
	rec := w.send(context.Background(), "GET", path, "", nil)
	if rec.Code != http.StatusOK {
		return rec.Code, nil
	}
	if text, ok := v.(*string); ok {
		*text = strings.TrimSpace(rec.Body.String())
		return rec.Code, nil
	}
	return rec.Code, json.Unmarshal(rec.Body.Bytes(), v)
}

// reply is what a caller was told.
type reply struct {
	entry   int    // -1 if that is not told
	output  []byte // nil: refused
	refused string
}

// call sends one call by its door.
func (w *realWorld) call(ctx context.Context, s step) (reply, error) {
	if s.Door == "mcp" {
		return w.callMCP(ctx, s)
	}
	body := hashref.MustMarshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": map[string]any{
		"id": s.Task, "metadata": map[string]any{"skill_id": s.Skill},
		"message": map[string]any{"role": "user", "parts": []any{map[string]any{"type": "data", "data": rawJSON(s.Args.wire(s.Skill))}}}}})
	rec := w.send(ctx, "POST", "/a2a/", w.creds[s.Who], body)
	var a struct {
		Result *struct {
			Artifacts []struct {
				Parts []struct {
					Data rawJSON `json:"data"`
				} `json:"parts"`
			} `json:"artifacts"`
			Metadata struct {
				Invocation string `json:"invocation_id"`
				Entry      int    `json:"entry_index"`
			} `json:"metadata"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &a); err != nil {
		return reply{}, fmt.Errorf("%w: %s", err, rec.Body)
	}
	if a.Error != nil {
		return reply{entry: -1, refused: a.Error.Message}, nil
	}
	want := "a2a:" + w.m.sessions[s.Who].episode + ":" + s.Task
	if got := a.Result.Metadata.Invocation; got != want {
		return reply{}, fmt.Errorf("the invocation is %q, want %q", got, want)
	}
	return reply{entry: a.Result.Metadata.Entry, output: a.Result.Artifacts[0].Parts[0].Data}, nil
}

// rawJSON is JSON as it is.
type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error)  { return r, nil }
func (r *rawJSON) UnmarshalJSON(b []byte) error { *r = bytes.Clone(b); return nil }

func (w *realWorld) callMCP(ctx context.Context, s step) (reply, error) {
	body := hashref.MustMarshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": registry.ToolName(s.Skill), "arguments": rawJSON(s.Args.wire(s.Skill))}})
	rec := w.send(ctx, "POST", "/mcp/", w.creds[s.Who], body)
	if rec.Code == http.StatusUnauthorized {
		return reply{entry: -1, refused: strings.TrimSpace(rec.Body.String())}, nil
	}
	text := rec.Body.String()
	if _, data, ok := strings.Cut(text, "data: "); ok {
		text = data
	}
	var a struct {
		Result *struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
			Structured rawJSON `json:"structuredContent"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return reply{}, fmt.Errorf("%w: %s", err, rec.Body)
	}
	if a.Error != nil {
		return reply{entry: -1, refused: a.Error.Message}, nil
	}
	if a.Result.Content[0].Text != string(a.Result.Structured) {
		return reply{}, fmt.Errorf("text %s is not the structured content %s", a.Result.Content[0].Text, a.Result.Structured)
	}
	return reply{entry: -1, output: a.Result.Structured}, nil
}
