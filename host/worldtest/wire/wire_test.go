package wire

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRun plays transcripts against a server that answers with what it was sent.
func TestRun(t *testing.T) {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Token", r.Header.Get("Authorization"))
		w.Header().Add("X-Line", "b")
		w.Header().Add("X-Line", "a")
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/close" {
			w.Header().Set("Connection", "close")
		}
		if r.URL.Path == "/empty" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		fmt.Fprintf(w, "%s %s %s\nid=%08x n=%d\n\n%s", r.Method, r.URL.RequestURI(), strings.Join(r.Header.Values("X-Two"), "|"), n, n, body)
	}))
	defer server.Close()
	Run(t, "testdata", To(t, server.Client(), server.URL), map[string]string{"TOKEN": "secret-token", "NONE": ""})
}

func TestBadTranscripts(t *testing.T) {
	do := func(*http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
	}
	s, err := newScript("capture X [", nil)
	if err == nil {
		t.Errorf("a bad regexp was taken: %v", s)
	}
	s, err = newScript("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "GET", "GET /\nno header\n", "GET /\nAuthorization: $UNKNOWN\n", "GET ://\n"} {
		if got, err := s.exchange(text, do); err == nil {
			t.Errorf("request %q was sent: %q", text, got)
		}
	}
}

func TestCaptureReplacesOnlyWhatItMatches(t *testing.T) {
	s, err := newScript("capture N \"index\":([0-9]+)\ncapture REF ref-[a-f]+\n", map[string]string{"LONG": "abc", "SHORT": "ab"})
	if err != nil {
		t.Fatal(err)
	}
	got := s.generalise(`abc ab {"index":3,"other":3} ref-aa ref-ba ref-aa`)
	want := `$LONG $SHORT {"index":$N1,"other":3} $REF1 $REF2 $REF1`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if v, _ := s.value("REF2"); v != "ref-ba" {
		t.Errorf("$REF2 is %q", v)
	}
}
