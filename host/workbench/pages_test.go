package workbench_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/workbench"
	"ailang.dev/world/host/world"
	"ailang.dev/world/host/worldtest"
)

// every is the page of each route, with an address that is answered.
func (s *site) every() []string {
	return []string{"/workbench", "/workbench?entry=2", "/workbench?from=0", "/workbench?world=" + s.head(), "/workbench?object=" + s.record(2),
		"/workbench?payload=1&object=" + s.record(2), "/workbench/approvals", "/workbench/calls", "/workbench/calls/a2a:ep1:edit-1", "/workbench/episodes",
		"/workbench/episodes/ep1", "/workbench/transitions", "/workbench/find?q=" + s.source(2)}
}

func (s *site) head() string {
	s.T.Helper()
	h, err := s.Core.Store.Head(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return h.World.String()
}

func (s *site) record(index int64) string {
	s.T.Helper()
	e, err := s.Core.Store.Entry(s.T.Context(), index)
	if err != nil {
		s.T.Fatal(err)
	}
	return e.TransitionRef.String()
}

func (s *site) source(index int64) string {
	s.T.Helper()
	e, err := s.Core.Store.Entry(s.T.Context(), index)
	if err != nil {
		s.T.Fatal(err)
	}
	return e.Header.TransitionFn.String()
}

func TestHeaders(t *testing.T) {
	s := worked(t, worldtest.Options{})
	for _, path := range append(s.every(), "/workbench?entry=99", "/workbench?x=1") {
		get, text := s.do(http.MethodGet, path, nil)
		for name, want := range map[string]string{
			"Content-Type":            "text/html; charset=utf-8",
			"Cache-Control":           "no-store",
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"Content-Length":          fmt.Sprint(len(text)),
		} {
			if got := get.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		head, none := s.do(http.MethodHead, path, nil)
		if head.StatusCode != get.StatusCode || none != "" || head.Header.Get("Content-Length") != get.Header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d with %d bytes, GET %d", path, head.StatusCode, len(none), get.StatusCode)
		}
		path, _, _ = strings.Cut(path, "?")
		if post, _ := s.do(http.MethodPost, path, nil); post.StatusCode != 405 || post.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d, Allow %q", path, post.StatusCode, post.Header.Get("Allow"))
		}
	}
}

// TestParameters: exactly the seven, each once.
func TestParameters(t *testing.T) {
	s := worked(t, worldtest.Options{})
	ref, none := s.record(2), hashref.SumString("nothing").String()
	for _, c := range []struct {
		query  string
		status int
		text   string
	}{
		{"", 200, "Timeline"},
		{"?", 200, "Timeline"},
		{"?from=0", 200, "Timeline"},
		{"?from=5", 200, "Entries 5 to 5 of 6"},
		{"?from=6", 200, "The log ends before that"},
		{"?from=99999999999999999999999", 200, "The log ends before that"},
		{"?entry=0", 200, "Entry 0"},
		{"?entry=2&from=0", 200, "Timeline"},
		{"?entry=2&object=" + ref + "&world=" + s.head() + "&from=1&payload=0&refsAfter=0&commitsAfter=0", 200, "Show the payload"},
		{"?payload=1", 200, "Timeline"},
		{"?refsAfter=4&commitsAfter=4", 200, "Timeline"},
		{"?object=" + ref, 200, "Show the payload"},
		{"?object=" + ref + "&payload=0", 200, "Show the payload"},
		{"?object=" + ref + "&payload=1", 200, "Its payload hashes to its name"},
		{"?object=" + ref + "&commitsAfter=100000", 200, "None further on."},
		{"?object=" + ref + "&refsAfter=100000", 200, "None further on."},

		{"?entry=6", 404, "log entry not found"},
		{"?entry=99999999999999999999999", 404, "log entry not found"},
		{"?object=" + none, 404, "object not found"},
		{"?world=" + none, 404, "world not found"},

		{"?other=1", 400, "query has the parameter &#34;other&#34;"},
		{"?Entry=1", 400, "query has the parameter &#34;Entry&#34;"},
		{"?entry=1&x", 400, "query has the parameter &#34;x&#34;"},
		{"?=1", 400, "query has the parameter &#34;&#34;"},
		{"?%3cscript%3e=1", 400, "query has the parameter &#34;&lt;script&gt;&#34;"},
		{"?" + strings.Repeat("a", 5000) + "=1", 400, "query must be at most 4096 bytes"},
		{"?entry=%zz", 400, "query is malformed"},
		{"?entry=1;from=2", 400, "query is malformed"},
		{"?entry=1&entry=1", 400, "entry is given more than once"},
		{"?entry=1&%65ntry=2", 400, "entry is given more than once"},
		{"?world=" + none + "&world=" + none, 400, "world is given more than once"},
		{"?object=" + ref + "&object=" + ref, 400, "object is given more than once"},
		{"?from=1&from=2", 400, "from is given more than once"},
		{"?payload=0&payload=1", 400, "payload is given more than once"},
		{"?refsAfter=0&refsAfter=0", 400, "refsAfter is given more than once"},
		{"?commitsAfter=0&commitsAfter=0", 400, "commitsAfter is given more than once"},
		{"?entry=", 400, "entry must be a non-negative integer"},
		{"?entry=-1", 400, "entry must be a non-negative integer"},
		{"?entry=+1", 400, "entry must be a non-negative integer"},
		{"?entry=1e3", 400, "entry must be a non-negative integer"},
		{"?entry=%D9%A1", 400, "entry must be a non-negative integer"},
		{"?from=x", 400, "from must be a non-negative integer"},
		{"?refsAfter=x", 400, "refsAfter must be a non-negative integer"},
		{"?commitsAfter=0x1", 400, "commitsAfter must be a non-negative integer"},
		{"?payload=", 400, "payload must be 0 or 1"},
		{"?payload=true", 400, "payload must be 0 or 1"},
		{"?payload=01", 400, "payload must be 0 or 1"},
		{"?object=", 400, "object must be sha256:"},
		{"?object=" + strings.ToUpper(ref), 400, "object must be sha256:"},
		{"?world=sha256:12", 400, "world must be sha256:"},
		{"?entry=99&payload=2", 400, "payload must be 0 or 1"}, // what is malformed comes before what is not there
	} {
		holds(t, s.get("/workbench"+c.query, c.status), c.text)
	}
	for path, text := range map[string]string{
		"/workbench/approvals?from=1":                   "this page knows none",
		"/workbench/calls?from=1":                       "knows only after",
		"/workbench/calls?after=x":                      "after must be a non-negative integer",
		"/workbench/calls/a2a:ep1:edit-1?x=1":           "this page knows none",
		"/workbench/episodes?after=1":                   "after must be sha256:",
		"/workbench/episodes/ep1?before=x":              "before must be a non-negative integer",
		"/workbench/episodes/ep1?before=1&before=2":     "before is given more than once",
		"/workbench/episodes/ep1?before=1&after=2":      "after cannot stand beside before",
		"/workbench/episodes/EP1":                       "episode must be 1 to 64",
		"/workbench/transitions?from=1000":              "from is past the last",
		"/workbench/transitions?from=a":                 "from must be a non-negative integer",
		"/workbench/find":                               "q must be an entry",
		"/workbench/find?q=":                            "q must be an entry",
		"/workbench/find?q=nonsense":                    "is none of",
		"/workbench/find?q=1&q=2":                       "q is given more than once",
		"/workbench/find?q=1&x=2":                       "knows only q",
		"/workbench/calls/" + strings.Repeat("a", 5000): "id must be 1 to 4096 bytes",
	} {
		holds(t, s.get(path, 400), text, "BadRequest")
	}
	for path, text := range map[string]string{
		"/workbench/calls/a2a:ep1:none":     "the journal has no call a2a:ep1:none",
		"/workbench/episodes/none":          "no session of an episode &#34;none&#34;",
		"/workbench/episodes?after=" + none: "session not found",
		"/workbench/find?q=" + none:         "no entry stands on",
		"/workbench/find?q=99":              "log entry not found",
		"/workbench/find?q=a2a:ep1:none":    "the journal has no invocation",
	} {
		holds(t, s.get(path, 404), text, "NotFound")
	}
}

// TestEntryPage: what happened, why, on whose authority and at what cost.
func TestEntryPage(t *testing.T) {
	s := worked(t, worldtest.Options{})
	holds(t, s.get("/workbench?entry=2", 200), "Entry 2", "✓ done", "edited", "hello.txt", "links of this chain were followed and hold",
		"a2a:ep1:edit-1", "/workbench/calls/a2a:ep1:edit-1", "/workbench/episodes/ep1", s.source(2), s.record(2), "coordinator:a2a", "world/starlark/v1",
		"2 before, 1 after", "<svg class=\"chain\"", "1 of 2 spent", `<tr class="del">`, `<tr class="add">`, "?entry=1", "?entry=3")
	holds(t, s.get("/workbench?entry=3", 200), "↩ refused", "Because:", "with no &#34;..&#34; segment", "the transition answered by itself")
	holds(t, s.get("/workbench?entry=4", 200), "↩ refused", "tried to edit", "old_text not found in hello.txt", "it was not")
	holds(t, s.get("/workbench?entry=5", 200), "⊘ denied", "tried to write", "denied:budget", "did not cover the cost", "0 before, 0 after")
	holds(t, s.get("/workbench?entry=0", 200), "the world began", "its goal: test")
}

func TestTimelineTellsAStory(t *testing.T) {
	s := worked(t, worldtest.Options{})
	page := s.get("/workbench", 200)
	holds(t, page, "Entries 0 to 5 of 6, the newest first", "Episode <a", "Outside of any episode", "tried to write", "what was left of the budget did not cover the cost", "Workspace.Write denied",
		"Workspace.Write −1", "the world began", "1 line for 1 line")
	if strings.Index(page, `href="/workbench?entry=5"`) > strings.Index(page, `href="/workbench?entry=1"`) {
		t.Error("the newest entry is not first")
	}
}

func TestObjectPage(t *testing.T) {
	s := worked(t, worldtest.Options{})
	closed := s.get("/workbench?object="+s.record(2), 200)
	holds(t, closed, "world/invocation-record/v2", "coordinator:a2a", "entry 2")
	if strings.Contains(closed, "skillId") {
		t.Error("the payload is shown unasked")
	}
	holds(t, s.get("/workbench?payload=1&object="+s.record(2), 200), "skillId", "/workbench?object="+s.source(2)+"&amp;payload=1")
	holds(t, s.get("/workbench?object="+s.source(2), 200), "entry 2", "entry 4", "world/transition-registry/v1")
	// The payload of an entry's output is a state root: its world names it.
	w, err := s.Core.Store.World(t.Context(), hashref.MustParse(s.head()))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s.get("/workbench?object="+w.StateRoot.String(), 200), "?world="+w.Ref.String())
	holds(t, s.get("/workbench?world="+w.Ref.String(), 200), "the selected head", "?entry=5", w.StateRoot.String())
}

func TestCallPage(t *testing.T) {
	s := worked(t, worldtest.Options{})
	holds(t, s.get("/workbench/calls/a2a:ep1:edit-1", 200), "Task", "edit-1", "?entry=2", "live until", "edited")
	holds(t, s.get("/workbench/calls/a2a:ep1:spent-1", 200), "It intended none, or was denied them")
	holds(t, s.get("/workbench/calls", 200), "None: every call that began is an entry")
	// What a kill between an intent and its outcome leaves.
	request := world.NewObject(world.SemRequest, "coordinator:a2a", []byte(`{"effect":"Workspace.Read"}`))
	if _, err := s.Core.Store.IntendEffect(t.Context(), store.EffectIntent{Invocation: "a2a:ep1:killed", Digest: request.Hash, EffectID: "e1", Episode: "ep1",
		Need: world.Need{Effect: "Workspace.Read", Scope: "worktree", Cost: 1}, Budget: 9, Request: request}); err != nil {
		t.Fatal(err)
	}
	holds(t, s.get("/workbench", 200), "1 call began effects and never became an entry", "/workbench/calls")
	holds(t, s.get("/workbench/calls", 200), "/workbench/calls/a2a:ep1:killed", "1 effect")
	holds(t, s.get("/workbench/calls/a2a:ep1:killed", 200), "never became an entry", "outcome unknown", request.Hash.String(), "call again with another id")
}

func TestFind(t *testing.T) {
	s := worked(t, worldtest.Options{})
	for q, want := range map[string]string{
		"3": "/workbench?entry=3", "head": "/workbench?entry=5", "a2a:ep1:edit-1": "/workbench?entry=2", s.record(2): "/workbench?entry=2", s.head(): "/workbench?entry=5",
	} {
		resp, _ := s.do(http.MethodGet, "/workbench/find?q="+q, nil)
		if got := resp.Header.Get("Location"); resp.StatusCode != 303 || got != want {
			t.Errorf("%s: %d to %q, want %q", q, resp.StatusCode, got, want)
		}
	}
	holds(t, s.get("/workbench/find?q="+s.source(2), 200), "?entry=2", "?entry=4")
}

func TestEpisodePages(t *testing.T) {
	s := worked(t, worldtest.Options{})
	holds(t, s.get("/workbench/episodes", 200), "ep1", "1 live session", "2 of 2 spent", "nothing left")
	holds(t, s.get("/workbench/episodes/ep1", 200), "5 calls", "1 denial", "2 refused or failed")
	other := s.Mint("ep2", "Workspace.Read=worktree:7")
	holds(t, s.get("/workbench/episodes/ep2", 200), "No call of this episode became an entry")
	if strings.Contains(s.get("/workbench/episodes", 200), other) {
		t.Error("a credential is shown")
	}
	if _, err := s.Core.Store.RevokeEpisode(t.Context(), "ep2"); err != nil {
		t.Fatal(err)
	}
	holds(t, s.get("/workbench/episodes/ep2", 200), "revoked")
	holds(t, s.get("/workbench/episodes", 200), "no live session")
}

// TestEpisodePaging walks an episode among others in both directions.
func TestEpisodePaging(t *testing.T) {
	s := worked(t, worldtest.Options{})
	s.Worktree("other", nil)
	tokens := []string{s.token, s.Mint("other", worldtest.Coding(2)...)}
	own := []int64{1, 2, 3, 4, 5}
	for i := range 2*workbench.EpisodePage + 20 {
		s.token = tokens[i%2]
		s.call(fmt.Sprint("page-", i), "workspace-read", map[string]any{"path": "../x"})
		if i%2 == 0 {
			own = append(own, int64(6+i))
		}
	}
	const path = "/workbench/episodes/ep1"
	newest := s.get(path, 200)
	holds(t, newest, fmt.Sprintf("?entry=%d", own[len(own)-1]), fmt.Sprintf("?before=%d", own[len(own)-workbench.EpisodePage]))
	if strings.Contains(newest, "Newer") {
		t.Error("there is something newer than the newest")
	}
	oldest := s.get(fmt.Sprint(path, "?before=", own[len(own)-workbench.EpisodePage]), 200)
	first := own[len(own)-workbench.EpisodePage-1]
	holds(t, oldest, fmt.Sprintf("?entry=%d", first), "?entry=1", fmt.Sprintf("?after=%d", first))
	if strings.Contains(oldest, "Older") {
		t.Error("there is something older than the oldest")
	}
	back := s.get(fmt.Sprint(path, "?after=", first), 200)
	holds(t, back, fmt.Sprintf("?entry=%d", own[len(own)-1]), "Older")
	if strings.Contains(back, "Newer") {
		t.Error("there is something newer than the newest")
	}
	holds(t, s.get(path+"?after=100000", 200), "No call of this episode")
}

func TestTransitionPage(t *testing.T) {
	s := worked(t, worldtest.Options{})
	holds(t, s.get("/workbench/transitions", 200), "workspace-edit", "Workspace.Write=worktree, cost 1", "Schemas of", s.source(2))
}

// TestEmptyStates: who has nothing yet is told what to do.
func TestEmptyStates(t *testing.T) {
	s := start(t, worldtest.Options{NoGenesis: true, NoPacks: true})
	holds(t, s.get("/workbench", 200), "This world has not begun", "ailang-worldd genesis --db FILE")
	holds(t, s.get("/workbench?from=3", 200), "This world has not begun")
	holds(t, s.get("/workbench?entry=0", 404), "log entry not found")
	holds(t, s.get("/workbench/find?q=head", 404), "no world head has been selected yet", "ailang-worldd genesis")
	holds(t, s.get("/workbench/transitions", 200), "no transition is published", "transitions publish")
	holds(t, s.get("/workbench/episodes", 200), "No session was minted yet", "session mint")
	holds(t, s.get("/workbench/approvals", 200), "Nobody waits for an answer")
	holds(t, start(t, worldtest.Options{}).get("/workbench", 200), "Nothing was called yet", "session mint")
}

func basic(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

func TestPrivateReads(t *testing.T) {
	s := worked(t, worldtest.Options{PrivateReads: true})
	for _, path := range s.every() {
		for _, c := range []struct {
			header []string
			status int
			class  string
		}{
			{nil, 401, "SessionAbsent"},
			{[]string{"Authorization", "Bearer x"}, 400, "InvalidSession"},
			{[]string{"Authorization", "Bearer " + strings.Repeat("0a", 32)}, 401, "SessionUnknown"},
			{[]string{"Authorization", "Bearer " + s.token}, 200, ""},
			{[]string{"Authorization", basic("me", s.token)}, 200, ""},
			{[]string{"Authorization", basic("", s.token+"\n")}, 200, ""},
			{[]string{"Authorization", basic("me", strings.Repeat("0a", 32))}, 401, "SessionUnknown"},
			{[]string{"Authorization", basic("me", "secret")}, 401, "SessionUnknown"},
			{[]string{"Authorization", "Basic !"}, 400, "InvalidSession"},
		} {
			resp, text := s.do(http.MethodGet, path, nil, c.header...)
			if resp.StatusCode == 303 {
				resp.StatusCode = 200
			}
			if asks := strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic "); asks != (c.status == 401) {
				t.Errorf("%s with %v: asks for a password: %v", path, c.header, asks)
			}
			if resp.StatusCode != c.status || !strings.Contains(text, c.class) {
				t.Errorf("%s with %v: %d, want %d %s", path, c.header, resp.StatusCode, c.status, c.class)
			}
		}
	}
	// Who is asking comes before what is asked.
	holds(t, s.get("/workbench?x=1", 401), "SessionAbsent", "--private-reads")
}
