package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/world"
)

// protocol is the version of MCP that Tools speaks.
const protocol = "2025-11-25"

// rpcRequest is one JSON-RPC request.
type rpcRequest struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitzero"`
}

// rpc posts a request, and reads its result out of plain JSON or of one SSE event.
func (c *HTTP) rpc(ctx context.Context, path, method string, params, result any) error {
	body, err := json.Marshal(rpcRequest{Version: "2.0", ID: 1, Method: method, Params: params})
	if err != nil {
		return world.Wrap(world.KindBadRequest, "client", err)
	}
	header := map[string]string{"Content-Type": "application/json"}
	if path == mcpPath {
		header["Accept"] = "application/json, text/event-stream"
		header["MCP-Protocol-Version"] = protocol
	}
	a, err := c.send(ctx, http.MethodPost, path, header, body)
	if err != nil {
		return err
	}
	if a.status == http.StatusUnauthorized {
		return c.unauthorized(a)
	}
	text := a.body
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		if text, err = eventData(a.body); err != nil {
			return c.unreadable(err)
		}
	}
	var reply struct {
		Result jsontext.Value `json:"result"`
		Error  *Refusal       `json:"error"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return c.notOurs(a)
	}
	switch {
	case reply.Error != nil:
		return refused("client", rpcKind(reply.Error), reply.Error)
	case a.status != http.StatusOK || reply.Result == nil:
		return c.notOurs(a)
	}
	if err := json.Unmarshal(reply.Result, result); err != nil {
		return c.unreadable(err)
	}
	return nil
}

// unauthorized is the error of a 401, whose body is text.
func (c *HTTP) unauthorized(a answer) error {
	msg := strings.TrimSpace(string(a.body[:min(len(a.body), 500)]))
	return refused("client", sessionKind(msg), &Refusal{Status: a.status, Message: msg})
}

// rpcKind is the kind behind a JSON-RPC error, as far as its code tells.
func rpcKind(r *Refusal) world.Kind {
	switch {
	case r.Code == -32001:
		return sessionKind(r.Message)
	case r.Message == "not authorized":
		return world.KindNotAuthorized
	case r.Code == -32602 || r.Code == -32600:
		return world.KindBadRequest
	case r.Code == -32601:
		return world.KindNotFound
	}
	return world.KindInternal
}

func sessionKind(msg string) world.Kind {
	switch {
	case strings.Contains(msg, "absent"):
		return world.KindSessionAbsent
	case strings.Contains(msg, "malformed"):
		return world.KindSessionBad
	case strings.Contains(msg, "expired"):
		return world.KindSessionExpired
	}
	return world.KindSessionUnknown
}

// eventData is the data of the first event of a stream that carries any.
func eventData(stream []byte) ([]byte, error) {
	var data []byte
	found := false
	for _, line := range bytes.Split(stream, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if found {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
			found = true
		} else if len(line) == 0 && found {
			break
		}
	}
	if !found {
		return nil, errors.New("its event stream carries no data")
	}
	return data, nil
}

const (
	mcpPath   = "/mcp/"
	a2aPath   = "/a2a/"
	tasksPath = "/api/v1/a2a"
)

// Tool is one transition as MCP lists it.
type Tool struct {
	ID           string         `json:"id"` // the transition's, the name un-escaped
	Name         string         `json:"name"`
	Title        string         `json:"title,omitzero"`
	Description  string         `json:"description,omitzero"`
	InputSchema  jsontext.Value `json:"inputSchema,omitzero"`
	OutputSchema jsontext.Value `json:"outputSchema,omitzero"`
	Annotations  jsontext.Value `json:"annotations,omitzero"`
}

// Tools asks MCP's tools/list for what the session sees.
func (c *HTTP) Tools(ctx context.Context) ([]Tool, error) {
	var result struct {
		Tools []Tool `json:"tools"`
	}
	if err := c.rpc(ctx, mcpPath, "tools/list", struct{}{}, &result); err != nil {
		return nil, err
	}
	for i := range result.Tools {
		id, ok := registry.TransitionID(result.Tools[i].Name)
		if !ok {
			return nil, c.unreadable(fmt.Errorf("tool name %q is no escaped transition id", result.Tools[i].Name))
		}
		result.Tools[i].ID = id
	}
	return result.Tools, nil
}

// Called is one committed call.
type Called struct {
	Task       string         `json:"task"`
	Invocation string         `json:"invocation_id"`
	Entry      int64          `json:"entry_index"`
	World      world.Ref      `json:"world_ref"`
	Output     jsontext.Value `json:"output"`
}

// Call sends one tasks/send: task is the idempotency key, args a JSON object.
func (c *HTTP) Call(ctx context.Context, skill, task string, args jsontext.Value) (Called, error) {
	type part struct {
		Type string         `json:"type"`
		Data jsontext.Value `json:"data"`
	}
	params := struct {
		ID       string            `json:"id"`
		Metadata map[string]string `json:"metadata"`
		Message  any               `json:"message"`
	}{task, map[string]string{"skill_id": skill}, struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}{"user", []part{{"data", args}}}}
	var result struct {
		ID        string `json:"id"`
		Artifacts []struct {
			Parts []part `json:"parts"`
		} `json:"artifacts"`
		Metadata Called `json:"metadata"`
	}
	if err := c.rpc(ctx, a2aPath, "tasks/send", params, &result); err != nil {
		return Called{}, err
	}
	if len(result.Artifacts) != 1 || len(result.Artifacts[0].Parts) != 1 {
		return Called{}, c.unreadable(errors.New("it is no completed task with one artifact"))
	}
	done := result.Metadata
	done.Task, done.Output = result.ID, result.Artifacts[0].Parts[0].Data
	return done, nil
}

// Send sends one message/send, as users do: id is the idempotency key, args a JSON object.
// A task that failed with an output is a call like any other; one without is an error.
func (c *HTTP) Send(ctx context.Context, skill, id string, args jsontext.Value) (Called, error) {
	type part struct {
		Kind string         `json:"kind"`
		Text string         `json:"text,omitzero"`
		Data jsontext.Value `json:"data,omitzero"`
	}
	params := struct {
		Message any `json:"message"`
	}{struct {
		Role     string            `json:"role"`
		Kind     string            `json:"kind"`
		ID       string            `json:"messageId"`
		Metadata map[string]string `json:"metadata"`
		Parts    []part            `json:"parts"`
	}{"user", "message", id, map[string]string{"skillId": skill}, []part{{Kind: "data", Data: args}}}}
	var result struct {
		ID     string `json:"id"`
		Status struct {
			Message struct {
				Parts []part `json:"parts"`
			} `json:"message"`
		} `json:"status"`
		Artifacts []struct {
			Parts []part `json:"parts"`
		} `json:"artifacts"`
		Metadata Called `json:"metadata"`
	}
	patient, client := *c, *c.http
	patient.http, client.Timeout = &client, TaskTimeout
	if err := patient.rpc(ctx, tasksPath, "message/send", params, &result); err != nil {
		return Called{}, err
	}
	parts := result.Status.Message.Parts
	if len(result.Artifacts) == 1 {
		parts = result.Artifacts[0].Parts
	}
	done, why := result.Metadata, ""
	done.Task = result.ID
	for _, p := range parts {
		if p.Kind == "data" {
			done.Output = p.Data
			return done, nil
		}
		why = p.Text
	}
	return Called{}, refused("client", world.KindExecution, &Refusal{Status: http.StatusOK, Message: why})
}
