// Package e2e holds the end-to-end tests: stock clients, wire transcripts and kills, over
// real daemons and real HTTP. This file is the plain HTTP client they share.
package e2e

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/worldtest"
)

// actor is one caller with a session, or none.
type actor struct {
	t     testing.TB
	world *worldtest.World
	token string
}

// do sends a request and gives the answer with its body read.
func (a *actor) do(method, path string, body []byte, header ...string) (*http.Response, []byte) {
	a.t.Helper()
	req, err := http.NewRequest(method, a.world.URL+path, bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp, text
}

// task is the answer of /a2a/ to one tasks/send.
type task struct {
	Result struct {
		ID        string `json:"id"`
		Artifacts []struct {
			Parts []struct {
				Data map[string]any `json:"data"`
			} `json:"parts"`
		} `json:"artifacts"`
		Metadata struct {
			InvocationID string `json:"invocation_id"`
			WorldRef     string `json:"world_ref"`
			EntryIndex   int64  `json:"entry_index"`
		} `json:"metadata"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// output is the task's output object.
func (tk task) output(t testing.TB) map[string]any {
	t.Helper()
	if tk.Error != nil {
		t.Fatalf("error %d %s", tk.Error.Code, tk.Error.Message)
	}
	return tk.Result.Artifacts[0].Parts[0].Data
}

// send calls a skill on /a2a/.
func (a *actor) send(id, skill string, args any) task {
	a.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": map[string]any{
		"id": id, "metadata": map[string]any{"skill_id": skill},
		"message": map[string]any{"role": "user", "parts": []any{map[string]any{"type": "data", "data": args}}}}})
	if err != nil {
		a.t.Fatal(err)
	}
	_, text := a.do(http.MethodPost, "/a2a/", body, "Content-Type", "application/json")
	var tk task
	if err := json.Unmarshal(text, &tk); err != nil {
		a.t.Fatalf("%v: %s", err, text)
	}
	return tk
}

// clientTimeout bounds one run of a client program.
const clientTimeout = 2 * time.Minute

// readAll gives a response's body.
func readAll(t testing.TB, resp *http.Response) string {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
