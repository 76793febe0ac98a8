package surface

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/world"
)

const maxTestBody = 100_000

// readBody answers with how many bytes it read within a limit, or why it read none.
func readBody(t *testing.T, limit time.Duration) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		LimitReading(w, time.Now().Add(limit))
		body, err := ReadBody(w, r, maxTestBody)
		text := fmt.Sprintf("%d bytes", len(body))
		if err != nil {
			text = world.KindOf(err).String()
		}
		Reply{Status: 200, Type: TypeText, Body: []byte(text), Close: true}.Write(w)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestReadBody reads over a real connection, also bodies that are too large, said or found
// out.
func TestReadBody(t *testing.T) {
	most, more := strings.Repeat("x", maxTestBody), strings.Repeat("x", maxTestBody+1)
	tests := []struct {
		name   string
		body   io.Reader
		length int64 // -1 is not said
		want   string
	}{
		{"none", http.NoBody, 0, "0 bytes"},
		{"most", strings.NewReader(most), maxTestBody, "100000 bytes"},
		{"most, unsaid", io.MultiReader(strings.NewReader(most)), -1, "100000 bytes"},
		{"too many", strings.NewReader(more), maxTestBody + 1, "TooLarge"},
		{"too many, unsaid", io.MultiReader(strings.NewReader(more)), -1, "TooLarge"},
	}
	server := readBody(t, time.Minute)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequest("POST", server.URL, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = tt.length
			resp, err := server.Client().Do(r)
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

// TestReadBodyTooLate: a body that stays away is waited for until the limit, and one that
// breaks off not so long.
func TestReadBodyTooLate(t *testing.T) {
	for name, tt := range map[string]struct {
		limit time.Duration
		ends  bool
		want  string
	}{"stays away": {10 * time.Millisecond, false, "Deadline"}, "breaks off": {time.Minute, true, "BadRequest"}} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", readBody(t, tt.limit).Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
			if tt.ends {
				if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
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
