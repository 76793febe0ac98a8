package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/worldtest"
)

// a2aSeen is what test/clients/typescript/a2a.mjs prints of one call.
type a2aSeen struct {
	Raw    map[string]any `json:"-"` // the result as it is
	Result *struct {
		Kind      string `json:"kind"`
		ID        string `json:"id"`
		ContextID string `json:"contextId"`
		Status    struct {
			State   string `json:"state"`
			Message *struct {
				Parts []struct {
					Text string `json:"text"`
				} `json:"parts"`
			} `json:"message"`
		} `json:"status"`
		Artifacts []struct {
			Parts []struct {
				Kind string         `json:"kind"`
				Data map[string]any `json:"data"`
			} `json:"parts"`
		} `json:"artifacts"`
		History []map[string]any `json:"history"`
	} `json:"result"`
	Error *struct {
		Name    string `json:"name"`
		Message string `json:"message"`
		Code    int    `json:"code"`
		Data    struct {
			RetryAfter int `json:"retryAfter"`
		} `json:"data"`
	} `json:"error"`
}

// TestOfficialA2ATypeScriptClient drives the task endpoint with the JavaScript SDK of the
// message/send generation.
func TestOfficialA2ATypeScriptClient(t *testing.T) {
	dir := typescript(t)
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@a2a-js")); err != nil {
		t.Skip("SKIP: the A2A client is not installed; `make deps` installs it")
	}
	w := worldtest.Start(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Plans: testPlans()})
	w.PublishPack("demo")
	ada, bob, fred := w.MintToken("ada", "enterprise", "1h"), w.MintToken("bob", "pro", "1h"), w.MintToken("fred", "free", "1h")
	send := func(token, id, skill, part string) string {
		return fmt.Sprintf(`{"token":%q,"method":"sendMessage","params":{"message":{"role":"user","kind":"message","messageId":%q,"contextId":"c","metadata":{"skillId":%q},"parts":[%s]},"configuration":{"blocking":true,"acceptedOutputModes":["application/json"]}}}`, token, id, skill, part)
	}
	text := `{"kind":"text","text":"hello there"}`
	got := driveA2A(t, dir, w.URL+"/api/v1/a2a", ada,
		send(ada, "m1", "demo.answer", text), send(ada, "m1", "demo.answer", text), send(ada, "m2", "demo.fail", `{"kind":"data","data":{}}`),
		`{"method":"getTask","params":{"id":"none"}}`, `{"method":"cancelTask","params":{"id":"none"}}`, send(ada, "m3", "none", text),
		send("none", "m4", "demo.answer", text), send(fred, "m5", "demo.answer", text),
		send(bob, "b1", "demo.answer", text), send(bob, "b2", "demo.answer", text), send(bob, "b3", "demo.answer", text), send(bob, "b4", "demo.answer", text),
	)
	first := got[0].Result
	if first == nil || first.Kind != "task" || first.Status.State != "completed" || first.ContextID != "c" || len(first.History) != 2 || first.Artifacts[0].Parts[0].Data["answer"] != "You asked: hello there" {
		t.Fatalf("%+v %+v", first, got[0].Error)
	}
	if again := got[1].Result; again == nil || again.ID != first.ID {
		t.Errorf("again: %+v", got[1])
	}
	if f := got[2].Result; f == nil || f.Status.State != "failed" || f.Status.Message.Parts[0].Text == "" {
		t.Errorf("failed: %+v", got[2])
	}
	for i, want := range map[int]struct {
		name string
		code int
	}{
		3: {"TaskNotFoundJSONRPCError", -32001}, 4: {"TaskNotFoundJSONRPCError", -32001},
		5: {"TaskNotCancelableJSONRPCError", -32002}, // it has its own texts for these codes; the code and data are ours
		6: {"UnsupportedOperationJSONRPCError", -32004}, 7: {"ContentTypeNotSupportedJSONRPCError", -32005},
		11: {"PushNotificationNotSupportedJSONRPCError", -32003},
	} {
		if e := got[i].Error; e == nil || e.Name != want.name || e.Code != want.code || want.code == -32003 && e.Data.RetryAfter < 9 {
			t.Errorf("call %d: %+v, want %v", i, got[i].Error, want)
		}
	}
	for _, line := range driveA2A(t, dir, w.URL+"/api/v1/a2a", ada,
		fmt.Sprintf(`{"method":"getTask","params":{"id":%q,"historyLength":1}}`, first.ID), fmt.Sprintf(`{"method":"cancelTask","params":{"id":%q}}`, first.ID)) {
		switch {
		case line.Result != nil && (line.Result.ID != first.ID || len(line.Result.History) != 1):
			t.Errorf("%+v", line.Result)
		case line.Error != nil && !strings.Contains(line.Error.Message, "Invalid state transition"):
			t.Errorf("%+v", line.Error)
		}
	}
}

func driveA2A(t *testing.T, dir, url, token string, calls ...string) []a2aSeen {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "a2a.mjs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WORLD_URL="+url, "WORLD_TOKEN="+token)
	cmd.Stdin = strings.NewReader(strings.Join(calls, "\n") + "\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("node a2a.mjs: %v\n%s", err, errs.String())
	}
	var all []a2aSeen
	var raw []struct {
		Result map[string]any `json:"result"`
	}
	if err := errors.Join(json.Unmarshal(out.Bytes(), &all), json.Unmarshal(out.Bytes(), &raw)); err != nil || len(all) != len(calls) {
		t.Fatalf("%v: %s", err, out.String())
	}
	for i := range all {
		all[i].Raw = raw[i].Result
	}
	return all
}
