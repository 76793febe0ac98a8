package rest_test

import (
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/hashref"
)

// FuzzCommitBody states of any body that a live session may send, over one real store:
//
//   - the answer is one that the OpenAPI page knows;
//   - it is 500 only if an object's hash is not that of its payload;
//   - a 4xx leaves head, log, objects and open intents as they were;
//   - a 200 names the nextWorld.ref that was sent.
func FuzzCommitBody(f *testing.F) {
	for _, b := range []body{
		commitAt(0), commitAt(0).with("invocationId", "rest:x"), commitAt(1), commitAt(0).with("observedHead", ref("x")),
		commitAt(0).with("objects[0].hash", ref("x")), commitAt(0).with("nextWorld.revision", 7), commitAt(0).with("objects", []any{}),
		commitAt(0).with("entry.header.prevEntryHash", ""), commitAt(0).with("entry.header.semanticsEpoch", number("1e3")),
	} {
		f.Add([]byte(b.String()))
	}
	for _, raw := range []string{"", "{}", "[]", "null", `{"objects":null}`, `{"objects":[{"payload":"e31="}]}`, `{"invocationId":"rest:\ud800"}`} {
		f.Add([]byte(raw))
	}
	s := newServer(f, setup{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s.t = t
		before := s.state()
		r := s.post(string(raw))
		switch {
		case r.status == http.StatusOK:
			if want := sentWorld(t, raw); r.body != `{"selectedHead":"`+want+`"}` {
				t.Errorf("selected %s, sent %s", r.body, want)
			}
		case r.status == http.StatusInternalServerError:
			if !mismatch(raw) {
				t.Errorf("500 though all hashes match; log: %s", s.logs)
			}
			s.unchanged(before)
		case r.status == 400 || r.status == 409 || r.status == 413:
			s.unchanged(before)
		default:
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

// lenient is a commit as a careless client reads it.
type lenient struct {
	Objects []struct {
		Hash    string
		Payload []byte
	} `json:"objects"`
	NextWorld struct{ Ref string } `json:"nextWorld"`
}

func readLenient(raw []byte) (lenient, error) {
	var l lenient
	err := json.Unmarshal(raw, &l, json.MatchCaseInsensitiveNames(true))
	return l, err
}

func sentWorld(t *testing.T, raw []byte) string {
	l, err := readLenient(raw)
	if err != nil {
		t.Fatalf("committed, but no JSON: %v", err)
	}
	return l.NextWorld.Ref
}

// mismatch tells whether an object's hash is not that of its payload.
func mismatch(raw []byte) bool {
	l, err := readLenient(raw)
	if err != nil {
		return false
	}
	for _, o := range l.Objects {
		if !strings.EqualFold(o.Hash, hashref.Sum(o.Payload).String()) {
			return true
		}
	}
	return false
}

// FuzzGet states of any path and query below /v1: over a store that is well, the answer is one that
// the OpenAPI page knows, none is 500 or above, and a read changes nothing.
func FuzzGet(f *testing.F) {
	s := newServer(f, setup{})
	s.grow(3)
	for _, name := range []string{"head", "health", "log", "log/1", "log/-1", "log/01", "log/9223372036854775808", "objects/" + ref("x"), "objects/SHA256:x",
		"objects/by-semantic-id/notes/v1", "objects/by-semantic-id/", "receipts/rest:x", "receipts/a2a:ep:1", "registry/transitions", "registry/..", "worlds/" + ref("x"), "commit", "../v1/head", ""} {
		for _, query := range []string{"", "from=1&limit=2", "limit=0", "limit=-1&limit=2", "from=%zz", "after=x;y", "cursor=AAAA"} {
			f.Add(name, query)
		}
	}
	before := s.state()
	f.Fuzz(func(t *testing.T, name, query string) {
		s.t = t
		req := s.request(http.MethodGet, "", nil)
		req.URL.Path = "/v1/" + name
		if path.Clean(req.URL.Path) != req.URL.Path {
			return // the library sends such a client elsewhere
		}
		req.URL.RawQuery = strings.Map(func(r rune) rune {
			if r <= ' ' || r >= 0x7f {
				return -1 // no client sends it so
			}
			return r
		}, query)
		if r := s.do(req); r.status >= http.StatusInternalServerError {
			t.Errorf("GET %s: %d %s; log: %s", req.URL, r.status, r.body, s.logs)
		}
		s.unchanged(before)
	})
}
