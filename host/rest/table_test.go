package rest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/world"
)

// frozen is the table of ten, written out by hand: it changes when the contract does.
var frozen = []string{
	"GET /v1/head",
	"GET /v1/health",
	"GET /v1/log",
	"GET /v1/log/{index}",
	"GET /v1/objects/by-semantic-id/{name...}",
	"GET /v1/objects/{ref}",
	"GET /v1/receipts/{id}",
	"GET /v1/registry/{name...}",
	"GET /v1/worlds/{ref}",
	"POST /v1/commit",
}

func TestTableIsFrozenAndSorted(t *testing.T) {
	var got []string
	for _, rt := range rest.New(rest.Config{}).Routes() {
		got = append(got, rt.Pattern)
	}
	if d := cmp.Diff(frozen, got); d != "" {
		t.Errorf("routes (-frozen +table):\n%s", d)
	}
	if !slices.IsSorted(got) {
		t.Errorf("routes are not sorted: %q", got)
	}
}

func TestTableMatchesOpenAPI(t *testing.T) {
	var table []string
	for _, rt := range rest.New(rest.Config{}).Routes() {
		table = append(table, strings.ReplaceAll(rt.Pattern, "...}", "}"))
	}
	var page []string
	for path, item := range spec(t).Paths.Map() {
		for method := range item.Operations() {
			page = append(page, method+" "+path)
		}
	}
	slices.Sort(table)
	slices.Sort(page)
	if d := cmp.Diff(page, table); d != "" {
		t.Errorf("routes (-openapi +table):\n%s", d)
	}
}

func TestOpenAPITellsTheBounds(t *testing.T) {
	doc := spec(t)
	schemas := doc.Components.Schemas
	commit := schemas["Commit"].Value.Properties
	for what, pair := range map[string][2]uint64{
		"invocationId":        {*commit["invocationId"].Value.MaxLength, rest.MaxInvocationID},
		"name":                {*doc.Components.Parameters["name"].Value.Schema.Value.MaxLength, rest.MaxName},
		"page of entries":     {*doc.Paths.Value("/v1/log").Get.Responses.Status(200).Value.Content["application/json"].Schema.Value.Properties["items"].Value.MaxItems, rest.MaxPage},
		"objects of a commit": {*commit["objects"].Value.MaxItems, 10_000},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: the page says %d, the code %d", what, pair[0], pair[1])
		}
	}
	if got := *schemas["Count"].Value.Max; got != hashref.MaxInt {
		t.Errorf("integers: the page says %v", got)
	}
}

func TestRights(t *testing.T) {
	for _, private := range []bool{false, true} {
		got := map[string]rest.Right{}
		for _, rt := range rest.New(rest.Config{PrivateReads: private}).Routes() {
			got[rt.Pattern] = rt.Right
		}
		want := map[string]rest.Right{}
		for _, pattern := range frozen {
			want[pattern] = rest.Open
			if private || pattern == "POST /v1/commit" {
				want[pattern] = rest.Session
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("private reads %v (-want +got):\n%s", private, d)
		}
	}
}

// adapt runs one handler behind the adapter, without a network.
func adapt(cfg rest.Config, rt rest.Route) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	rest.New(cfg).Adapt(rt).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/x", nil))
	return rec
}

func failing(err error) rest.Route {
	return rest.Route{Right: rest.Open, Handle: func(http.ResponseWriter, *http.Request) error { return err }}
}

func TestZeroRightNeedsASession(t *testing.T) {
	ran := false
	rt := rest.Route{Handle: func(http.ResponseWriter, *http.Request) error { ran = true; return nil }}
	deny := func(context.Context, []string) (world.Session, error) {
		return world.Session{}, world.Errorf(world.KindSessionAbsent, "x", "who are you")
	}
	rec := adapt(rest.Config{Resolve: deny}, rt)
	if got, want := rec.Body.String(), envelope("SessionAbsent", "who are you"); rec.Code != 401 || got != want || ran {
		t.Errorf("got %d %s, ran %v", rec.Code, got, ran)
	}
}

func TestEveryKindHasItsAnswer(t *testing.T) {
	type ans struct {
		Status         int
		Class, Message string
	}
	const told = "told to the client"
	internal := ans{500, "Internal", "internal store failure"}
	want := map[world.Kind]ans{
		world.KindInternal:          internal,
		world.KindBadRequest:        {400, "BadRequest", told},
		world.KindNotFound:          {404, "NotFound", told},
		world.KindTooLarge:          {413, "PayloadTooLarge", told},
		world.KindHeadConflict:      {409, "HeadConflict", "observedHead is not the selected head"},
		world.KindTimeout:           {503, "Timeout", told},
		world.KindUncertain:         {503, "CommitUncertain", told},
		world.KindIndexMissing:      {503, "LookupIndexUnavailable", "the semantic id index is absent or incompatible"},
		world.KindSessionAbsent:     {401, "SessionAbsent", told},
		world.KindSessionBad:        {400, "InvalidSession", told},
		world.KindSessionUnknown:    {401, "SessionUnknown", told},
		world.KindSessionExpired:    {401, "SessionExpired", told},
		world.KindNoWorld:           {404, "NotFound", "no world head has been selected yet"},
		world.KindTaskIDUsed:        {400, "BadRequest", told},
		world.KindNotAuthorized:     internal,
		world.KindPinMismatch:       internal,
		world.KindEngineMissing:     internal,
		world.KindNoHandler:         internal,
		world.KindConvention:        internal,
		world.KindExecution:         internal,
		world.KindBadOutput:         internal,
		world.KindDeadline:          internal,
		world.KindCanceled:          internal,
		world.KindUnconfirmed:       internal,
		world.KindNotCommitted:      internal,
		world.KindCapacity:          internal,
		world.KindEffectsUnrecorded: internal,
		world.KindIntegrity:         internal,
		world.KindStoreFull:         internal,
		world.KindLocked:            internal,
		world.KindSchema:            internal,
	}
	if got, all := slices.Sorted(maps.Keys(want)), world.Kinds(); !slices.Equal(got, all) {
		t.Fatalf("this test knows the kinds %v, the vocabulary has %v", got, all)
	}
	for kind, w := range want {
		t.Run(kind.String(), func(t *testing.T) {
			logs := &logBook{}
			cause := errors.New("the secret cause")
			rec := adapt(rest.Config{Logf: logs.printf}, failing(&world.Error{Op: "op", Kind: kind, Msg: told, Err: cause}))
			if got, want := rec.Body.String(), envelope(w.Class, w.Message); rec.Code != w.Status || got != want {
				t.Errorf("got  %d %s\nwant %d %s", rec.Code, got, w.Status, want)
			}
			if logged := strings.Contains(logs.String(), cause.Error()); logged != (w.Status >= 500) {
				t.Errorf("status %d, cause logged: %v", w.Status, logged)
			}
			if ct := rec.Header().Get("Content-Type"); ct != "application/json" {
				t.Errorf("Content-Type %q", ct)
			}
		})
	}
}

func TestErrorsOfNoKind(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status int
		body   string
	}{
		"bare":              {errors.New("disk on fire"), 500, envelope("Internal", "internal store failure")},
		"bare deadline":     {fmt.Errorf("x: %w", context.DeadlineExceeded), 503, envelope("Timeout", "the deadline ended before anything was done")},
		"bare conflict":     {&world.HeadConflictError{Observed: hashref.SumString("a")}, 409, `{"error":{"class":"HeadConflict","message":"observedHead is not the selected head","observedHead":"` + ref("a") + `","selectedHead":""}}`},
		"conflict in Error": {world.Wrap(world.KindHeadConflict, "x", &world.HeadConflictError{Selected: hashref.SumString("b")}), 409, `{"error":{"class":"HeadConflict","message":"observedHead is not the selected head","observedHead":"","selectedHead":"` + ref("b") + `"}}`},
		"no text":           {world.Wrap(world.KindNotFound, "x", errors.New("row 7")), 404, envelope("NotFound", "not found")},
	} {
		t.Run(name, func(t *testing.T) {
			rec := adapt(rest.Config{}, failing(tc.err))
			if rec.Code != tc.status || rec.Body.String() != tc.body {
				t.Errorf("got  %d %s\nwant %d %s", rec.Code, rec.Body, tc.status, tc.body)
			}
		})
	}
}

func TestPanicIsInternal(t *testing.T) {
	logs := &logBook{}
	rt := rest.Route{Right: rest.Open, Handle: func(http.ResponseWriter, *http.Request) error { panic("the secret cause") }}
	rec := adapt(rest.Config{Logf: logs.printf}, rt)
	if got, want := rec.Body.String(), envelope("Internal", "internal store failure"); rec.Code != 500 || got != want {
		t.Errorf("got %d %s", rec.Code, got)
	}
	if got := logs.String(); !strings.Contains(got, "the secret cause") || !strings.Contains(got, "table_test.go") {
		t.Errorf("the log does not tell what and where: %q", got)
	}
}

func TestAbortIsPassedOn(t *testing.T) {
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("recovered %v", p)
		}
	}()
	adapt(rest.Config{}, rest.Route{Right: rest.Open, Handle: func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }})
}

func TestWrongMethodIs405(t *testing.T) {
	s := newServer(t, setup{})
	for _, pattern := range frozen {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{index}", "0", "{name...}", "a/b", "{ref}", ref("x"), "{id}", "rest:x").Replace(path)
		for _, wrong := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if wrong == method {
				continue
			}
			r := s.do(s.request(wrong, path, nil))
			if r.status != http.StatusMethodNotAllowed || !strings.Contains(r.header.Get("Allow"), method) {
				t.Errorf("%s %s: %d, Allow %q", wrong, path, r.status, r.header.Get("Allow"))
			}
		}
	}
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	s := newServer(t, setup{})
	s.grow(1)
	for _, path := range []string{"/v1/head", "/v1/health", "/v1/log/0", "/v1/log/7"} {
		get, head := s.get(path), s.do(s.request(http.MethodHead, path, nil))
		if head.status != get.status || head.body != "" || head.header.Get("Content-Length") != get.header.Get("Content-Length") {
			t.Errorf("%s: GET %d of %s bytes, HEAD %d of %s bytes and body %q", path,
				get.status, get.header.Get("Content-Length"), head.status, head.header.Get("Content-Length"), head.body)
		}
	}
}
