package workbench_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/worldtest"
)

// site is a daemon whose pages are read.
type site struct {
	*worldtest.World
	token string
}

func start(t testing.TB, opts worldtest.Options) *site {
	t.Helper()
	return &site{World: worldtest.Start(t, opts)}
}

// do sends a request and gives the answer with its body; redirects are not followed.
func (s *site) do(method, path string, body io.Reader, header ...string) (*http.Response, string) {
	s.T.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), method, s.URL+path, body)
	if err != nil {
		s.T.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.T.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return resp, string(text)
}

// get reads a page that must be answered with a status.
func (s *site) get(path string, status int) string {
	s.T.Helper()
	resp, text := s.do(http.MethodGet, path, nil)
	if resp.StatusCode != status {
		s.T.Fatalf("GET %s: %d, want %d\n%.400s", path, resp.StatusCode, status, text)
	}
	return text
}

// holds fails unless a page has all of these texts.
func holds(t testing.TB, page string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// call has an agent call a tool over /a2a/.
func (s *site) call(task, tool string, args map[string]any) {
	s.T.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": map[string]any{
		"id": task, "metadata": map[string]any{"skill_id": tool},
		"message": map[string]any{"role": "user", "parts": []any{map[string]any{"type": "data", "data": args}}}}})
	if err != nil {
		s.T.Fatal(err)
	}
	resp, text := s.do(http.MethodPost, "/a2a/", strings.NewReader(string(body)), "Authorization", "Bearer "+s.token)
	if resp.StatusCode != 200 || !strings.Contains(text, `"artifacts"`) {
		s.T.Fatalf("%s: %d %s", tool, resp.StatusCode, text)
	}
}

// worked is a world in which an agent did a little: entries 1 to 5.
func worked(t testing.TB, opts worldtest.Options) *site {
	t.Helper()
	s := start(t, opts)
	s.Worktree("ep1", map[string]string{"hello.txt": "hello, world\n"})
	s.token = s.Mint("ep1", worldtest.Coding(2)...)
	s.call("read-1", "workspace-read", map[string]any{"path": "hello.txt"})
	s.call("edit-1", "workspace-edit", map[string]any{"path": "hello.txt", "old_text": "hello", "new_text": "Hello"})
	s.call("bad-1", "workspace-read", map[string]any{"path": "../x"})
	s.call("unfit-1", "workspace-edit", map[string]any{"path": "hello.txt", "old_text": "absent", "new_text": "x"})
	s.call("spent-1", "workspace-write", map[string]any{"path": "b.txt", "content": "b\n"})
	return s
}

// publication is a manifest with the source of the example that ships.
func publication(t testing.TB, manifest []byte) registry.Manifest {
	t.Helper()
	source, err := os.ReadFile("../../packs/examples/echo.star")
	if err != nil {
		t.Fatal(err)
	}
	return registry.Manifest{Text: manifest, Files: map[string][]byte{"a.star": source}}
}
