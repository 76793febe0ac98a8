package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// TestABodyThatDoesNotComeHoldsNothing: an answer that needs no body is given although the
// body never comes, and the connection ends.
func TestABodyThatDoesNotComeHoldsNothing(t *testing.T) {
	inner := http.NewServeMux()
	inner.HandleFunc("GET /card", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	srv := httptest.NewServer(&guard{next: inner, body: 50 * time.Millisecond, write: time.Minute})
	defer srv.Close()
	for request, want := range map[string]int{
		"POST /nothing HTTP/1.1\r\nHost: localhost":    404,
		"POST /card HTTP/1.1\r\nHost: localhost":       405,
		"GET /card HTTP/1.1\r\nHost: localhost":        401,
		"POST /nothing HTTP/1.1\r\nHost: evil.example": 403,
	} {
		for _, body := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%s\r\n%s\r\n\r\n", request, body)
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != want {
				t.Errorf("%s, %s: %v, %v", request, body, resp, err)
				continue
			}
			io.Copy(io.Discard, resp.Body)
			if rest, _ := io.ReadAll(in); len(rest) != 0 {
				t.Errorf("%s, %s: the connection goes on with %q", request, body, rest)
			}
		}
	}
}

func TestGuard(t *testing.T) {
	public, err := url.Parse("https://world.example.org")
	if err != nil {
		t.Fatal(err)
	}
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	const served = http.StatusTeapot
	for _, c := range []struct {
		name, host, path string
		origin           []string
		public           bool
		want             int
	}{
		{name: "loopback address", host: "127.0.0.1:7644", want: served},
		{name: "other loopback address", host: "127.8.9.10:1", want: served},
		{name: "IPv6 loopback", host: "[::1]:7644", want: served},
		{name: "IPv6 loopback without port", host: "[::1]", want: served},
		{name: "localhost", host: "localhost:7644", want: served},
		{name: "LOCALHOST", host: "LOCALHOST", want: served},
		{name: "a rebound name", host: "evil.example:7644", want: 403},
		{name: "a name that begins like one", host: "localhost.evil.example", want: 403},
		{name: "an address that is no loopback", host: "192.168.1.2:7644", want: 403},
		{name: "no host", host: "", want: 403},
		{name: "public name, not configured", host: "world.example.org", want: 403},

		{name: "loopback origin", host: "127.0.0.1", origin: []string{"http://localhost:3000"}, want: served},
		{name: "loopback origin, https", host: "127.0.0.1", origin: []string{"https://127.0.0.1"}, want: served},
		{name: "foreign origin", host: "127.0.0.1", origin: []string{"https://evil.example"}, want: 403},
		{name: "null origin", host: "127.0.0.1", origin: []string{"null"}, want: 403},
		{name: "empty origin", host: "127.0.0.1", origin: []string{""}, want: 403},
		{name: "file origin", host: "127.0.0.1", origin: []string{"file://localhost"}, want: 403},
		{name: "two origins", host: "127.0.0.1", origin: []string{"http://localhost", "https://evil.example"}, want: 403},
		{name: "foreign origin at the task endpoint", host: "127.0.0.1", path: "/api/v1/a2a", origin: []string{"https://evil.example"}, want: served},
		{name: "foreign origin at the metadata", host: "127.0.0.1", path: "/.well-known/oauth-protected-resource", origin: []string{"https://evil.example"}, want: served},
		{name: "rebound name at the metadata", host: "evil.example", path: "/.well-known/oauth-protected-resource", want: 403},
		{name: "rebound name at the task endpoint", host: "evil.example", path: "/api/v1/a2a", want: 403},

		{name: "public name, agents' door", host: "world.example.org", path: "/mcp/", public: true, want: served},
		{name: "public name with its port", host: "world.example.org:443", path: "/a2a/", public: true, want: served},
		{name: "public name, card", host: "World.Example.Org", path: "/.well-known/agent.json", public: true, want: served},
		{name: "public name at another port", host: "world.example.org:8443", path: "/mcp/", public: true, want: 403},
		{name: "public name, REST", host: "world.example.org", path: "/v1/head", public: true, want: 404},
		{name: "public name, workbench", host: "world.example.org", path: "/workbench", public: true, want: 404},
		{name: "public origin", host: "world.example.org", path: "/mcp/", origin: []string{"https://world.example.org"}, public: true, want: served},
		{name: "public origin, other scheme", host: "world.example.org", path: "/mcp/", origin: []string{"http://world.example.org"}, public: true, want: 403},
		{name: "loopback beside a public name", host: "localhost", path: "/v1/head", public: true, want: served},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &guard{next: inner, body: time.Second, write: time.Minute}
			if c.public {
				g.public = public
			}
			if c.path == "" {
				c.path = "/v1/head"
			}
			r := httptest.NewRequest("GET", c.path, nil)
			r.Host = c.host
			for _, o := range c.origin {
				r.Header.Add("Origin", o)
			}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Fatalf("%d %s, want %d", w.Code, w.Body, c.want)
			}
			if read := w.Header().Get("Access-Control-Allow-Origin") == "*"; read != (c.path == "/api/v1/a2a") {
				t.Errorf("pages of any origin may read it: %v", read)
			}
			if w.Code == 403 && w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Fatalf("Content-Type %q", w.Header().Get("Content-Type"))
			}
		})
	}
}
