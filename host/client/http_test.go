package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

const token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// serve is a daemon that answers everything alike.
func serve(t *testing.T, status int, contentType, body string) *HTTP {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	c, err := NewHTTP(srv.URL+"/", token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAddresses(t *testing.T) {
	for _, tc := range []struct {
		addr, token, want string // want "" is a refusal
	}{
		{"127.0.0.1:7644", token, "http://127.0.0.1:7644"},
		{"http://localhost:1/", token, "http://localhost:1"},
		{"http://[::1]:1", token, "http://[::1]:1"},
		{"https://world.example.org", token, "https://world.example.org"},
		{"http://world.example.org", "", "http://world.example.org"},
		{"http://world.example.org", token, ""},
		{"http://127.0.0.1.example.org", token, ""},
		{"ftp://127.0.0.1", "", ""},
		{"http://", "", ""},
		{"http://u:p@127.0.0.1", "", ""},
		{"http://127.0.0.1/?q", "", ""},
		{"http://a b", "", ""},
	} {
		c, err := NewHTTP(tc.addr, tc.token)
		switch {
		case tc.want == "" && world.KindOf(err) != world.KindBadRequest:
			t.Errorf("%s: %v", tc.addr, err)
		case tc.want != "" && (err != nil || c.URL() != tc.want):
			t.Errorf("%s: %v, %v", tc.addr, c, err)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: the credential is in the error", tc.addr)
		}
	}
}

// TestRedirectsAreNotFollowed: the credential goes where it was sent and nowhere else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked", r.URL)
	}))
	defer other.Close()
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	c, err := NewHTTP(srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Health(t.Context()); err == nil {
		t.Error("no error")
	}
	if _, err := c.Call(t.Context(), "s", "t", []byte("{}")); err == nil {
		t.Error("no error")
	}
}

func TestRefusals(t *testing.T) {
	const conflict = `{"error":{"class":"HeadConflict","message":"stale","observedHead":"a","selectedHead":"b"}}`
	for _, tc := range []struct {
		name       string
		status     int
		typ, body  string
		kind       world.Kind
		msg        string // contained in the message
		wantStatus int
	}{
		{"envelope", 404, "application/json", `{"error":{"class":"NotFound","message":"object not found"}}`, world.KindNotFound, "object not found", 404},
		{"conflict", 409, "application/json", conflict, world.KindHeadConflict, "stale", 409},
		{"a class of a later daemon", 418, "application/json", `{"error":{"class":"Teapot","message":"no tea"}}`, world.KindInternal, "no tea", 418},
		{"guard", 403, "text/plain; charset=utf-8", "Host must be a loopback name", world.KindInternal, "answered HTTP 403: Host must be", 403},
		{"some web server", 404, "text/html", "<html>not found</html>", world.KindInternal, "answered HTTP 404", 404},
		{"JSON of something else", 500, "application/json", `{"oops":1}`, world.KindInternal, "answered HTTP 500", 500},
		{"no JSON at all", 200, "text/html", "<html>", world.KindInternal, "cannot be read", 0},
		{"JSON that is no health", 200, "application/json", `{}`, world.KindInternal, "cannot be read", 0},
	} {
		c := serve(t, tc.status, tc.typ, tc.body)
		_, _, err := c.Health(t.Context())
		var r *Refusal
		errors.As(err, &r)
		if world.KindOf(err) != tc.kind || !strings.Contains(world.Message(err), tc.msg) || (r == nil) != (tc.wantStatus == 0) || (r != nil && r.Status != tc.wantStatus) {
			t.Errorf("%s: %v (%v)", tc.name, err, r)
		}
		if strings.Contains(world.Message(err), "<html>") {
			t.Errorf("%s: a page is shown: %v", tc.name, err)
		}
	}
}

func TestRPCRefusals(t *testing.T) {
	for _, tc := range []struct {
		name      string
		status    int
		typ, body string
		kind      world.Kind
		msg       string
	}{
		{"absent", 200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"unknown session credential"}}`, world.KindSessionUnknown, "unknown session"},
		{"expired", 401, "text/plain", "session credential has expired", world.KindSessionExpired, "has expired"},
		{"not authorized", 200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"not authorized"}}`, world.KindNotAuthorized, "not authorized"},
		{"failed", 200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"transition execution failed"}}`, world.KindInternal, "execution failed"},
		{"neither", 200, "application/json", `{"jsonrpc":"2.0","id":1}`, world.KindInternal, "answered HTTP 200"},
		{"no artifact", 200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`, world.KindInternal, "one artifact"},
		{"a page", 502, "text/html", `<html>`, world.KindInternal, "answered HTTP 502"},
		{"an empty stream", 200, "text/event-stream", ": hello\n\n", world.KindInternal, "carries no data"},
	} {
		_, err := serve(t, tc.status, tc.typ, tc.body).Call(t.Context(), "s", "t", []byte("{}"))
		if world.KindOf(err) != tc.kind || !strings.Contains(world.Message(err), tc.msg) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestEvents(t *testing.T) {
	for stream, want := range map[string]string{
		"event: message\ndata: {\"a\":1}\n\n":        `{"a":1}`,
		"data:{\r\ndata: }\r\n\r\ndata: second\r\n":  "{\n}",
		": comment\nid: 1\n\ndata: x":                "x",
		"data: x\n\ndata: y\n\n":                     "x",
		"\n\n\nretry: 5\n\nevent: e\ndata:  two\n\n": " two",
	} {
		if got, err := eventData([]byte(stream)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", stream, got, err)
		}
	}
}

// TestTransitionIDUndoesToolName for every kind of character that an id may have.

// TestCallOnTheWire pins what is sent.
func TestCallOnTheWire(t *testing.T) {
	var got, auth string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, auth = r.Method+" "+r.URL.Path+" "+string(b), r.Header.Get("Authorization")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"id":"t","status":{"state":"completed"},"artifacts":[{"parts":[{"type":"data","data":{"n":12345678901234567890}}]}],`+
			`"metadata":{"invocation_id":"a2a:e:t","world_ref":"`+hashref.Zero.String()+`","entry_index":3}}}`)
	}))
	defer srv.Close()
	c, err := NewHTTP(srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	called, err := c.Call(t.Context(), "s", "t", []byte(`{"b":1,"a":1e400}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Called{Task: "t", Invocation: "a2a:e:t", Entry: 3, World: hashref.Zero, Output: []byte(`{"n":12345678901234567890}`)}
	if d := cmp.Diff(want, called, cmp.Comparer(func(a, b world.Ref) bool { return a == b })); d != "" {
		t.Error(d)
	}
	if want := `POST /a2a/ {"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"t","metadata":{"skill_id":"s"},"message":{"role":"user","parts":[{"type":"data","data":{"b":1,"a":1e400}}]}}}`; got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
	if auth != "Bearer "+token {
		t.Errorf("sent %q", auth)
	}
}

// TestPayloadIsProved: a daemon's word is not taken for an object's bytes.
func TestPayloadIsProved(t *testing.T) {
	ref := hashref.SumString("right")
	c := serve(t, 200, "application/json", `{"hash":"`+ref.String()+`","interfaceHash":"","semanticId":"x","provenance":"y","payload":"d3Jvbmc="}`)
	if _, _, err := c.Object(t.Context(), ref, true); world.KindOf(err) != world.KindIntegrity {
		t.Errorf("%v", err)
	}
}
