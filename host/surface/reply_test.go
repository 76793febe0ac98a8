package surface

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/world"
)

// TestReadBody reads over a real connection: a body that is too large, said or found out,
// and one that does not come in time.
func TestReadBody(t *testing.T) {
	const max = 100_000
	half, send := io.Pipe()
	tests := []struct {
		name   string
		body   io.Reader
		length int64 // -1 is not said
		until  time.Duration
		want   string
	}{
		{"none", http.NoBody, 0, time.Minute, "0 bytes"},
		{"most", strings.NewReader(strings.Repeat("x", max)), max, time.Minute, "100000 bytes"},
		{"most, unsaid", io.MultiReader(strings.NewReader(strings.Repeat("x", max))), -1, time.Minute, "100000 bytes"},
		{"too many", strings.NewReader(strings.Repeat("x", max+1)), max + 1, time.Minute, "TooLarge"},
		{"too many, unsaid", io.MultiReader(strings.NewReader(strings.Repeat("x", max+1))), -1, time.Minute, "TooLarge"},
		{"too late", half, 10, -time.Second, "Deadline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answered := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				LimitReading(w, time.Now().Add(tt.until))
				body, err := ReadBody(w, r, max)
				text := fmt.Sprintf("%d bytes", len(body))
				if err != nil {
					text = world.KindOf(err).String()
				}
				Reply{Status: 200, Type: TypeText, Body: []byte(text), Close: true}.Write(w)
			}))
			defer server.Close()
			go func() { <-answered; send.Close() }()
			r, err := http.NewRequest("POST", server.URL, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = tt.length
			resp, err := server.Client().Do(r)
			close(answered)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got, _ := io.ReadAll(resp.Body); string(got) != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLimitIsLifted: a body that was read leaves no limit behind, not for the request and
// not for the next one on its connection.
func TestLimitIsLifted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const limit = 50 * time.Millisecond
		LimitReading(w, time.Now().Add(limit))
		if _, err := ReadBody(w, r, 10); err != nil {
			t.Errorf("reading: %v", err)
		}
		select {
		case <-r.Context().Done():
			t.Error("the request ended at the limit of its reading")
		case <-time.After(2 * limit):
		}
		Text(200, "done").Write(w)
	}))
	defer server.Close()
	for range 2 {
		resp, err := server.Client().Post(server.URL, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(resp.Body); string(got) != "done" {
			t.Errorf("got %q", got)
		}
		resp.Body.Close()
	}
}

// deadlineRecorder notes the deadline that writing got.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlineRecorder) SetWriteDeadline(t time.Time) error { d.until = t; return nil }

func TestReply(t *testing.T) {
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	before := time.Now()
	Reply{Status: 413, Type: TypeJSON, Body: []byte("{}"), Header: map[string]string{"X-A": "b"}, Close: true}.Write(w)
	if bound := w.until.Sub(before); bound < WriteTimeout || bound > WriteTimeout+time.Minute {
		t.Errorf("writing may take %v", bound)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Content-Length": "2", "Connection": "close", "X-A": "b", "X-Content-Type-Options": "nosniff",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if w.Code != 413 || w.Body.String() != "{}" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
