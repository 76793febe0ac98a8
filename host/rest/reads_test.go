package rest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func TestHealth(t *testing.T) {
	pin := ref("ailang")
	for name, tc := range map[string]struct {
		health rest.Health
		want   string
	}{
		"no pin": {
			rest.Health{DaemonVersion: "0.1.0", DBPath: "/tmp/world-demo.db"},
			`{"status":"ok","daemon_version":"0.1.0","db_path":"/tmp/world-demo.db","interpreter_ref":"","interpreter_version":"","engines":[]}`,
		},
		"pin and engines": {
			rest.Health{
				DaemonVersion: "0.1.0", DBPath: "postgres://db/w", InterpreterRef: pin,
				InterpreterVersion: "AILANG v0.41.0\nCommit: 24ee108\n",
				Engines:            []rest.Engine{{Name: "starlark", Ref: ref("star"), Version: "starlark/1"}},
			},
			`{"status":"ok","daemon_version":"0.1.0","db_path":"postgres://db/w","interpreter_ref":"` + pin +
				`","interpreter_version":"AILANG v0.41.0\nCommit: 24ee108\n","engines":[{"name":"starlark","ref":"` + ref("star") + `","version":"starlark/1"}]}`,
		},
		"version that is no UTF-8": {
			rest.Health{DaemonVersion: "0.1.0", InterpreterRef: pin, InterpreterVersion: "AILANG \xff"},
			`{"status":"ok","daemon_version":"0.1.0","db_path":"","interpreter_ref":"` + pin + `","interpreter_version":"AILANG ` + "\ufffd" + `","engines":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, setup{config: func(c *rest.Config) { c.Health = func() rest.Health { return tc.health } }})
			r := s.get("/v1/health")
			r.want(t, 200, tc.want)
			if ct := r.header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("Content-Type %q", ct)
			}
		})
	}
}

func TestHead(t *testing.T) {
	s := newServer(t, setup{})
	s.get("/v1/head").want(t, 404, envelope("NotFound", "no world head has been selected yet"))
	s.grow(2)
	r := s.get("/v1/head")
	r.want(t, 200, ref("world 1"))
	if ct := r.header.Get("Content-Type"); ct != "text/plain" {
		t.Errorf("Content-Type %q", ct)
	}
}

func TestWorld(t *testing.T) {
	s := newServer(t, setup{})
	s.grow(2)
	for i := range 2 {
		s.get("/v1/worlds/"+ref(fmt.Sprint("world ", i))).want(t, 200, fmt.Sprintf(`{"ref":"%s","revision":%d,"stateRoot":"%s","logHead":"%s"}`,
			ref(fmt.Sprint("world ", i)), i, ref(fmt.Sprint("root ", i)), ref(fmt.Sprint("entry ", i))))
	}
	s.get("/v1/worlds/"+ref("no world")).want(t, 404, envelope("NotFound", "world not found"))
}

func TestObject(t *testing.T) {
	s := newServer(t, setup{})
	s.grow(1)
	payload := `{"n":0}`
	path := "/v1/objects/" + ref(payload)
	meta := `{"hash":"` + ref(payload) + `","interfaceHash":"` + ref("notes/v1") + `","semanticId":"notes/v1","provenance":"a test"`
	bare := meta + `}`
	full := meta + `,"payload":"` + base64.StdEncoding.EncodeToString([]byte(payload)) + `"}`
	for query, want := range map[string]string{
		"":                          bare,
		"?payload=true":             full,
		"?payload=true&colour=blue": full,
		"?payload=false":            bare,
		"?payload=":                 bare,
		"?payload":                  bare,
		"?payload=TRUE":             bare,
		"?payload=1":                bare,
		"?Payload=true":             bare,
	} {
		s.get(path+query).want(t, 200, want)
	}
	s.get("/v1/objects/"+ref("no object")).want(t, 404, envelope("NotFound", "object not found"))
	s.get("/v1/objects/"+ref("no object")+"?payload=true").want(t, 404, envelope("NotFound", "object not found"))
	s.get(path+"?payload=true&payload=false").want(t, 400, envelope("BadRequest", "payload is given more than once"))
}

func TestEmptyPayloadIsPresentWhenAskedFor(t *testing.T) {
	s := newServer(t, setup{})
	c := commitAt(0).with("objects[0].payload", "").with("objects[0].hash", ref(""))
	if r := s.commit(c); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	s.get("/v1/objects/"+ref("")+"?payload=true").want(t, 200, `{"hash":"`+ref("")+`","interfaceHash":"`+ref("notes/v1")+`","semanticId":"notes/v1","provenance":"a test","payload":""}`)
}

func TestMalformedRefs(t *testing.T) {
	s := newServer(t, setup{})
	hex64 := strings.Repeat("ab", 32)
	bad := []string{
		"x", "sha256:", "sha256:" + hex64[1:], "sha256:" + hex64 + "0", "sha256:" + strings.ToUpper(hex64),
		"SHA256:" + hex64, "sha512:" + hex64, hex64, "sha256:" + hex64[:63] + "g", "%20sha256:" + hex64, "sha256:" + hex64 + "%00",
	}
	for _, route := range []string{"/v1/worlds/", "/v1/objects/"} {
		for _, b := range bad {
			s.get(route+b).want(t, 400, envelope("BadRequest", "ref must be sha256: followed by 64 lower-case hexadecimal digits"))
		}
	}
	for _, b := range append(bad, "") {
		s.get("/v1/objects/by-semantic-id/notes/v1?after="+b).want(t, 400, envelope("BadRequest", "after must be sha256: followed by 64 lower-case hexadecimal digits"))
	}
}

// growWide commits one entry that brings n objects of one semantic id, and gives their
// hashes in ascending order.
func (s *server) growWide(n int, semanticID string) []string {
	s.t.Helper()
	var objects []any
	var hashes []string
	for i := range n {
		payload := fmt.Sprint("object ", i)
		hashes = append(hashes, ref(payload))
		objects = append(objects, map[string]any{
			"hash": ref(payload), "interfaceHash": ref(semanticID), "semanticId": semanticID,
			"provenance": "a test", "payload": base64.StdEncoding.EncodeToString([]byte(payload)),
		})
	}
	if r := s.commit(commitAt(0).with("objects", objects)); r.status != 200 {
		s.t.Fatalf("%d %s", r.status, r.body)
	}
	slices.Sort(hashes)
	return hashes
}

func TestObjectsBySemanticID(t *testing.T) {
	s := newServer(t, setup{})
	const name = "a/b//c d/é"
	hashes := s.growWide(3, name)
	item := func(i int) string {
		return `{"hash":"` + hashes[i] + `","interfaceHash":"` + ref(name) + `","semanticId":"` + name + `","provenance":"a test"}`
	}
	path := "/v1/objects/by-semantic-id/" + url.PathEscape(name)
	for query, want := range map[string]string{
		"":                                 `{"items":[` + item(0) + `,` + item(1) + `,` + item(2) + `]}`,
		"?limit=2":                         `{"items":[` + item(0) + `,` + item(1) + `]}`,
		"?after=" + hashes[0] + "&limit=1": `{"items":[` + item(1) + `]}`,
		"?after=" + hashes[1]:              `{"items":[` + item(2) + `]}`,
		"?after=" + hashes[2]:              `{"items":[]}`,
		"?after=" + hashref.Zero.String():  `{"items":[` + item(0) + `,` + item(1) + `,` + item(2) + `]}`,
		"?after=sha256:" + strings.Repeat("f", 64): `{"items":[]}`,
	} {
		s.get(path+query).want(t, 200, want)
	}
	s.get("/v1/objects/by-semantic-id/nobody/v1").want(t, 200, `{"items":[]}`)
}

func TestNames(t *testing.T) {
	s := newServer(t, setup{})
	for _, route := range []string{"/v1/objects/by-semantic-id/", "/v1/registry/"} {
		for name, why := range map[string]string{
			"":                                  "must not be empty",
			"a%00b":                             "must not hold a NUL",
			"a%ff":                              "must be valid UTF-8",
			strings.Repeat("n", rest.MaxName+1): "must be at most 4096 bytes",
		} {
			s.get(route+name).want(t, 400, envelope("BadRequest", "name "+why))
		}
		if r := s.get(route + strings.Repeat("n", rest.MaxName)); r.status != 200 && r.status != 404 {
			t.Errorf("%s: the longest name: %d %s", route, r.status, r.body)
		}
	}
}

func TestPageSizes(t *testing.T) {
	s := newServer(t, setup{})
	hashes := s.growWide(rest.MaxPage+7, "notes/v1")
	for limit, want := range map[string]int{
		"absent": 100, "0": 100, "-1": 100, "-0": 100, "-99999999999999999999": 100, "00": 100,
		"1": 1, "007": 7, "100": 100, "499": 499, "500": 500, "501": 500, "9007199254740993": 500, "99999999999999999999": 500,
	} {
		query := "?limit=" + limit
		if limit == "absent" {
			query = "?unknown=1"
		}
		r := s.get("/v1/objects/by-semantic-id/notes/v1" + query)
		if got := strings.Count(r.body, `{"hash":`); r.status != 200 || got != want {
			t.Errorf("limit %s: status %d, %d items, want %d", limit, r.status, got, want)
		}
		if !strings.HasPrefix(r.body, `{"items":[{"hash":"`+hashes[0]) {
			t.Errorf("limit %s does not begin with the lowest hash", limit)
		}
	}
	for _, route := range []string{"/v1/objects/by-semantic-id/notes/v1", "/v1/log"} {
		for _, limit := range []string{"", "x", "1.5", "1e2", "0x10", "%2B1", "+1", "--1", "-", "1%20", "1_000"} {
			s.get(route+"?limit="+limit).want(t, 400, envelope("BadRequest", "limit must be an integer"))
		}
		s.get(route+"?limit=1&limit=1").want(t, 400, envelope("BadRequest", "limit is given more than once"))
		s.get(route+"?limit=%zz").want(t, 400, envelope("BadRequest", "query is malformed"))
	}
}

// asked is a store that keeps the limits it was asked for.
type asked struct {
	store.Store
	limits *[]int
}

func (a asked) Entries(ctx context.Context, from int64, limit int) ([]world.Entry, error) {
	*a.limits = append(*a.limits, limit)
	return a.Store.Entries(ctx, from, limit)
}

func TestStoreIsAskedForOnePage(t *testing.T) {
	var limits []int
	s := newServer(t, setup{wrap: func(st store.Store) store.Store { return asked{st, &limits} }})
	for _, limit := range []string{"1", "0", "500", "501", "9223372036854775807", "99999999999999999999"} {
		s.get("/v1/log?limit="+limit).want(t, 200, `{"items":[]}`)
	}
	if want := []int{1, 100, 500, 500, 500, 500}; !slices.Equal(limits, want) {
		t.Errorf("asked for %v, want %v", limits, want)
	}
}

// entryJSON is entry i of grow as the wire has it.
func entryJSON(i int) string {
	prev := hashref.Zero.String()
	if i > 0 {
		prev = ref(fmt.Sprint("entry ", i-1))
	}
	return fmt.Sprintf(`{"header":{"entryIndex":%d,"semanticsEpoch":1,"transitionFn":"%s","interpreter":"%s","prevEntryHash":"%s","writtenBy":"a test"},"entryHash":"%s","transitionRef":"%s"}`,
		i, ref("fn"), ref("interpreter"), prev, ref(fmt.Sprint("entry ", i)), ref(fmt.Sprint("transition ", i)))
}

func TestLogEntry(t *testing.T) {
	s := newServer(t, setup{})
	s.get("/v1/log/0").want(t, 404, envelope("NotFound", "log entry not found"))
	s.grow(2)
	s.get("/v1/log/0").want(t, 200, entryJSON(0))
	s.get("/v1/log/1").want(t, 200, entryJSON(1))
	s.get("/v1/log/01").want(t, 200, entryJSON(1))
	for _, past := range []string{"2", "9007199254740991", "9007199254740992", "9223372036854775808", strings.Repeat("9", 400)} {
		s.get("/v1/log/"+past).want(t, 404, envelope("NotFound", "log entry not found"))
	}
	for _, bad := range []string{"-1", "-0", "x", "1.0", "1e1", "+1", "0x1", "%201", "1%2F2", "%D9%A1"} {
		s.get("/v1/log/"+bad).want(t, 400, envelope("BadRequest", "log index must be a non-negative integer"))
	}
}

func TestLogPage(t *testing.T) {
	s := newServer(t, setup{})
	s.get("/v1/log").want(t, 200, `{"items":[]}`)
	s.grow(4)
	page := func(from, to int) string {
		var items []string
		for i := from; i < to; i++ {
			items = append(items, entryJSON(i))
		}
		return `{"items":[` + strings.Join(items, ",") + `]}`
	}
	for query, want := range map[string]string{
		"":                                 page(0, 4),
		"?from=0":                          page(0, 4),
		"?from=2":                          page(2, 4),
		"?limit=3":                         page(0, 3),
		"?from=1&limit=2&who=me":           page(1, 3),
		"?limit=0":                         page(0, 4),
		"?from=4":                          page(4, 4),
		"?from=9223372036854775808":        page(4, 4),
		"?from=" + strings.Repeat("9", 99): page(4, 4),
	} {
		s.get("/v1/log"+query).want(t, 200, want)
	}
	for _, bad := range []string{"", "-1", "x", "1.0", "%2B1"} {
		s.get("/v1/log?from="+bad).want(t, 400, envelope("BadRequest", "from must be a non-negative integer"))
	}
	s.get("/v1/log?from=0&from=1").want(t, 400, envelope("BadRequest", "from is given more than once"))
}

func TestLogPageSizes(t *testing.T) {
	s := newServer(t, setup{})
	s.grow(rest.DefaultPage + 3)
	for query, want := range map[string]int{"": 100, "?limit=-3": 100, "?limit=500": 103, "?limit=102": 102} {
		if got := strings.Count(s.get("/v1/log"+query).body, `{"header":`); got != want {
			t.Errorf("%q: %d entries, want %d", query, got, want)
		}
	}
}

func TestRegistryHead(t *testing.T) {
	s := newServer(t, setup{})
	s.get("/v1/registry/"+world.ApprovalRegistry).want(t, 404, envelope("NotFound", "registry head not found"))
	obj := world.NewObject("notes/v1", "a test", []byte("registry"))
	for _, name := range []string{world.EpochRegistry, "odd name//x"} {
		if _, err := s.store.SwapRegistry(t.Context(), name, hashref.None, obj.Hash, []world.Object{obj}); err != nil {
			t.Fatal(err)
		}
		escaped := name
		if strings.Contains(name, "//") {
			escaped = url.PathEscape(name)
		}
		s.get("/v1/registry/"+escaped).want(t, 200, `{"name":"`+name+`","head":"`+obj.Hash.String()+`"}`)
	}
}

func TestReceipt(t *testing.T) {
	s := newServer(t, setup{})
	const id = "rest:a b/ü-1"
	path := "/v1/receipts/" + url.PathEscape(id)
	s.get(path).want(t, 200, `{"invocationId":"`+id+`","state":"not-started","resultRef":""}`)
	if r := s.commit(commitAt(0).with("invocationId", id)); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	s.get(path).want(t, 200, `{"invocationId":"`+id+`","state":"resolved","resultRef":"`+ref("world 0")+`"}`)
	for _, bad := range []string{
		"rest:", "rest", "a2a:ep1:t", "REST:x", "x", "%20rest:x", "rest:a%00b", "rest:a%0Ab", "rest:%ff",
		"rest:" + strings.Repeat("x", rest.MaxInvocationID-len("rest:")+1),
	} {
		s.get("/v1/receipts/"+bad).want(t, 400, envelope("BadRequest", "receipt id must be rest:<id>"))
	}
	long := "rest:" + strings.Repeat("x", rest.MaxInvocationID-len("rest:"))
	s.get("/v1/receipts/"+long).want(t, 200, `{"invocationId":"`+long+`","state":"not-started","resultRef":""}`)
}

// saying is a store whose reads all say one thing.
type saying struct {
	store.Store
	err func(ctx context.Context) error
}

func (s saying) Head(ctx context.Context) (store.Head, error) { return store.Head{}, s.err(ctx) }
func (s saying) World(ctx context.Context, _ world.Ref) (world.World, error) {
	return world.World{}, s.err(ctx)
}
func (s saying) Object(ctx context.Context, _ world.Ref) (world.Object, error) {
	return world.Object{}, s.err(ctx)
}
func (s saying) ObjectMeta(ctx context.Context, _ world.Ref) (world.ObjectMeta, error) {
	return world.ObjectMeta{}, s.err(ctx)
}
func (s saying) ObjectsBySemanticID(ctx context.Context, _ string, _ world.Ref, _ int) ([]world.ObjectMeta, error) {
	return nil, s.err(ctx)
}
func (s saying) Entry(ctx context.Context, _ int64) (world.Entry, error) {
	return world.Entry{}, s.err(ctx)
}
func (s saying) Entries(ctx context.Context, _ int64, _ int) ([]world.Entry, error) {
	return nil, s.err(ctx)
}
func (s saying) RegistryHead(ctx context.Context, _ string) (store.RegistryHead, error) {
	return store.RegistryHead{}, s.err(ctx)
}
func (s saying) Invocation(ctx context.Context, _ world.InvocationID) (store.Invocation, error) {
	return store.Invocation{}, s.err(ctx)
}

// storeReads is every route that reads the store.
func storeReads() []string {
	return []string{
		"/v1/head", "/v1/log", "/v1/log/0", "/v1/objects/by-semantic-id/notes/v1", "/v1/objects/" + ref("x"),
		"/v1/objects/" + ref("x") + "?payload=true", "/v1/receipts/rest:x", "/v1/registry/a/b", "/v1/worlds/" + ref("x"),
	}
}

func TestReadDeadline(t *testing.T) {
	for name, says := range map[string]func(ctx context.Context) error{
		"kind": func(ctx context.Context) error {
			<-ctx.Done()
			return world.Wrap(world.KindTimeout, "store", ctx.Err())
		},
		"bare": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, setup{
				wrap:   func(st store.Store) store.Store { return saying{st, says} },
				config: func(c *rest.Config) { c.Limits.Read = time.Millisecond },
			})
			for _, path := range storeReads() {
				s.get(path).want(t, 503, envelope("Timeout", "the read ran out of time; try again"))
			}
		})
	}
}

func TestReadDeadlineIsTenSeconds(t *testing.T) {
	var left time.Duration
	s := newServer(t, setup{wrap: func(st store.Store) store.Store {
		return saying{st, func(ctx context.Context) error {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			return world.Wrap(world.KindInternal, "store", context.Canceled)
		}}
	}})
	for _, path := range storeReads() {
		left = 0
		s.get(path)
		if left <= 9*time.Second || left > 10*time.Second {
			t.Errorf("%s: the store had %v", path, left)
		}
	}
}

func TestStoreFailuresOfReads(t *testing.T) {
	for _, kind := range []world.Kind{
		world.KindInternal, world.KindIntegrity, world.KindStoreFull, world.KindUncertain, world.KindBadRequest, world.KindTooLarge,
	} {
		s := newServer(t, setup{wrap: func(st store.Store) store.Store {
			return saying{st, func(context.Context) error { return world.Errorf(kind, "store", "the secret cause") }}
		}})
		for _, path := range storeReads() {
			s.get(path).want(t, 500, envelope("Internal", "internal store failure"))
		}
		if got := strings.Count(s.logs.String(), "the secret cause"); got != len(storeReads()) {
			t.Errorf("%v: the cause was logged %d times", kind, got)
		}
	}
}

func TestIndexUnavailable(t *testing.T) {
	s := newServer(t, setup{wrap: func(st store.Store) store.Store {
		return saying{st, func(context.Context) error { return world.Errorf(world.KindIndexMissing, "store", "gone") }}
	}})
	s.get("/v1/objects/by-semantic-id/notes/v1").want(t, http.StatusServiceUnavailable,
		envelope("LookupIndexUnavailable", "the semantic id index is absent or incompatible"))
}

func TestReceiptStates(t *testing.T) {
	for state, want := range map[store.State]string{
		store.StateUnknown: "not-started", store.StateOpen: "indeterminate", store.StateCommitted: "resolved", 99: "indeterminate",
	} {
		result := ""
		if want == "resolved" {
			result = ref("world 3")
		}
		s := newServer(t, setup{wrap: func(st store.Store) store.Store {
			// A world beside a state that is not committed must not be told.
			return journal{st, store.Invocation{ID: "rest:x", State: state, World: hashref.SumString("world 3")}}
		}})
		s.get("/v1/receipts/rest:x").want(t, 200, `{"invocationId":"rest:x","state":"`+want+`","resultRef":"`+result+`"}`)
	}
}

type journal struct {
	store.Store
	inv store.Invocation
}

func (j journal) Invocation(context.Context, world.InvocationID) (store.Invocation, error) {
	return j.inv, nil
}
