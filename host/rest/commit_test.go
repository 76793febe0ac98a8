package rest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func selected(word string) string { return `{"selectedHead":"` + ref(word) + `"}` }

func TestCommit(t *testing.T) {
	s := newServer(t, setup{})
	r := s.commit(commitAt(0))
	r.want(t, 200, selected("world 0"))
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q", ct)
	}
	s.commit(commitAt(1)).want(t, 200, selected("world 1"))
	s.get("/v1/head").want(t, 200, ref("world 1"))
	s.get("/v1/log/1").want(t, 200, entryJSON(1))
}

func TestCommitShapesThatAreTaken(t *testing.T) {
	slashed := base64.StdEncoding.EncodeToString([]byte{0xff, 0xff, 0xff})
	for name, raw := range map[string]string{
		"no objects":            commitAt(0).with("objects", []any{}).String(),
		"empty invocationId":    commitAt(0).with("invocationId", "").String(),
		"genesis without prev":  commitAt(0).with("entry.header.prevEntryHash", "").String(),
		"genesis with any prev": commitAt(0).with("entry.header.prevEntryHash", ref("whatever")).String(),
		"empty texts":           commitAt(0).with("objects[0].semanticId", "").with("objects[0].provenance", "").with("entry.header.writtenBy", "").String(),
		"white space around":    " \r\n\t" + commitAt(0).String() + "\n\n",
		"largest epoch":         commitAt(0).with("entry.header.semanticsEpoch", number("9007199254740991")).String(),
		"escaped payload": strings.Replace(
			commitAt(0).with("objects[0].payload", "////").with("objects[0].hash", hashref.Sum([]byte{0xff, 0xff, 0xff}).String()).String(),
			`"////"`, `"\/\u002f//"`, 1),
		"slashed payload": commitAt(0).with("objects[0].payload", slashed).with("objects[0].hash", hashref.Sum([]byte{0xff, 0xff, 0xff}).String()).String(),
		"longest texts":   commitAt(0).with("objects[0].provenance", strings.Repeat("p", store.MaxText)).with("entry.header.writtenBy", strings.Repeat("w", store.MaxText)).String(),
		"an object twice": commitAt(0).with("objects", []any{commitAt(0)["objects"].([]any)[0], commitAt(0)["objects"].([]any)[0]}).String(),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, setup{})
			s.post(raw).want(t, 200, selected("world 0"))
			if err := requestFault(t, raw); err != nil {
				t.Errorf("taken, but %s refuses it: %v", specFile, err)
			}
		})
	}
}

// requestFault is what the OpenAPI page has against a commit's body.
func requestFault(t *testing.T, raw string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7644/v1/commit", strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return openapi3filter.ValidateRequest(t.Context(), &openapi3filter.RequestValidationInput{
		Request: req, Route: specRoute(t, "POST /v1/commit"),
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true},
	})
}

func TestSessionComesFirst(t *testing.T) {
	s := newServer(t, setup{})
	expired, _, err := (&authority.Authority{Store: s.store, Now: func() time.Time { return time.Now().Add(-2 * time.Hour) }}).Mint(t.Context(), "ep1", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	revoked, session, err := (&authority.Authority{Store: s.store, Now: time.Now}).Mint(t.Context(), "ep1", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.RevokeSession(t.Context(), session.ID); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		lines  []string
		status int
		body   string
	}{
		"absent":      {nil, 401, envelope("SessionAbsent", authority.MsgAbsent)},
		"no bearer":   {[]string{"Basic YTpi"}, 400, envelope("InvalidSession", authority.MsgMalformed)},
		"short":       {[]string{"Bearer abcd"}, 400, envelope("InvalidSession", authority.MsgMalformed)},
		"empty":       {[]string{""}, 400, envelope("InvalidSession", authority.MsgMalformed)},
		"two headers": {[]string{"Bearer " + s.cred, "Bearer " + s.cred}, 400, envelope("InvalidSession", authority.MsgMalformed)},
		"unknown":     {[]string{"Bearer " + strings.Repeat("0", 64)}, 401, envelope("SessionUnknown", authority.MsgUnknown)},
		"revoked":     {[]string{"Bearer " + revoked}, 401, envelope("SessionUnknown", authority.MsgUnknown)},
		"expired":     {[]string{"Bearer " + expired}, 401, envelope("SessionExpired", authority.MsgExpired)},
	}
	bodies := map[string]string{
		"a good body": commitAt(0).String(), "no JSON": "}", "no body": "", "too large": strings.Repeat(" ", rest.MaxBody+1),
	}
	before := s.state()
	for name, tc := range cases {
		for what, body := range bodies {
			t.Run(name+", "+what, func(t *testing.T) {
				req := s.request(http.MethodPost, "/v1/commit", strings.NewReader(body))
				// Else the server may close the connection while a large body is on its way.
				req.Header.Set("Expect", "100-continue")
				req.Header["Authorization"] = tc.lines
				s.do(req).want(t, tc.status, tc.body)
			})
		}
	}
	s.unchanged(before)
}

func TestPrivateReads(t *testing.T) {
	s := newServer(t, setup{config: func(c *rest.Config) { c.PrivateReads = true }})
	for _, path := range append(storeReads(), "/v1/health") {
		s.get(path).want(t, 401, envelope("SessionAbsent", authority.MsgAbsent))
		req := s.request(http.MethodGet, path, nil)
		req.Header.Set("Authorization", "Bearer x")
		s.do(req).want(t, 400, envelope("InvalidSession", authority.MsgMalformed))
		req = s.request(http.MethodGet, path, nil)
		req.Header.Set("Authorization", "Bearer "+s.cred)
		if r := s.do(req); r.status == 401 || r.status == 400 {
			t.Errorf("%s with a session: %d %s", path, r.status, r.body)
		}
	}
	// What is not there and what is malformed look alike to a stranger.
	for _, path := range []string{"/v1/worlds/x", "/v1/log/x", "/v1/receipts/x"} {
		s.get(path).want(t, 401, envelope("SessionAbsent", authority.MsgAbsent))
	}
}

func TestOpenReadsLookAtNoHeader(t *testing.T) {
	s := newServer(t, setup{})
	req := s.request(http.MethodGet, "/v1/log", nil)
	req.Header.Set("Authorization", "nonsense")
	s.do(req).want(t, 200, `{"items":[]}`)
}

func TestMalformedBodies(t *testing.T) {
	const (
		mustRef = " must be sha256: followed by 64 lower-case hexadecimal digits"
		mustInt = " must be an integer from 0 to 9007199254740991, written in digits alone"
		mustB64 = " must be standard base64 with padding and no line breaks"
	)
	good := commitAt(0)
	raw := good.String()
	type bad struct{ raw, message string }
	cases := map[string]bad{
		"empty":              {"", "body must be one JSON object"},
		"blank":              {" \n", "body must be one JSON object"},
		"array":              {"[" + raw + "]", "body must be one JSON object"},
		"null":               {"null", "body must be one JSON object"},
		"string":             {`"x"`, "body must be one JSON object"},
		"byte order mark":    {"\ufeff" + raw, "body must be one JSON object"},
		"empty object":       {"{}", "observedHead is missing"},
		"unknown field":      {raw[:len(raw)-1] + `,"extra":1}`, "extra is not a field of a commit"},
		"case of a name":     {strings.Replace(raw, `"nextWorld"`, `"NextWorld"`, 1), "NextWorld is not a field of a commit"},
		"unknown deep":       {good.with("entry.header.extra", 1).String(), "entry.header.extra is not a field of a commit"},
		"unknown in object":  {good.with("objects[0].size", 1).String(), "objects[0].size is not a field of a commit"},
		"number as name":     {good.with("nextWorld", map[string]any{"7": 1}).String(), "nextWorld.7 is not a field of a commit"},
		"repeated":           {raw[:len(raw)-1] + `,"observedHead":""}`, "observedHead is given more than once"},
		"repeated unknown":   {`{"extra":1,"extra":2}`, "extra is not a field of a commit"},
		"repeated deep":      {strings.Replace(raw, `"writtenBy":`, `"writtenBy":"x","writtenBy":`, 1), "entry.header.writtenBy is given more than once"},
		"repeated by escape": {strings.Replace(raw, `"writtenBy":`, `"\u0077rittenBy":"x","writtenBy":`, 1), "entry.header.writtenBy is given more than once"},
		"objects null":       {good.with("objects", nil).String(), "objects must be an array"},
		"objects absent":     {good.with("objects", absent{}).String(), "objects must be an array"},
		"objects object":     {good.with("objects", map[string]any{}).String(), "objects must be an array"},
		"objects string":     {good.with("objects", "x").String(), "objects must be an array"},
		"object null":        {good.with("objects", []any{nil}).String(), "objects[0] must be an object"},
		"object array":       {good.with("objects", []any{[]any{}}).String(), "objects[0] must be an object"},
		"object number":      {good.with("objects", []any{good["objects"].([]any)[0], 7}).String(), "objects[1] must be an object"},
		"nextWorld null":     {good.with("nextWorld", nil).String(), "nextWorld must be an object"},
		"nextWorld absent":   {good.with("nextWorld", absent{}).String(), "nextWorld must be an object"},
		"nextWorld array":    {good.with("nextWorld", []any{}).String(), "nextWorld must be an object"},
		"entry null":         {good.with("entry", nil).String(), "entry must be an object"},
		"entry absent":       {good.with("entry", absent{}).String(), "entry must be an object"},
		"entry string":       {good.with("entry", "x").String(), "entry must be an object"},
		"header null":        {good.with("entry.header", nil).String(), "entry.header must be an object"},
		"header absent":      {good.with("entry.header", absent{}).String(), "entry.header must be an object"},
		"header number":      {good.with("entry.header", 1).String(), "entry.header must be an object"},
		"too many objects":   {good.with("objects", manyObjects()).String(), "objects must be at most 10000"},
		"prev empty after genesis": {
			commitAt(1).with("entry.header.prevEntryHash", "").String(), "entry.header.prevEntryHash" + mustRef},
		"reserved semantic id": {
			good.with("objects[0].semanticId", world.SemEffect).String(), `objects[0].semanticId "world/effect-record/v1" is reserved for the daemon`},
		"writtenBy of the daemon": {
			good.with("entry.header.writtenBy", "coordinator:mcp").String(), `entry.header.writtenBy must not begin with "coordinator:", which is reserved for the daemon`},
		"writtenBy prefix alone": {
			good.with("entry.header.writtenBy", "coordinator:").String(), `entry.header.writtenBy must not begin with "coordinator:", which is reserved for the daemon`},
		"writtenBy like the daemon's, in another case": {
			good.with("entry.header.writtenBy", "Coordinator:a2a").String(), `entry.header.writtenBy must not begin with "coordinator:", which is reserved for the daemon`},
		"writtenBy like the daemon's, with what is not seen": {
			good.with("entry.header.writtenBy", " coordinator\u200b:mcp").String(), `entry.header.writtenBy must not begin with "coordinator:", which is reserved for the daemon`},
		"provenance of the daemon": {
			good.with("objects[0].provenance", "coordinator:a2a").String(), `objects[0].provenance must not begin with "coordinator:", which is reserved for the daemon`},
	}
	for _, path := range []string{
		"observedHead", "objects[0].hash", "objects[0].interfaceHash", "nextWorld.ref", "nextWorld.stateRoot", "nextWorld.logHead",
		"entry.header.transitionFn", "entry.header.interpreter", "entry.header.prevEntryHash", "entry.entryHash", "entry.transitionRef",
	} {
		cases[path+" absent"] = bad{good.with(path, absent{}).String(), path + " is missing"}
		cases[path+" null"] = bad{good.with(path, nil).String(), path + " must be a string"}
		cases[path+" number"] = bad{good.with(path, 7).String(), path + " must be a string"}
		cases[path+" object"] = bad{good.with(path, map[string]any{}).String(), path + " must be a string"}
		for _, v := range []string{"x", "sha256:", strings.ToUpper(ref("x")), ref("x") + "0", " " + ref("x"), ref("x")[7:]} {
			cases[path+" "+v] = bad{good.with(path, v).String(), path + mustRef}
		}
		if path != "observedHead" && path != "entry.header.prevEntryHash" {
			cases[path+" empty"] = bad{good.with(path, "").String(), path + mustRef}
		}
	}
	for _, path := range []string{"nextWorld.revision", "entry.header.entryIndex", "entry.header.semanticsEpoch"} {
		cases[path+" absent"] = bad{good.with(path, absent{}).String(), path + " is missing"}
		cases[path+" null"] = bad{good.with(path, nil).String(), path + mustInt}
		cases[path+" string"] = bad{good.with(path, "0").String(), path + mustInt}
		cases[path+" bool"] = bad{good.with(path, true).String(), path + mustInt}
		for _, v := range []number{"-1", "-0", "0.0", "1.0", "1.5", "1e3", "1E0", "0e0", "9007199254740992", "9223372036854775808", "1e400"} {
			cases[path+" "+string(v)] = bad{good.with(path, v).String(), path + mustInt}
		}
		cases[path+" 007"] = bad{good.with(path, "@@").String(), ""} // see below: no JSON at all
		cases[path+" 007"] = bad{strings.Replace(good.with(path, "@@").String(), `"@@"`, "007", 1), "body is not valid JSON at byte"}
	}
	for _, path := range []string{"objects[0].semanticId", "objects[0].provenance", "entry.header.writtenBy"} {
		cases[path+" absent"] = bad{good.with(path, absent{}).String(), path + " is missing"}
		cases[path+" null"] = bad{good.with(path, nil).String(), path + " must be a string"}
		cases[path+" number"] = bad{good.with(path, 1).String(), path + " must be a string"}
		cases[path+" NUL"] = bad{good.with(path, "a\x00b").String(), path + " must not hold a NUL"}
		cases[path+" long"] = bad{good.with(path, strings.Repeat("x", store.MaxText+1)).String(), path + " must be at most 4096 bytes"}
	}
	const payload = "objects[0].payload"
	cases["payload absent"] = bad{good.with(payload, absent{}).String(), payload + " is missing"}
	cases["payload null"] = bad{good.with(payload, nil).String(), payload + " must be a string"}
	cases["payload array"] = bad{good.with(payload, []any{1}).String(), payload + " must be a string"}
	for _, v := range []string{"e", "e30", "e30==", "e31=", "e3\n0=", "e30=\r\n", "e30 =", "-_-_", "=", "e30=e30="} {
		cases["payload "+v] = bad{good.with(payload, v).String(), payload + mustB64}
	}
	for _, v := range []string{"x", "rest:", "REST:x", "a2a:ep1:x", "rest:a\nb", "rest:a\x00", " rest:x", "rest:" + strings.Repeat("x", rest.MaxInvocationID)} {
		cases["invocationId "+v] = bad{good.with("invocationId", v).String(), "invocationId must be rest:<id>, printable and at most 256 bytes"}
	}
	cases["invocationId null"] = bad{good.with("invocationId", nil).String(), "invocationId must be a string"}
	cases["invocationId number"] = bad{good.with("invocationId", 1).String(), "invocationId must be a string"}
	for name, syntax := range map[string]string{
		"trailing value": raw + "{}", "trailing comma": raw + ",", "trailing bytes": raw + "x", "cut short": raw[:len(raw)-1],
		"invalid UTF-8": strings.Replace(raw, "a test", "a \xff", 1), "lone surrogate": strings.Replace(raw, "a test", `\ud800`, 1),
		"comment": "{/**/}", "control character": strings.Replace(raw, "a test", "a\x01", 1), "single quotes": "{'a':1}", "NUL after": raw + "\x00",
	} {
		cases[name] = bad{syntax, "body is not valid JSON"}
	}

	s := newServer(t, setup{})
	before := s.state()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := s.post(tc.raw)
			if r.status != 400 || r.class() != "BadRequest" {
				t.Fatalf("got %d %s", r.status, r.body)
			}
			got := r.message()
			if strings.HasPrefix(tc.message, "body is not valid JSON") {
				if !strings.HasPrefix(got, tc.message) {
					t.Errorf("message %q does not begin with %q", got, tc.message)
				}
			} else if got != tc.message {
				t.Errorf("message %q, want %q", got, tc.message)
			}
		})
	}
	s.unchanged(before)
}

func TestReservedSemanticIDs(t *testing.T) {
	s := newServer(t, setup{})
	before := s.state()
	for _, id := range []string{
		world.SemInput, world.SemOutput, world.SemPlanV1, world.SemPlanV2, world.SemSource, world.SemRecordV1, world.SemRecordV2,
		world.SemRecordV3, world.SemRequest, world.SemEffect, world.SemInterpreter, world.EpochRegistry, world.TransitionRegistry,
	} {
		s.commit(commitAt(0).with("objects[0].semanticId", id)).want(t, 400,
			envelope("BadRequest", `objects[0].semanticId "`+id+`" is reserved for the daemon`))
	}
	s.unchanged(before)
	s.commit(commitAt(0).with("objects[0].semanticId", world.SemEffect+"x")).want(t, 200, selected("world 0"))
}

func manyObjects() []any {
	one := commitAt(0)["objects"].([]any)[0].(map[string]any)
	one["payload"] = ""
	many := make([]any, 10_001)
	for i := range many {
		many[i] = one
	}
	return many
}

// TestOpenAPIRefusesWhatTheRouteRefuses holds the page's request schema against the
// decoder, for the faults that a schema can tell.
func TestOpenAPIRefusesWhatTheRouteRefuses(t *testing.T) {
	good := commitAt(0)
	if err := requestFault(t, good.String()); err != nil {
		t.Fatalf("the page refuses a good commit: %v", err)
	}
	for name, b := range map[string]body{
		"unknown":      good.with("extra", 1),
		"unknown deep": good.with("entry.header.extra", 1),
		"no objects":   good.with("objects", absent{}),
		"no head":      good.with("observedHead", absent{}),
		"null world":   good.with("nextWorld", nil),
		"bad ref":      good.with("nextWorld.ref", "x"),
		"empty ref":    good.with("entry.entryHash", ""),
		"fraction":     good.with("nextWorld.revision", 1.5),
		"negative":     good.with("entry.header.entryIndex", -1),
		"bad id":       good.with("invocationId", "x"),
		"long id":      good.with("invocationId", "rest:"+strings.Repeat("x", rest.MaxInvocationID)),
		"bad base64":   good.with("objects[0].payload", "e30"),
		"null object":  good.with("objects", []any{nil}),
	} {
		if requestFault(t, b.String()) == nil {
			t.Errorf("%s: the page lets it through", name)
		}
		if s := newServer(t, setup{}).commit(b); s.status != 400 {
			t.Errorf("%s: the route answers %d", name, s.status)
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	s := newServer(t, setup{})
	r := s.post(`{"` + strings.Repeat("é", 1<<20) + `":1}`)
	if r.status != 400 || len(r.body) > 400 || !strings.Contains(r.message(), "… is not a field of a commit") {
		t.Errorf("%d, %d bytes: %.300s", r.status, len(r.body), r.body)
	}
	s.post(`{"a\u0007b":1}`).want(t, 400, envelope("BadRequest", `"a\ab" is not a field of a commit`))
}

// sized is a good commit whose text is exactly n bytes, by its payload and blanks.
func sized(t testing.TB, n int) string {
	t.Helper()
	const frame = 2000
	payload := strings.Repeat("p", (n-frame)/4*3)
	raw := commitAt(0).with("objects[0].payload", base64.StdEncoding.EncodeToString([]byte(payload))).with("objects[0].hash", ref(payload)).String()
	if len(raw) > n {
		t.Fatalf("%d bytes do not fit %d", len(raw), n)
	}
	return raw + strings.Repeat(" ", n-len(raw))
}

func TestBodySize(t *testing.T) {
	tooLarge := envelope("PayloadTooLarge", "commit body is over 8388608 bytes")
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked %v", chunked), func(t *testing.T) {
			s := newServer(t, setup{})
			send := func(body string) reply {
				req := s.request(http.MethodPost, "/v1/commit", strings.NewReader(body))
				req.Header.Set("Authorization", "Bearer "+s.cred)
				if chunked {
					req.ContentLength = -1
				} else {
					req.Header.Set("Expect", "100-continue")
				}
				return s.do(req)
			}
			before := s.state()
			send(sized(t, rest.MaxBody+1)).want(t, 413, tooLarge)
			s.unchanged(before)
			send(sized(t, rest.MaxBody)).want(t, 200, selected("world 0"))
		})
	}
}

func TestHeadConflict(t *testing.T) {
	conflict := func(observed, selected string) string {
		return `{"error":{"class":"HeadConflict","message":"observedHead is not the selected head","observedHead":"` + observed + `","selectedHead":"` + selected + `"}}`
	}
	s := newServer(t, setup{})
	before := s.state()
	s.commit(commitAt(0).with("observedHead", ref("dream"))).want(t, 409, conflict(ref("dream"), ""))
	s.unchanged(before)
	s.grow(2)
	before = s.state()
	s.commit(commitAt(2).with("observedHead", "")).want(t, 409, conflict("", ref("world 1")))
	s.commit(commitAt(2).with("observedHead", ref("world 0"))).want(t, 409, conflict(ref("world 0"), ref("world 1")))
	s.unchanged(before)
}

func TestChainLaws(t *testing.T) {
	s := newServer(t, setup{})
	before := s.state()
	for path, value := range map[string]any{"entry.header.entryIndex": 1, "nextWorld.revision": 1, "nextWorld.logHead": ref("x")} {
		brokenLaw(t, s, commitAt(0).with(path, value), path)
	}
	s.unchanged(before)
	s.grow(2)
	before = s.state()
	for _, law := range []struct {
		path  string
		value any
	}{
		{"entry.header.entryIndex", 1}, {"entry.header.entryIndex", 3}, {"entry.header.prevEntryHash", ref("x")},
		{"entry.header.prevEntryHash", ref("entry 0")}, {"nextWorld.logHead", ref("x")}, {"nextWorld.revision", 1}, {"nextWorld.revision", 3},
		{"nextWorld.ref", ref("world 0")}, {"nextWorld.ref", ref("world 1")},
	} {
		brokenLaw(t, s, commitAt(2).with(law.path, law.value), law.path)
	}
	// An entry hash taken before; the world's logHead follows it, so that only this is wrong.
	brokenLaw(t, s, commitAt(2).with("entry.entryHash", ref("entry 0")).with("nextWorld.logHead", ref("entry 0")), "entry.entryHash")
	s.unchanged(before)
}

func brokenLaw(t *testing.T, s *server, b body, path string) {
	t.Helper()
	r := s.commit(b)
	if r.status != 400 || r.class() != "BadRequest" || !strings.HasPrefix(r.message(), path+" ") {
		t.Errorf("%s broken: %d %s", path, r.status, r.body)
	}
}

func TestObjectHashMismatchIsInternal(t *testing.T) {
	s := newServer(t, setup{})
	before := s.state()
	s.commit(commitAt(0).with("objects[0].hash", ref("something else"))).want(t, 500, envelope("Internal", "internal store failure"))
	s.unchanged(before)
	if s.logs.String() == "" {
		t.Error("the cause was not logged")
	}
}

// TestOrderOfChecks breaks one law after another, the last first: each answer must be that
// of the earliest one.
func TestOrderOfChecks(t *testing.T) {
	s := newServer(t, setup{})
	s.grow(2)
	done := commitAt(2).with("invocationId", "rest:done")
	if r := s.commit(done); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	s.commit(commitAt(3)).want(t, 200, selected("world 3"))
	before := s.state()

	b := commitAt(4).with("objects[0].hash", ref("something else"))
	s.commit(b).want(t, 500, envelope("Internal", "internal store failure"))
	b = b.with("nextWorld.revision", 9)
	brokenLaw(t, s, b, "nextWorld.revision")
	b = b.with("nextWorld.logHead", ref("elsewhere"))
	brokenLaw(t, s, b, "nextWorld.logHead")
	b = b.with("entry.header.prevEntryHash", ref("elsewhere"))
	brokenLaw(t, s, b, "entry.header.prevEntryHash")
	b = b.with("entry.header.entryIndex", 9)
	brokenLaw(t, s, b, "entry.header.entryIndex")
	b = b.with("observedHead", ref("world 2"))
	if r := s.commit(b); r.status != 409 {
		t.Errorf("stale: %d %s", r.status, r.body)
	}
	b = b.with("invocationId", "rest:done")
	if r := s.commit(b); r.status != 400 || r.class() != "BadRequest" || !strings.Contains(r.message(), "invocationId") {
		t.Errorf("id used for another commit: %d %s", r.status, r.body)
	}
	b = b.with("entry.transitionRef", "x")
	s.commit(b).want(t, 400, envelope("BadRequest", "entry.transitionRef must be sha256: followed by 64 lower-case hexadecimal digits"))
	s.post(b.String()+strings.Repeat(" ", rest.MaxBody)).want(t, 413, envelope("PayloadTooLarge", "commit body is over 8388608 bytes"))
	s.unchanged(before)
}

func TestInvocationIDIsIdempotent(t *testing.T) {
	s := newServer(t, setup{})
	c := commitAt(0).with("invocationId", "rest:demo-1")
	s.commit(c).want(t, 200, selected("world 0"))
	before := s.state()
	s.commit(c).want(t, 200, selected("world 0"))
	// The same value in other bytes is the same commit.
	s.post("  "+strings.ReplaceAll(c.String(), `"a test"`, `"\u0061 test"`)+"\n").want(t, 200, selected("world 0"))
	s.unchanged(before)

	s.commit(commitAt(1)).want(t, 200, selected("world 1"))
	before = s.state()
	s.commit(c).want(t, 200, selected("world 0"))
	for name, other := range map[string]body{
		"another payload": c.with("objects[0].payload", "").with("objects[0].hash", ref("")),
		"another head":    c.with("observedHead", ref("world 1")),
		"the next commit": commitAt(2).with("invocationId", "rest:demo-1"),
	} {
		r := s.commit(other)
		if r.status != 400 || r.class() != "BadRequest" || !strings.HasPrefix(r.message(), "invocationId ") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	s.unchanged(before)
	s.get("/v1/receipts/rest:demo-1").want(t, 200, `{"invocationId":"rest:demo-1","state":"resolved","resultRef":"`+ref("world 0")+`"}`)
}

func TestRefusedCommitFreesItsID(t *testing.T) {
	s := newServer(t, setup{})
	s.grow(1)
	const receipt = "/v1/receipts/rest:again"
	for _, refused := range []body{
		commitAt(1).with("observedHead", ref("stale")), commitAt(1).with("nextWorld.revision", 7), commitAt(1).with("objects[0].hash", ref("x")),
	} {
		if r := s.commit(refused.with("invocationId", "rest:again")); r.status == 200 {
			t.Fatalf("committed: %s", r.body)
		}
		s.get(receipt).want(t, 200, `{"invocationId":"rest:again","state":"not-started","resultRef":""}`)
	}
	s.commit(commitAt(1).with("invocationId", "rest:again")).want(t, 200, selected("world 1"))
	s.get(receipt).want(t, 200, `{"invocationId":"rest:again","state":"resolved","resultRef":"`+ref("world 1")+`"}`)
}

// TestSameCommitAtOnce sends one commit many times side by side: it lands once, and all are
// told the same.
func TestSameCommitAtOnce(t *testing.T) {
	s := newServer(t, setup{})
	s.grow(1)
	const senders = 16
	replies := make(chan reply, senders)
	for range senders {
		go func() {
			var r reply
			defer func() { replies <- r }() // also if the sending itself failed the test
			r = s.commit(commitAt(1).with("invocationId", "rest:once"))
		}()
	}
	for range senders {
		r := <-replies
		r.want(t, 200, selected("world 1"))
	}
	s.get("/v1/log").want(t, 200, `{"items":[`+entryJSON(0)+`,`+entryJSON(1)+`]}`)
}

// TestRivalCommits sends different commits for one place side by side: one lands, and the
// others are told of it.
func TestRivalCommits(t *testing.T) {
	s := newServer(t, setup{})
	s.grow(1)
	const senders = 16
	type sent struct {
		world string
		reply reply
	}
	done := make(chan sent, senders)
	for i := range senders {
		name := fmt.Sprint("rival ", i)
		go func() {
			d := sent{world: name}
			defer func() { done <- d }()
			d.reply = s.commit(commitAt(1).with("nextWorld.ref", ref(name)))
		}()
	}
	var winners []string
	var conflicts []reply
	for range senders {
		if d := <-done; d.reply.status == 200 {
			winners = append(winners, d.world)
		} else {
			conflicts = append(conflicts, d.reply)
		}
	}
	if len(winners) != 1 {
		t.Fatalf("%d commits landed in one place: %q", len(winners), winners)
	}
	for _, r := range conflicts {
		r.want(t, 409, `{"error":{"class":"HeadConflict","message":"observedHead is not the selected head","observedHead":"`+ref("world 0")+`","selectedHead":"`+ref(winners[0])+`"}}`)
	}
}

// committing is a store whose Commit is another's.
type committing struct {
	store.Store
	commit func(ctx context.Context, c store.Commit) (store.Committed, error)
}

func (c committing) Commit(ctx context.Context, x store.Commit) (store.Committed, error) {
	return c.commit(ctx, x)
}

func TestStoreFailuresOfCommit(t *testing.T) {
	const (
		timeout = "the commit ran out of time before its durable step; it was not committed and is safe to resend"
		byLog   = "the commit's outcome is unknown; reconcile via GET /v1/log/0 before any resend"
		byID    = "the commit's outcome is unknown; reconcile via GET /v1/receipts/rest:a%2Fb%20c before any resend"
	)
	for name, tc := range map[string]struct {
		err    error
		id     string
		status int
		body   string
	}{
		"queue":         {world.Errorf(world.KindTimeout, "store", "x"), "", 503, envelope("Timeout", timeout)},
		"uncertain":     {world.Errorf(world.KindUncertain, "store", "x"), "", 503, envelope("CommitUncertain", byLog)},
		"uncertain, id": {world.Errorf(world.KindUncertain, "store", "x"), "rest:a/b c", 503, envelope("CommitUncertain", byID)},
		"bare deadline": {context.DeadlineExceeded, "", 503, envelope("CommitUncertain", byLog)},
		"disk full":     {world.Errorf(world.KindStoreFull, "store", "x"), "", 500, envelope("Internal", "internal store failure")},
		"integrity":     {world.Errorf(world.KindIntegrity, "store", "x"), "", 500, envelope("Internal", "internal store failure")},
		"over a bound":  {world.Errorf(world.KindTooLarge, "store", "objects: too many"), "", 413, envelope("PayloadTooLarge", "objects: too many")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, setup{wrap: func(st store.Store) store.Store {
				return committing{st, func(context.Context, store.Commit) (store.Committed, error) { return store.Committed{}, tc.err }}
			}})
			s.commit(commitAt(0).with("invocationId", tc.id)).want(t, tc.status, tc.body)
		})
	}
}

func TestWhatTheStoreIsAskedToCommit(t *testing.T) {
	var got store.Commit
	s := newServer(t, setup{wrap: func(st store.Store) store.Store {
		return committing{st, func(_ context.Context, c store.Commit) (store.Committed, error) {
			got = c
			return store.Committed{World: c.NextWorld}, nil
		}}
	}})
	b := commitAt(1).with("invocationId", "rest:x")
	s.commit(b).want(t, 200, selected("world 1"))
	canonical, err := hashref.Canonical([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte(`{"n":1}`)
	sum := hashref.SumString
	want := store.Commit{
		Invocation: "rest:x", Digest: hashref.Sum(canonical), ObservedHead: sum("world 0"),
		Objects: []world.Object{{
			ObjectMeta: world.ObjectMeta{Hash: hashref.Sum(payload), InterfaceHash: sum("notes/v1"), SemanticID: "notes/v1", Provenance: "a test"},
			Payload:    payload,
		}},
		NextWorld: world.World{Ref: sum("world 1"), Revision: 1, StateRoot: sum("root 1"), LogHead: sum("entry 1")},
		Entry: world.Entry{
			Header: world.EntryHeader{
				EntryIndex: 1, SemanticsEpoch: 1, TransitionFn: sum("fn"), Interpreter: sum("interpreter"),
				PrevEntryHash: sum("entry 0"), WrittenBy: "a test",
			},
			EntryHash: sum("entry 1"), TransitionRef: sum("transition 1"),
		},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
