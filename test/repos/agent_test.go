package repos

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// pollEvery is how often an agent looks at a job.
const pollEvery = 200 * time.Millisecond

type obj = map[string]any

// agent is the official Go SDK with a session, which holds each answer against the schema
// that the daemon advertised.
type agent struct {
	t       *testing.T
	ctx     context.Context
	session *mcp.ClientSession
	outputs map[string]*jsonschema.Schema
}

// bearer adds a session to every request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

func newAgent(t *testing.T, url, token string) *agent {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), dayTimeout)
	t.Cleanup(cancel)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "world-test-go", Version: "1.0.0"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: url + "/mcp/", HTTPClient: &http.Client{Transport: bearer{token}}}, nil)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	a := &agent{t: t, ctx: ctx, session: s, outputs: map[string]*jsonschema.Schema{}}
	list, err := s.ListTools(ctx, nil)
	must(t, err)
	for _, tool := range list.Tools {
		a.outputs[tool.Name] = compile(t, tool.OutputSchema)
	}
	return a
}

func compile(t *testing.T, schema any) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	must(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	must(t, err)
	return s
}

// call calls a tool, whatever it answers.
func (a *agent) call(tool string, args obj) obj {
	a.t.Helper()
	res, err := a.session.CallTool(a.ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s %v: %v", tool, args, err)
	}
	out, ok := res.StructuredContent.(obj)
	if !ok || res.IsError {
		a.t.Fatalf("%s %v: %+v", tool, args, res)
	}
	if s := a.outputs[tool]; s == nil {
		a.t.Fatalf("%s was not listed", tool)
	} else if err := s.Validate(out); err != nil {
		a.t.Errorf("%s %v: its answer is not what its schema says: %v\n%v", tool, args, err, out)
	}
	return out
}

// do is a call that must be done.
func (a *agent) do(tool string, args obj) obj {
	a.t.Helper()
	out := a.call(tool, args)
	if out["ok"] != true {
		a.t.Fatalf("%s %v: %v", tool, args, out)
	}
	return out
}

// exec runs a profile to its end; jobs tells whether it went on as a job.
func (a *agent) exec(profile string, args ...string) (r result, job bool) {
	a.t.Helper()
	in := obj{"profile": profile}
	if len(args) > 0 {
		in["args"] = args
	}
	out := a.call("workspace-exec", in)
	job = out["running"] == true
	return a.await(profile, out), job
}

// await polls a job to its end.
func (a *agent) await(profile string, out obj) result {
	a.t.Helper()
	for out["running"] == true {
		select {
		case <-time.After(pollEvery):
		case <-a.ctx.Done():
			a.t.Fatalf("%s: the day is over, and the job still runs: %v", profile, out)
		}
		out = a.call("workspace-job", obj{"job": out["job"]})
	}
	code, ran := out["exit_code"].(float64)
	if !ran || out["limit"] != "" || out["truncated"] != false {
		a.t.Fatalf("%s: %v", profile, out)
	}
	return result{int(code), out["stdout"].(string), out["stderr"].(string)}
}
