package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"

	"ailang.dev/world/host/worldtest"
)

// bearerTransport sends a token with every request.
type bearerTransport struct{ token string }

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// TestOfficialA2AGoClient drives the task endpoint with the Go SDK of the message/send
// generation: all three methods, and what it makes of our errors.
func TestOfficialA2AGoClient(t *testing.T) {
	w := worldtest.Start(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Plans: testPlans()})
	w.PublishPack("demo")
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	client := func(token string) *a2aclient.Client {
		c, err := a2aclient.NewFromEndpoints(ctx, []a2a.AgentInterface{{URL: w.URL + "/api/v1/a2a", Transport: a2a.TransportProtocolJSONRPC}},
			a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(&http.Client{Transport: bearerTransport{token}}))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ada := client(w.MintToken("ada", "enterprise", "1h"))
	message := func(skill string, parts ...a2a.Part) *a2a.MessageSendParams {
		m := a2a.NewMessage(a2a.MessageRoleUser, parts...)
		m.ContextID = "context"
		m.Metadata = map[string]any{"skillId": skill}
		return &a2a.MessageSendParams{Message: m}
	}
	asked := message("demo.answer", a2a.TextPart{Text: "hello there"})
	sent, err := ada.SendMessage(ctx, asked)
	if err != nil {
		t.Fatal(err)
	}
	task, ok := sent.(*a2a.Task)
	if !ok || task.Status.State != a2a.TaskStateCompleted || task.ContextID != "context" || len(task.Artifacts) != 1 || len(task.History) != 2 ||
		task.History[0].ID != asked.Message.ID || task.Status.Timestamp == nil || task.Metadata["entry_index"] == nil {
		t.Fatalf("%+v", sent)
	}
	if data, ok := task.Artifacts[0].Parts[0].(a2a.DataPart); !ok || data.Data["answer"] != "You asked: hello there" {
		t.Errorf("%+v", task.Artifacts[0].Parts)
	}
	again, err := ada.SendMessage(ctx, asked)
	if err != nil || again.(*a2a.Task).ID != task.ID {
		t.Errorf("%+v %v", again, err)
	}
	if got, err := ada.GetTask(ctx, &a2a.TaskQueryParams{ID: task.ID}); err != nil || got.ID != task.ID || got.Status.State != a2a.TaskStateCompleted {
		t.Errorf("%+v %v", got, err)
	}
	failed, err := ada.SendMessage(ctx, message("demo.fail", a2a.DataPart{Data: map[string]any{}}))
	if f, ok := failed.(*a2a.Task); err != nil || !ok || f.Status.State != a2a.TaskStateFailed || len(f.Status.Message.Parts) == 0 {
		t.Errorf("%+v %v", failed, err)
	}
	// Its table of errors has -32001 and -32602 as we do; -32002 means another thing there.
	if _, err := ada.GetTask(ctx, &a2a.TaskQueryParams{ID: "none"}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("no task: %v", err)
	}
	if _, err := ada.CancelTask(ctx, &a2a.TaskIDParams{ID: task.ID}); !errors.Is(err, a2a.ErrInvalidParams) {
		t.Errorf("cancel: %v", err)
	}
	if _, err := ada.SendMessage(ctx, message("none", a2a.TextPart{Text: "x"})); !errors.Is(err, a2a.ErrTaskNotCancelable) {
		t.Errorf("no skill: %v", err)
	}
	if _, err := ada.SendMessage(ctx, message("demo.answer", a2a.FilePart{File: a2a.FileBytes{Bytes: "aGk="}})); !errors.Is(err, a2a.ErrInvalidParams) {
		t.Errorf("a file: %v", err)
	}
	// Of a status that is not 200 it tells the status alone.
	for token, want := range map[string]string{"none": "unexpected HTTP status: 401 Unauthorized", w.MintToken("fred", "free", "1h"): "unexpected HTTP status: 403 Forbidden"} {
		if _, err := client(token).GetTask(ctx, &a2a.TaskQueryParams{ID: task.ID}); err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
	bob := client(w.MintToken("bob", "pro", "1h"))
	var limited error
	for range 4 {
		_, limited = bob.SendMessage(ctx, message("demo.answer", a2a.TextPart{Text: "x"}))
	}
	if limited == nil || limited.Error() != "unexpected HTTP status: 429 Too Many Requests" {
		t.Errorf("limited: %v", limited)
	}
}
