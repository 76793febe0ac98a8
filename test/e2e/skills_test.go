package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/corpus/ingest"
	"ailang.dev/world/host/handlers/model"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/worldtest"
	"ailang.dev/world/packs"
)

// skillPack is the pack whose skills are for users.
const skillPack = "magisterium"

// skillCalls are a good and a refused call, at least, of each skill. The library is that of
// testdata/library.
var skillCalls = []toolCall{
	{"catholic_qa", `{"question":"Who may baptise in danger of death?"}`, true, `In danger of death anybody may baptise`},
	{"catholic_qa", `{"question":"Is grace something I can earn?"}`, true, `"document":"grace"`},
	{"catholic_qa", `{"question":"When did the council of Nicaea meet?"}`, true, `met in the year 325, called by the emperor Constantine. [`},
	{"catholic_qa", `{"question":"Who won the football championship of 2019?"}`, true, `"answered":false`},
	{"catholic_qa", `{"question":" \u0000 "}`, false, `must not be empty`},
	{"document_search", `{"query":"grace"}`, true, `"document":"grace"`},
	{"document_search", `{"query":"AND OR ( \" *"}`, true, `"passages":[`},
	{"document_search", `{"query":" "}`, false, `must not be empty`},
	{"document_fetch", `{"document":"nicaea"}`, true, `The first council of Nicaea`},
	{"document_fetch", `{"document":"nicaea","section":"2"}`, true, `of one being with the Father`},
	{"document_fetch", `{"document":"nowhere"}`, false, `nowhere`},
	{"liturgical_readings", `{"when":"Easter 2027"}`, true, `2027-03-28`},
	{"liturgical_readings", `{"when":"31 February 2027"}`, false, `"refused":`},
	{"saints_of_the_day", `{"when":"2027-10-04"}`, true, `Francis`},
	{"saints_of_the_day", `{"when":"2500-01-01"}`, false, `"refused":`},
}

// skillIDs is what the pack has.
func skillIDs(t *testing.T) []string {
	t.Helper()
	p, err := packs.Load(skillPack)
	if err != nil {
		t.Fatal(err)
	}
	var items []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(p.Manifest, &items); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, it := range items {
		all = append(all, it.ID)
	}
	return all
}

// callsOfSkills are those of the skills that the pack has, and each has both.
func callsOfSkills(t *testing.T) []toolCall {
	t.Helper()
	ids := skillIDs(t)
	var calls []toolCall
	has := map[string]bool{}
	for _, c := range skillCalls {
		if slices.Contains(ids, c.tool) {
			calls = append(calls, c)
			has[fmt.Sprint(c.tool, c.ok)] = true
		}
	}
	if len(has) != 2*len(ids) {
		t.Errorf("a good and a refused call of each of %v: %v", ids, has)
	}
	return calls
}

// skillWorld serves the skills over the library of testdata, to users without rates, and
// gives the token of one.
func skillWorld(t *testing.T, models ...model.Model) (w *worldtest.World, token string) {
	t.Helper()
	plan := authority.DefaultPlans()["pro"]
	plan.Rates = nil
	w = worldtest.Start(t, worldtest.Options{NoPacks: true, NoWorkspace: true, Plans: authority.Plans{"pro": plan}, Models: models})
	w.PublishPack(skillPack)
	fillLibrary(t, w, "testdata/library")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon said:\n%s", w.Stderr())
		}
	})
	return w, w.MintToken("ada", "pro", "1h")
}

func fillLibrary(t *testing.T, w *worldtest.World, dir string) {
	t.Helper()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := ingest.Add(t.Context(), ingest.Request{Corpus: "library", Paths: []string{abs}, Dir: corpus.Dir(w.DB), Store: w.Ops})
	if err != nil || res.Failures > 0 || res.Added == 0 {
		t.Fatalf("%+v %v", res, err)
	}
}

// message sends a message to a skill, and gives the task.
func (a *actor) message(id, skill string, parts ...any) map[string]any {
	a.t.Helper()
	body := hashref.MustMarshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": map[string]any{
		"message": map[string]any{"role": "user", "kind": "message", "messageId": id, "metadata": map[string]any{"skillId": skill}, "parts": parts}}})
	resp, text := a.do(http.MethodPost, "/api/v1/a2a", body, "Content-Type", "application/json")
	var answer struct {
		Result map[string]any `json:"result"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Result == nil {
		a.t.Fatalf("%d: %s", resp.StatusCode, text)
	}
	return answer.Result
}

// partsOf is what a task says: the text and data of its artifact, or of its failure.
func partsOf(t *testing.T, task map[string]any) (state, text string, data map[string]any) {
	t.Helper()
	status := task["status"].(map[string]any)
	state = status["state"].(string)
	var parts []any
	if state == "completed" {
		artifacts := task["artifacts"].([]any)
		if len(artifacts) != 1 {
			t.Fatalf("%v", task)
		}
		parts = artifacts[0].(map[string]any)["parts"].([]any)
	} else {
		parts = status["message"].(map[string]any)["parts"].([]any)
	}
	for _, p := range parts {
		p := p.(map[string]any)
		if p["kind"] == "text" {
			text = p["text"].(string)
		} else {
			data = p["data"].(map[string]any)
		}
	}
	return state, text, data
}

// resolve demands that what an answer cites can be had by its hash, and is the document that
// it says.
func resolve(t *testing.T, w *worldtest.World, data map[string]any) {
	t.Helper()
	var cited []any
	for _, list := range []string{"sources", "passages"} {
		all, _ := data[list].([]any)
		cited = append(cited, all...)
	}
	if _, fetched := data["sections"]; fetched {
		cited = append(cited, data)
	}
	reader := &actor{t: t, world: w}
	for _, c := range cited {
		c := c.(map[string]any)
		ref, title := c["ref"].(string), c["title"].(string)
		resp, text := reader.do(http.MethodGet, "/v1/objects/"+ref+"?payload=true", nil)
		var object struct {
			Payload []byte `json:"payload"`
		}
		var doc struct {
			Title string `json:"title"`
		}
		if err := json.Unmarshal(text, &object); err != nil || json.Unmarshal(object.Payload, &doc) != nil ||
			hashref.Sum(object.Payload).String() != ref || doc.Title != title {
			t.Errorf("%s of %v: %d %.200s", ref, c["document"], resp.StatusCode, text)
		}
		if link := c["link"].(string); link != "https://library.example/grace" && link != "/v1/objects/"+ref {
			t.Errorf("link %q of %v", link, c["document"])
		}
	}
}

// outputSchemas are those that the pack publishes.
func outputSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	p, err := packs.Load(skillPack)
	if err != nil {
		t.Fatal(err)
	}
	var items []struct {
		ID           string          `json:"id"`
		OutputSchema json.RawMessage `json:"outputSchema"`
	}
	if err := json.Unmarshal(p.Manifest, &items); err != nil {
		t.Fatal(err)
	}
	all := map[string]*jsonschema.Schema{}
	for _, it := range items {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(it.OutputSchema))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("s.json", doc); err != nil {
			t.Fatal(err)
		}
		if all[it.ID], err = c.Compile("s.json"); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// checkSkill holds one answer against the call, the schema and the store.
func checkSkill(t *testing.T, w *worldtest.World, schemas map[string]*jsonschema.Schema, c toolCall, state, text string, data map[string]any) {
	t.Helper()
	if data == nil {
		t.Fatalf("%s %s: %s %q without data", c.tool, c.args, state, text)
	}
	c.check(t, data)
	if err := schemas[c.tool].Validate(any(data)); err != nil {
		t.Errorf("%s %s: %v", c.tool, c.args, err)
	}
	want, says := "completed", data["text"]
	if !c.ok {
		want, says = "failed", data["refused"]
	}
	if state != want || text != says || text == "" {
		t.Errorf("%s %s: %s, text part %q, data says %q", c.tool, c.args, state, text, says)
	}
	resolve(t, w, data)
}

// TestSkillsByTheA2AGoSDK calls all skills over the task endpoint, with data parts and with a
// text part, and once more with the same message.
func TestSkillsByTheA2AGoSDK(t *testing.T) {
	t.Parallel()
	w, token := skillWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	client, err := a2aclient.NewFromEndpoints(ctx, []a2a.AgentInterface{{URL: w.URL + "/api/v1/a2a", Transport: a2a.TransportProtocolJSONRPC}},
		a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(&http.Client{Transport: bearerTransport{token}}))
	if err != nil {
		t.Fatal(err)
	}
	schemas := outputSchemas(t)
	for _, c := range callsOfSkills(t) {
		var args map[string]any
		if err := json.Unmarshal([]byte(c.args), &args); err != nil {
			t.Fatal(err)
		}
		var parts a2a.ContentParts = []a2a.Part{a2a.DataPart{Data: args}}
		for _, name := range []string{"question", "query", "document", "when"} {
			if text, ok := args[name].(string); ok && len(args) == 1 {
				parts = []a2a.Part{a2a.TextPart{Text: text}}
			}
		}
		m := a2a.NewMessage(a2a.MessageRoleUser, parts...)
		m.Metadata = map[string]any{"skillId": c.tool}
		var first *a2a.Task
		for range 2 {
			sent, err := client.SendMessage(ctx, &a2a.MessageSendParams{Message: m})
			if err != nil {
				t.Fatalf("%s %s: %v", c.tool, c.args, err)
			}
			task := sent.(*a2a.Task)
			if first == nil {
				first = task
			}
			got := task.Status.Message
			if task.Status.State == a2a.TaskStateCompleted {
				got = &a2a.Message{Parts: task.Artifacts[0].Parts}
			}
			text, data := "", map[string]any(nil)
			for _, p := range got.Parts {
				switch p := p.(type) {
				case a2a.TextPart:
					text = p.Text
				case a2a.DataPart:
					data = p.Data
				}
			}
			checkSkill(t, w, schemas, c, string(task.Status.State), text, data)
			if task.ID != first.ID || task.Metadata["entry_index"] != first.Metadata["entry_index"] || task.Metadata["entry_index"] == nil {
				t.Errorf("%s: another task: %+v, %+v", c.tool, first.Metadata, task.Metadata)
			}
		}
	}
}

// TestSkillsByTheA2ATypeScriptSDK does so with the other official client.
func TestSkillsByTheA2ATypeScriptSDK(t *testing.T) {
	t.Parallel()
	dir := typescript(t)
	w, token := skillWorld(t)
	calls := callsOfSkills(t)
	var lines []string
	for i, c := range calls {
		lines = append(lines, fmt.Sprintf(`{"method":"sendMessage","params":{"message":{"role":"user","kind":"message","messageId":"m%d","metadata":{"skillId":%q},"parts":[{"kind":"data","data":%s}]}}}`, i, c.tool, c.args))
	}
	schemas := outputSchemas(t)
	for i, got := range driveA2A(t, dir, w.URL+"/api/v1/a2a", token, lines...) {
		if got.Result == nil {
			t.Errorf("%s: %+v", calls[i].tool, got.Error)
			continue
		}
		raw, err := json.Marshal(got.Raw)
		if err != nil {
			t.Fatal(err)
		}
		var task map[string]any
		if err := json.Unmarshal(raw, &task); err != nil {
			t.Fatal(err)
		}
		state, text, data := partsOf(t, task)
		checkSkill(t, w, schemas, calls[i], state, text, data)
	}
}

// TestSkillsByTheGoSDK and TestSkillsByTheTypeScriptSDKs call all skills over MCP, with a
// user's token. The clients hold each answer against the schema that they were told.
func TestSkillsByTheGoSDK(t *testing.T) {
	t.Parallel()
	w, token := skillWorld(t)
	s := connect(t, w, token)
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != len(skillIDs(t)) {
		t.Fatalf("%+v %v", list, err)
	}
	schemas := outputSchemas(t)
	for _, c := range callsOfSkills(t) {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: registry.ToolName(c.tool), Arguments: json.RawMessage(c.args)})
		if err != nil {
			t.Errorf("%s %s: %v", c.tool, c.args, err)
			continue
		}
		data := res.StructuredContent.(map[string]any)
		c.check(t, data)
		if err := schemas[c.tool].Validate(any(data)); err != nil {
			t.Errorf("%s %s: %v", c.tool, c.args, err)
		}
		resolve(t, w, data)
	}
}

func TestSkillsByTheTypeScriptSDKs(t *testing.T) {
	t.Parallel()
	dir := typescript(t)
	for _, script := range []string{"sdk1.mjs", "sdk2.mjs"} {
		w, token := skillWorld(t)
		calls := callsOfSkills(t)
		var lines []string
		for _, c := range calls {
			lines = append(lines, fmt.Sprintf(`{"name":%q,"arguments":%s}`, registry.ToolName(c.tool), c.args))
		}
		s := drive(t, dir, script, w.URL+"/mcp/", token, lines...)
		if len(s.Tools) != len(skillIDs(t)) || len(s.Calls) != len(calls) {
			t.Fatalf("%s: %d tools, %d calls", script, len(s.Tools), len(s.Calls))
		}
		for i, c := range calls {
			if got := s.Calls[i]; got.Result == nil {
				t.Errorf("%s: %s: %+v", script, c.tool, got.Error)
			} else {
				c.check(t, got.Result.StructuredContent)
				resolve(t, w, got.Result.StructuredContent)
			}
		}
	}
}

// A question of a megabyte, and what else no skill should choke on, is a failed task with a
// clear reason.
func TestQuestionsNobodyAsks(t *testing.T) {
	t.Parallel()
	w, token := skillWorld(t)
	ada := &actor{t: t, world: w, token: token}
	for id, c := range map[string]struct{ question, state, holds string }{
		"mega":    {strings.Repeat("grace ", 160_000), "failed", `argument "question" must be at most 8192 bytes`},
		"empty":   {"", "failed", `must not be empty`},
		"maltese": {"X'inhi l-grazzja?", "completed", ""},
		"chinese": {"恩宠是什么？", "completed", "no answer"},
		"control": {"What\x00 is\x1b\u200b grace?\u202e", "completed", "Grace is the free and undeserved help"},
		"query":   {`"grace" AND NOT (title:* OR NEAR(x y, 3)) -- ; DROP TABLE passages`, "completed", ""},
	} {
		state, text, _ := partsOf(t, ada.message(id, "catholic_qa", map[string]any{"kind": "text", "text": c.question}))
		if state != c.state || !strings.Contains(text, c.holds) {
			t.Errorf("%s: %s %q", id, state, text)
		}
	}
}
