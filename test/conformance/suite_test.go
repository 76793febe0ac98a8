package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// exception is a row of expected.yaml.
type exception struct {
	Scenario string            `yaml:"scenario"`
	Checks   map[string]string `yaml:"checks"`
	Spec     string            `yaml:"spec"`
	Reason   string            `yaml:"reason"`
}

// exceptions reads expected.yaml and holds each row to name a scenario once, checks, a reason
// and a statement that is there.
func exceptions(t *testing.T) map[string]exception {
	t.Helper()
	text, err := os.ReadFile("expected.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []exception
	if err := yaml.UnmarshalWithOptions(text, &rows, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	spec, err := os.ReadFile(filepath.Join("..", "..", "spec", "08-mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]exception{}
	for _, e := range rows {
		if _, twice := all[e.Scenario]; twice || e.Reason == "" || len(e.Checks) == 0 {
			t.Errorf("expected.yaml: %q is there twice, or has no reason or checks", e.Scenario)
		}
		if !strings.Contains(string(spec), "\n- **"+e.Spec+"** ") {
			t.Errorf("expected.yaml: %s cites %q, which spec/08-mcp.md has not", e.Scenario, e.Spec)
		}
		all[e.Scenario] = e
	}
	return all
}

// check is one of a checks.json of the suite.
type check struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"errorMessage"`
}

// misses gives the checks that are no success, as expected.yaml words them.
func misses(checks []check) map[string]string {
	all := map[string]string{}
	for _, c := range checks {
		if c.Status != "SUCCESS" && c.Status != "INFO" {
			all[c.ID] = strings.TrimSpace(c.Status + " " + c.Message)
		}
	}
	return all
}

// differs tells how a scenario ended otherwise than it should, or "".
func differs(got, want map[string]string) string {
	var all []string
	for id, said := range got {
		words, listed := want[id]
		status, message, _ := strings.Cut(words, " ")
		if !listed || !strings.HasPrefix(said+" ", status+" ") || !strings.Contains(said, message) {
			all = append(all, fmt.Sprintf("%s is %s, expected %q", id, said, words))
		}
	}
	for id, words := range want {
		if _, there := got[id]; !there {
			all = append(all, fmt.Sprintf("%s passed, expected %q", id, words))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// folder is what the suite calls a scenario's results: its name and the time.
var folder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// results reads what the suite wrote, by scenario.
func results(t *testing.T, dir string) map[string][]check {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the suite wrote no results (%v)", err)
	}
	all := map[string][]check{}
	for _, file := range files {
		m := folder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		text, err := os.ReadFile(file)
		if err != nil || m == nil {
			t.Fatalf("%s: %v", file, err)
		}
		var checks []check
		if err := json.Unmarshal(text, &checks); err != nil || len(checks) == 0 {
			t.Fatalf("%s: %v", file, err)
		}
		all[m[1]] = checks
	}
	return all
}

var listed = regexp.MustCompile(`(?m)^  - (\S+) \[`)

// scenarios are the names of all that the suite asks of a server.
func scenarios(t *testing.T, n tools) []string {
	t.Helper()
	out := n.run(t, suite, "list", "--server").stdout
	out, _, _ = strings.Cut(out, "\nClient scenarios")
	var all []string
	for _, m := range listed.FindAllStringSubmatch(out, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}

const suite = "@modelcontextprotocol/conformance/dist/index.js"

// TestSuite: every scenario for servers passes, or ends as expected.yaml says, and docs/conformance.md
// has the numbers.
func TestSuite(t *testing.T) {
	n := installed(t)
	expected := exceptions(t)
	s := serve(t)
	dir := t.TempDir()
	r := n.run(t, suite, "server", "--url", withToken(t, s.url, s.token), "--suite", "all", "-o", dir)
	got := results(t, dir)
	if want := scenarios(t, n); len(want) == 0 || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Fatalf("the suite did not run whole: %s\n%s%s", cmp.Diff(want, slices.Sorted(maps.Keys(got))), r.stdout, r.stderr)
	}
	passed, warned := 0, 0
	for name, checks := range got {
		missed := misses(checks)
		if d := differs(missed, expected[name].Checks); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if len(missed) == 0 {
			passed++
		} else if !slices.ContainsFunc(checks, func(c check) bool { return c.Status == "FAILURE" }) {
			warned++
		}
	}
	for name := range expected {
		if _, there := got[name]; !there {
			t.Errorf("expected.yaml names %s, which the suite has not", name)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := fmt.Sprintf("%d scenarios: %d pass, %d pass with warnings that are expected, %d fail as expected.", len(got), passed, warned, len(got)-passed-warned)
	if !strings.Contains(string(page), told) {
		t.Errorf("docs/conformance.md should say: %s", told)
	}
}

// TestJudgement: what is expected and not so, and what is so and not expected, are both told.
func TestJudgement(t *testing.T) {
	got := misses([]check{{"a", "SUCCESS", ""}, {"b", "FAILURE", `Failed: unknown tool "x"`}, {"c", "WARNING", ""}, {"d", "INFO", ""}})
	for _, c := range []struct {
		name string
		want map[string]string
		tell string
	}{
		{"as expected", map[string]string{"b": `FAILURE unknown tool "x"`, "c": "WARNING"}, ""},
		{"not listed", map[string]string{"c": "WARNING"}, "b is FAILURE"},
		{"nothing listed", nil, "b is FAILURE"},
		{"listed and passed", map[string]string{"a": "FAILURE", "b": "FAILURE", "c": "WARNING"}, "a passed"},
		{"fails otherwise", map[string]string{"b": `FAILURE unknown tool "y"`, "c": "WARNING"}, "b is FAILURE"},
		{"fails and not only warns", map[string]string{"b": "WARNING", "c": "WARNING"}, "b is FAILURE"},
	} {
		if d := differs(got, c.want); (c.tell == "") != (d == "") || !strings.Contains(d, c.tell) {
			t.Errorf("%s: %q, want %q", c.name, d, c.tell)
		}
	}
}

// TestProxyAddsAuthorizationAlone: what the proxy sends on is what came, and the token.
func TestProxyAddsAuthorizationAlone(t *testing.T) {
	type seen struct {
		Method, Path, Host, Body string
		Header                   http.Header
	}
	var got seen
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.URL.RequestURI(), r.Host, string(body), r.Header}
		w.Header().Set("Allow", "POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
		io.WriteString(w, "no")
	}))
	defer backend.Close()
	req, err := http.NewRequest(http.MethodPut, withToken(t, backend.URL+"/mcp/", "abc")+"?a=b", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	req.Header = http.Header{"Accept": {"text/event-stream"}, "Origin": {"http://evil.example"}, "X-Other": {"1", "2"}, "User-Agent": {"test"}}
	resp, err := (&http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	want := seen{"PUT", "/mcp/?a=b", "evil.example", "{}", req.Header.Clone()}
	want.Header.Set("Authorization", "Bearer abc")
	want.Header.Set("Content-Length", "2")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" || string(answer) != "no" {
		t.Errorf("answer: %v %s", resp, answer)
	}
}
