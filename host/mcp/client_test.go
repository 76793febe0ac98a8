package mcp

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer sends a credential with every request, and notes what versions were spoken.
type bearer struct {
	token string

	mu       sync.Mutex
	versions []string
	statuses []int
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.versions = append(b.versions, r.Header.Get("MCP-Protocol-Version"))
		b.statuses = append(b.statuses, resp.StatusCode)
	}
	return resp, err
}

func connect(t *testing.T, f *fakeHost, b *bearer, version string) *sdk.ClientSession {
	t.Helper()
	server := httptest.NewServer(New(f.config()))
	t.Cleanup(server.Close)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: server.URL + "/mcp/", HTTPClient: &http.Client{Transport: b}, MaxRetries: -1,
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// TestOfficialClient: the official client does its work at every version, also when it
// opens with one that is not spoken here.
func TestOfficialClient(t *testing.T) {
	for asked, want := range map[string]string{
		"": "2025-11-25", "2026-07-28": "2025-11-25", "2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26",
	} {
		t.Run("asks for "+asked, func(t *testing.T) {
			b := &bearer{token: token}
			session := connect(t, &fakeHost{t: t}, b, asked)
			init := session.InitializeResult()
			if init.ProtocolVersion != want || init.ServerInfo.Name != "ailang-worldd" || init.ServerInfo.Version != "0.1.0" || init.Instructions == "" {
				t.Errorf("initialized: %+v of %+v", init, init.ServerInfo)
			}
			if err := session.Ping(t.Context(), nil); err != nil {
				t.Errorf("ping: %v", err)
			}
			listed, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range listed.Tools {
				names = append(names, tool.Name)
			}
			if diff := cmp.Diff([]string{"ailang-read", "tools_decho", "tools_sgone_u1"}, names); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "tools_decho", Arguments: map[string]any{"a": "b"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Content[0].(*sdk.TextContent).Text; got != `{"echo":{"a":"b"}}` || res.IsError {
				t.Errorf("text %s, error %v", got, res.IsError)
			}
			if diff := cmp.Diff(any(map[string]any{"echo": map[string]any{"a": "b"}}), res.StructuredContent); diff != "" {
				t.Errorf("structured (-want +got):\n%s", diff)
			}
			checkOutput(t, session, listed.Tools[0])
			if last := b.versions[len(b.versions)-1]; last != want {
				t.Errorf("the client speaks %s", last)
			}
			if opened := b.versions[0] == "2026-07-28"; opened != (asked == "" || asked == "2026-07-28") || opened && b.statuses[0] != http.StatusBadRequest {
				t.Errorf("opened with %q, answered with %d", b.versions[0], b.statuses[0])
			}
		})
	}
}

// TestOfficialClientIsRefused: what is refused reaches it as an error of that one call, and
// the session goes on.
func TestOfficialClientIsRefused(t *testing.T) {
	session := connect(t, &fakeHost{t: t}, &bearer{token: failing}, "")
	for name, want := range map[string]jsonrpc.Error{
		"no-such":          {Code: -32602, Message: `unknown tool "no-such"`},
		"fail_sNoHandler":  {Code: -32603, Message: "host callback failed"},
		"fail_sCapacity":   {Code: -32603, Message: "host callback capacity exceeded"},
		"fail_sDeadline":   {Code: -32603, Message: "host callback timed out"},
		"fail_sCanceled":   {Code: -32603, Message: "host callback canceled"},
		"fail_sunrecorded": {Code: -32603, Message: "host callback failed"},
	} {
		_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name})
		var got *jsonrpc.Error
		if !errors.As(err, &got) || got.Code != want.Code || got.Message != want.Message {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := session.Ping(t.Context(), nil); err != nil {
		t.Errorf("ping after refusals: %v", err)
	}
}

// TestOfficialClientWithoutSession: it is told what is wrong with its credential.
func TestOfficialClientWithoutSession(t *testing.T) {
	server := httptest.NewServer(New((&fakeHost{t: t}).config()))
	defer server.Close()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	_, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: server.URL, HTTPClient: &http.Client{Transport: &bearer{token: nobody}}, MaxRetries: -1,
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("connected: %v", err)
	}
}

// checkOutput judges what a tool answers by the schema that it was listed with, as clients do.
func checkOutput(t *testing.T, session *sdk.ClientSession, tool *sdk.Tool) {
	t.Helper()
	schema, err := json.Marshal(tool.OutputSchema)
	if err != nil {
		t.Fatal(err)
	}
	res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool.Name})
	if err != nil {
		t.Fatal(err)
	}
	output, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if !valid(t, compile(t, schema), string(output)) {
		t.Errorf("%s answers %s, which is not valid under %s", tool.Name, output, schema)
	}
}
