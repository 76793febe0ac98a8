package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// get reads a route of /v1 into v.
func (a *actor) get(path string, v any) {
	a.t.Helper()
	resp, text := a.do(http.MethodGet, path, nil)
	if resp.StatusCode != http.StatusOK {
		a.t.Fatalf("GET %s: %d %s", path, resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, v); err != nil {
		a.t.Fatalf("GET %s: %v: %s", path, err, text)
	}
}

// object reads an object's payload into v, and demands that it is of a kind.
func (a *actor) object(ref world.Ref, semanticID string, v any) {
	a.t.Helper()
	var o struct {
		Hash       world.Ref `json:"hash"`
		SemanticID string    `json:"semanticId"`
		Payload    []byte    `json:"payload"`
	}
	a.get("/v1/objects/"+ref.String()+"?payload=true", &o)
	if o.Hash != ref || o.SemanticID != semanticID {
		a.t.Fatalf("object %s is %s of kind %s, want kind %s", ref, o.Hash, o.SemanticID, semanticID)
	}
	if err := json.Unmarshal(o.Payload, v); err != nil {
		a.t.Fatalf("object %s: %v", ref, err)
	}
}

// TestWalkFromAnMCPResult goes from what an MCP client got, by REST alone, to the entry of
// its call: record, request, invocation record, entry, and down again to source and input.
func TestWalkFromAnMCPResult(t *testing.T) {
	w := worldtest.Start(t, worldtest.Options{})
	w.Worktree("ep1", map[string]string{"hello.txt": "hello, world\n"})
	token := w.Mint("ep1", worldtest.Coding(9)...)
	anyone := &actor{t: t, world: w}
	client := connect(t, w, token)
	(&actor{t, w, token}).send("before", "workspace-read", map[string]any{"path": "hello.txt"})
	out := callStructured(t, client, "workspace-read", map[string]any{"path": "hello.txt"})
	(&actor{t, w, token}).send("after", "workspace-read", map[string]any{"path": "hello.txt"})

	record := out.World.Effects[0].Record
	var effect struct {
		Effect       string    `json:"effect"`
		Cost         int64     `json:"cost"`
		BudgetBefore int64     `json:"budgetBefore"`
		BudgetAfter  int64     `json:"budgetAfter"`
		Allowed      bool      `json:"allowed"`
		Failed       bool      `json:"failed"`
		RequestRef   world.Ref `json:"requestRef"`
		ResultRef    world.Ref `json:"resultRef"`
	}
	anyone.object(record, world.SemEffect, &effect)
	if effect.Effect != "Workspace.Read" || effect.Cost != 1 || effect.BudgetBefore != 8 || effect.BudgetAfter != 7 || !effect.Allowed || effect.Failed {
		t.Fatalf("effect record %+v", effect)
	}
	var result struct {
		Content string `json:"content"`
	}
	anyone.object(effect.ResultRef, world.SemResult, &result)
	if result.Content != "hello, world\n" {
		t.Fatalf("result %+v", result)
	}
	var request struct {
		InvocationID world.InvocationID `json:"invocationId"`
		ID           string             `json:"id"`
		Payload      map[string]any     `json:"payload"`
	}
	anyone.object(effect.RequestRef, world.SemRequest, &request)
	if request.ID != "e1" || request.Payload["path"] != "hello.txt" {
		t.Fatalf("effect request %+v", request)
	}

	var page struct {
		Items []struct {
			Hash world.Ref `json:"hash"`
		} `json:"items"`
	}
	anyone.get("/v1/objects/by-semantic-id/"+world.SemRecordV2, &page)
	var mine []world.Ref
	var rec struct {
		InvocationID world.InvocationID `json:"invocationId"`
		SkillID      string             `json:"skillId"`
		TransitionFn world.Ref          `json:"transitionFn"`
		Input        world.Ref          `json:"input"`
		Output       world.Ref          `json:"output"`
		Plan         world.Ref          `json:"plan"`
		Effects      []world.Ref        `json:"effects"`
	}
	for _, item := range page.Items {
		found := rec
		anyone.object(item.Hash, world.SemRecordV2, &found)
		if slices.Contains(found.Effects, record) {
			rec, mine = found, append(mine, item.Hash)
		}
	}
	if len(page.Items) != 3 || len(mine) != 1 {
		t.Fatalf("%d invocation records, %d of them with effect record %s", len(page.Items), len(mine), record)
	}
	if rec.InvocationID != request.InvocationID || rec.SkillID != "workspace-read" || rec.Plan != out.World.Plan {
		t.Fatalf("invocation record %+v", rec)
	}

	var log struct {
		Items []world.Entry `json:"items"`
	}
	anyone.get("/v1/log", &log)
	i := slices.IndexFunc(log.Items, func(e world.Entry) bool { return e.TransitionRef == mine[0] })
	if i != 2 || log.Items[i].Header.WrittenBy != "coordinator:mcp" || log.Items[i].Header.TransitionFn != rec.TransitionFn {
		t.Fatalf("the entry of the call is at %d of %d", i, len(log.Items))
	}
	var input map[string]any
	anyone.object(rec.Input, world.SemInput, &input)
	if input["path"] != "hello.txt" {
		t.Fatalf("input %v", input)
	}
	if _, err := w.Core.Store.Object(context.Background(), rec.TransitionFn); err != nil {
		t.Fatalf("the source of the call: %v", err)
	}
}

// structured is what a tool's output says of its effects.
type structured struct {
	World struct {
		Plan    world.Ref `json:"plan"`
		Effects []struct {
			ID     string    `json:"id"`
			Status string    `json:"status"`
			Record world.Ref `json:"record"`
		} `json:"effects"`
	} `json:"world"`
}

// callStructured calls a tool and reads its world block, which has one effect that is ok.
func callStructured(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) structured {
	t.Helper()
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var out structured
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(out.World.Effects) != 1 || out.World.Effects[0].Status != "ok" {
		t.Fatalf("world block of %s", text)
	}
	return out
}
