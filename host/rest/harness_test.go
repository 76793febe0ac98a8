package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

const specFile = "../../spec/openapi.yaml"

var loadSpec = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromFile(specFile)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

func spec(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := loadSpec()
	if err != nil {
		t.Fatalf("%s: %v", specFile, err)
	}
	return doc
}

// server is the ten routes over a real store, with a client that holds every answer
// against the OpenAPI page.
type server struct {
	t     testing.TB
	store store.Store
	http  *httptest.Server
	mux   *http.ServeMux
	cred  string // of a live session
	logs  *logBook
}

type setup struct {
	hooks  sqlstore.Hooks
	wrap   func(store.Store) store.Store
	config func(*rest.Config)
	around func(http.Handler) http.Handler
}

func newServer(t testing.TB, s setup) *server {
	t.Helper()
	real := openStore(t, s.hooks)
	var st store.Store = real
	if s.wrap != nil {
		st = s.wrap(real)
	}
	auth := &authority.Authority{Store: real, Now: time.Now}
	cred, _, err := auth.Mint(t.Context(), "ep1", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	logs := &logBook{}
	cfg := rest.Config{
		Store: st, Resolve: auth.Resolve, Logf: logs.printf,
		Health: func() rest.Health { return rest.Health{DaemonVersion: world.Version, DBPath: "/tmp/w.db"} },
	}
	if s.config != nil {
		s.config(&cfg)
	}
	mux := http.NewServeMux()
	rest.New(cfg).Mount(mux)
	var h http.Handler = mux
	if s.around != nil {
		h = s.around(mux)
	}
	srv := &server{t: t, store: real, mux: mux, cred: cred, logs: logs, http: httptest.NewServer(h)}
	t.Cleanup(srv.http.Close)
	return srv
}

// logBook keeps what the operator would read.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBook) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// reply is one answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// failure is the error envelope as a client reads it.
type failure struct {
	Error struct {
		Class        string `json:"class"`
		Message      string `json:"message"`
		ObservedHead string `json:"observedHead"`
		SelectedHead string `json:"selectedHead"`
	} `json:"error"`
}

func (r reply) class() string {
	var f failure
	if err := json.Unmarshal([]byte(r.body), &f); err != nil {
		return "no envelope: " + r.body
	}
	return f.Error.Class
}

func (r reply) message() string {
	var f failure
	if err := json.Unmarshal([]byte(r.body), &f); err != nil {
		return "no envelope: " + r.body
	}
	return f.Error.Message
}

func envelope(class, message string) string {
	return fmt.Sprintf(`{"error":{"class":%q,"message":%q}}`, class, message)
}

func (s *server) get(path string) reply {
	s.t.Helper()
	return s.do(s.request(http.MethodGet, path, nil))
}

func (s *server) request(method, path string, body io.Reader) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.http.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return req
}

func (s *server) post(body string) reply {
	s.t.Helper()
	req := s.request(http.MethodPost, "/v1/commit", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+s.cred)
	return s.do(req)
}

func (s *server) commit(b body) reply {
	s.t.Helper()
	return s.post(b.String())
}

// do sends a request, and checks the answer against the OpenAPI page if it came from one of
// the routes.
func (s *server) do(req *http.Request) reply {
	s.t.Helper()
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, pattern := s.mux.Handler(req); pattern != "" {
		s.validate(req, pattern, res, raw)
	}
	return reply{res.StatusCode, res.Header, string(raw)}
}

func (s *server) validate(req *http.Request, pattern string, res *http.Response, raw []byte) {
	s.t.Helper()
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: req, Route: specRoute(s.t, pattern),
		},
		Status: res.StatusCode, Header: res.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(req.Context(), in.SetBodyBytes(raw)); err != nil {
		s.t.Errorf("%s %s is not what %s says: %v\n%s", req.Method, req.URL, specFile, err, raw)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Length": strconv.Itoa(len(raw))} {
		if got := res.Header.Get(name); got != want && req.Method != http.MethodHead {
			s.t.Errorf("%s %s: %s is %q, want %q", req.Method, req.URL, name, got, want)
		}
	}
}

// specRoute finds a mux pattern's operation on the page.
func specRoute(t testing.TB, pattern string) *routers.Route {
	t.Helper()
	doc := spec(t)
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.ReplaceAll(path, "...}", "}")
	item := doc.Paths.Value(path)
	if item == nil || item.GetOperation(method) == nil {
		t.Fatalf("%s is not in %s", pattern, specFile)
	}
	return &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)}
}

// want compares a whole answer.
func (r reply) want(t *testing.T, status int, body string) {
	t.Helper()
	if r.status != status || r.body != body {
		t.Errorf("got  %d %s\nwant %d %s", r.status, r.body, status, body)
	}
}

// ref is the reference of a word, so that tests can speak of refs by name.
func ref(word string) string { return hashref.SumString(word).String() }

// body is a commit's JSON, open to any change.
type body map[string]any

func (b body) String() string {
	raw, err := json.Marshal(map[string]any(b), json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return string(raw)
}

var pathStep = regexp.MustCompile(`[A-Za-z]+|\[\d+\]`)

// with is a copy in which the value at a path, objects[0].hash, is another; nil of type
// absent takes the member out.
func (b body) with(path string, value any) body {
	var c map[string]any
	if err := json.Unmarshal([]byte(b.String()), &c); err != nil {
		panic(err)
	}
	steps := pathStep.FindAllString(path, -1)
	var at any = c
	for i, step := range steps {
		last := i == len(steps)-1
		switch holder := at.(type) {
		case map[string]any:
			if _, gone := value.(absent); last && gone {
				delete(holder, step)
			} else if last {
				holder[step] = value
			}
			at = holder[step]
		case []any:
			n, err := strconv.Atoi(strings.Trim(step, "[]"))
			if err != nil {
				panic(err)
			}
			if last {
				holder[n] = value
			}
			at = holder[n]
		default:
			panic("no such path: " + path)
		}
	}
	return c
}

type absent struct{}

// number is a JSON number as its digits.
type number string

func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// commitAt is a commit that keeps every law when index entries are there.
func commitAt(index int) body {
	at := func(word string, i int) string { return ref(fmt.Sprint(word, " ", i)) }
	observed, prev := "", hashref.Zero.String()
	if index > 0 {
		observed, prev = at("world", index-1), at("entry", index-1)
	}
	payload := fmt.Sprintf(`{"n":%d}`, index)
	return body{
		"observedHead": observed,
		"objects": []any{map[string]any{
			"hash": ref(payload), "interfaceHash": ref("notes/v1"), "semanticId": "notes/v1",
			"provenance": "a test", "payload": base64.StdEncoding.EncodeToString([]byte(payload)),
		}},
		"nextWorld": map[string]any{
			"ref": at("world", index), "revision": index, "stateRoot": at("root", index), "logHead": at("entry", index),
		},
		"entry": map[string]any{
			"header": map[string]any{
				"entryIndex": index, "semanticsEpoch": 1, "transitionFn": ref("fn"),
				"interpreter": ref("interpreter"), "prevEntryHash": prev, "writtenBy": "a test",
			},
			"entryHash": at("entry", index), "transitionRef": at("transition", index),
		},
	}
}

// grow commits the first n entries.
func (s *server) grow(n int) {
	s.t.Helper()
	for i := range n {
		if r := s.commit(commitAt(i)); r.status != http.StatusOK {
			s.t.Fatalf("commit %d: %d %s", i, r.status, r.body)
		}
	}
}

// state is all that a refused request must leave as it was.
func (s *server) state() string {
	s.t.Helper()
	var b bytes.Buffer
	for _, path := range []string{"/v1/head", "/v1/log", "/v1/objects/by-semantic-id/notes/v1"} {
		r := s.get(path)
		fmt.Fprintln(&b, path, r.status, r.body)
	}
	open, _, err := s.store.Unresolved(s.t.Context(), 0, store.MaxPage)
	if err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintln(&b, "open intents", len(open))
	return b.String()
}

func (s *server) unchanged(before string) {
	s.t.Helper()
	if d := cmp.Diff(before, s.state()); d != "" {
		s.t.Errorf("a refused request changed the world (-before +after):\n%s", d)
	}
}
