package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test's own binary be the daemon that is put under load.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == verbWorld || os.Args[1] == verbWorker) {
		main()
		return
	}
	os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	os.Exit(m.Run())
}

// TestSmoke runs every part against a real daemon: nothing is lost, repeated or wrong, the
// store proves itself, and the files say what was printed. It asserts no speed.
func TestSmoke(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lt") // short: a socket's path has few bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	prefix := filepath.Join(dir, "out", "smoke")
	args := []string{"-scratch", dir, "-sessions", "4", "-users", "2", "-callers", "8", "-warm", "200ms", "-slice", "500ms", "-hold", "1s", "-overload", "500ms", "-recovery", "2s",
		"-factors", "2", "-window", "250ms", "-out", prefix, "-title", "Smoke", "-json"}
	var out, log bytes.Buffer
	if err := run(t.Context(), exe, args, &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	var sum summary
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range sum.Parts {
		names = append(names, p.Name)
		if p.Tally.OK == 0 || p.P50 == 0 || p.Max < p.P99 {
			t.Errorf("part %+v", p)
		}
	}
	if diff := cmp.Diff([]string{partWarm, partCapacity, partHold, "overload ×2", "after ×2"}, names); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	for i, k := range kinds() {
		answered := int64(0)
		for _, p := range sum.Parts {
			answered += p.Kinds[i].Tally.OK
		}
		if answered == 0 {
			t.Errorf("no %s was answered", k.name)
		}
	}
	a := sum.Account
	if a.Acknowledged == 0 || a.Named == 0 || a.After-a.Before < a.Acknowledged || !strings.Contains(a.Verified, "links hold") {
		t.Errorf("account %+v", a)
	}
	if len(sum.Samples) == 0 || sum.Samples[0].Open == 0 || sum.Samples[0].Resident == 0 || sum.Samples[0].Goroutines == 0 || sum.Samples[0].Entries == 0 {
		t.Errorf("samples %+v", sum.Samples)
	}
	for _, end := range []string{".md", ".json", "-latency.svg", "-rate.svg", "-curve.svg"} {
		text, err := os.ReadFile(prefix + end)
		if err != nil || len(text) == 0 || bytes.Contains(text, []byte(dir)) {
			t.Errorf("%s: %d bytes, %v; it must not name a place of this machine", end, len(text), err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "load-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("what was made stays: %v %v", left, err)
	}
}

// TestJudge: only an answer that holds the call's own number acknowledges it; a refusal is
// told from what may have been done, and from an answer that is wrong.
func TestJudge(t *testing.T) {
	const want = `"text":"00ff"`
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   outcome
	}{
		{"answered", 200, `{"result":{"text":"00ff"}}`, outcome{}},
		{"answered in a stream", 200, "event: message\ndata: {\"result\":{\"text\":\"00ff\"}}\n\n", outcome{}},
		{"with its entry", 200, `{"text":"00ff","metadata":{"entry_index":41}}`, outcome{entry: 41}},
		{"with its entry as a text", 200, `{"text":"00ff","metadata":{"entry_index":"42"}}`, outcome{entry: 42}},
		{"another's answer", 200, `{"result":{"text":"00fe"}}`, outcome{verdict: wrong, label: `200 {"result":{"text":"00fe"}}`}},
		{"answered with a wrong status", 500, `{"text":"00ff"}`, outcome{verdict: wrong, label: `500 {"text":"00ff"}`}},
		{"no room", 200, `{"id":1,"error":{"code":-32603,"message":"host callback capacity exceeded"}}`, outcome{verdict: refused, label: "200 -32603 host callback capacity exceeded"}},
		{"no room, in a stream", 200, "data: {\"error\":{\"code\":-32603,\"message\":\"host callback capacity exceeded\"}}\n", outcome{verdict: refused, label: "200 -32603 host callback capacity exceeded"}},
		{"rate", 429, `{"error":{"code":-32003,"message":"Rate limit exceeded: try again in 1 s"}}`, outcome{verdict: refused, label: "429 -32003 Rate limit exceeded: try again in 1 s"}},
		{"rest", 503, `{"error":{"code":"Timeout","message":"late"}}`, outcome{verdict: refused, label: "503 Timeout"}},
		{"late", 200, `{"error":{"code":-32603,"message":"host callback timed out"}}`, outcome{verdict: unknown, label: "200 -32603 host callback timed out"}},
		{"uncertain", 503, `{"error":{"code":"CommitUncertain"}}`, outcome{verdict: unknown, label: "503 CommitUncertain"}},
		{"a page of a proxy", 502, "<html>", outcome{verdict: wrong, label: "502 <html>"}},
		{"nothing", 200, "", outcome{verdict: wrong, label: "200"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(tt.status, []byte(tt.body), want); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestBrokenIsUnknown: a call whose answer did not come may be an entry.
func TestBrokenIsUnknown(t *testing.T) {
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, errors.New("read tcp: connection reset by peer"), errors.New("anything else")} {
		if o := broken(err); o.verdict != unknown || o.label == "" {
			t.Errorf("%v: %+v", err, o)
		}
	}
}

// TestAccount: what was lost, done twice or is of someone else is told.
func TestAccount(t *testing.T) {
	for _, tt := range []struct {
		name string
		a    account
		err  string
	}{
		{"even", account{Before: 5, After: 15, Acknowledged: 10}, ""},
		{"one of unknown end is one", account{Before: 5, After: 16, Acknowledged: 10, Unknown: 3}, ""},
		{"lost", account{Before: 5, After: 14, Acknowledged: 10, Unknown: 3}, "LOST"},
		{"too many", account{Before: 5, After: 19, Acknowledged: 10, Unknown: 3}, "does anybody else call"},
		{"twice", account{After: 10, Acknowledged: 10, Twice: 1}, "named by two"},
		{"of before", account{After: 10, Acknowledged: 10, Outside: 1}, "not of this run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.a.err(); (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
	var l ledger
	for _, o := range []outcome{{entry: 7}, {entry: 8}, {entry: 8}, {entry: 99}, {entry: 1 << 60}, {}, {verdict: unknown}, {verdict: refused}} {
		l.add(o)
	}
	want := account{Before: 7, After: 20, Acknowledged: 6, Unknown: 1, Named: 3, Twice: 1, Outside: 2}
	if diff := cmp.Diff(want, l.account(7, 20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// stalling answers each request after a second, one at a time.
type stalling struct{}

func (stalling) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Second)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("<svg"))}, nil
}

// TestTimeRunsFromWhenACallWasDue: a server that stalls delays calls that were not sent yet,
// and their times say so; what was not sent at the end is counted.
func TestTimeRunsFromWhenACallWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mix, err := parseMix("workbench=1")
		if err != nil {
			t.Fatal(err)
		}
		tr := newTraffic(mix, 0, 1)
		tr.client.Transport, tr.sessions = stalling{}, []http.Header{{}}
		rec := newRecorder(time.Now(), time.Second, 1)
		f := tr.open(t.Context(), rec, 20, 1, 10*time.Second)
		f.wait()
		got := rec.total()
		// One a second is served of some 20 that come due: who is served after nine seconds was due
		// in the first.
		if got.OK < 9 || got.OK > 11 || got.OK+f.unsent != f.due || f.due < 100 {
			t.Errorf("%+v of %d due, %d not sent", got, f.due, f.unsent)
		}
		if h := rec.whole(); h.Max() < 8_000_000 || h.Min() < 999_000 {
			t.Errorf("times from %d to %d µs", h.Min(), h.Max())
		}
	})
}

// TestRecovered: an overload is over when several windows in a row are as before it.
func TestRecovered(t *testing.T) {
	window := func(i int, refused, p99 int64) point {
		return point{At: 10 + float64(i+1)*fine.Seconds(), OK: 1, Refused: refused, P99: p99}
	}
	var calmly, slowly, never []point
	for i := range 12 {
		calmly = append(calmly, window(i, 0, 50))
		late := int64(50)
		if i < 3 {
			late = 5000
		}
		slowly = append(slowly, window(i, 0, late))
		never = append(never, window(i, int64(i%4), 50))
	}
	for _, tt := range []struct {
		name   string
		points []point
		want   float64
	}{{"at once", calmly, 0}, {"after three windows", slowly, 750}, {"never", never, -1}} {
		if got := recovered(tt.points, 10*time.Second, 100); got != tt.want {
			t.Errorf("%s: %v ms, want %v", tt.name, got, tt.want)
		}
	}
}

// TestOptions: what cannot be done is refused before anything begins.
func TestOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-parts", "soak"}, {"-parts", "hold"}, {"-mix", "mcp-echo"}, {"-mix", "nobody=1"}, {"-factors", "0"}, {"-sessions", "0"}, {"-callers", "100000"},
		{"-hold", "0s"}, {"-share", "2"}, {"-rate", "-1"}, {"-db", "w.db", "-mix", "task=1"}, {"further"},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
	o, err := parseOptions([]string{"-db", "w.db", "-parts", "hold", "-rate", "5"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range o.mix {
		if k.user {
			t.Errorf("%s is sent without a plan for users", k.name)
		}
	}
}

// TestSteady: rates rise until one is not borne, and four fifths of the last are held.
func TestSteady(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	args := []string{"-scratch", dir, "-parts", "capacity,steady,hold", "-mix", "mcp-list=1", "-sessions", "2", "-callers", "2", "-warm", "200ms", "-slice", "300ms", "-hold", "300ms", "-window", "100ms", "-verify=false", "-json"}
	var out, log bytes.Buffer
	if err := run(t.Context(), exe, args, &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	var sum summary
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
		t.Fatal(err)
	}
	held := sum.Parts[len(sum.Parts)-1]
	if sum.Steady < steadyFrom*sum.Capacity || sum.Steady > 1.001*sum.Capacity || held.Name != partHold || held.Rate != sum.Steady*usualShare {
		t.Errorf("capacity %v, steady %v, held %+v", sum.Capacity, sum.Steady, held)
	}
}
