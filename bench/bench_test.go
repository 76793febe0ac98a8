package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/store/postgres/pgtest"
)

// TestMain lets the test's own binary be the servers that are measured.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && verbs[os.Args[1]] != nil {
		main()
		return
	}
	// A program built with -race rests for a second before it ends; the servers need not.
	os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	os.Exit(m.Run())
}

// TestSmoke runs every section once, against real servers: every answer is right, every
// table has its figures, and the page and the file say what was printed. It asserts no
// speed.
func TestSmoke(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	page, raw := filepath.Join(dir, "page.md"), filepath.Join(dir, "raw.json")
	if err := os.WriteFile(page, []byte("before\n"+markBegin+"old\n"+markEnd+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	args := []string{"-short", "-cache", filepath.Join(dir, "cache"), "-json", raw, "-write", page}
	if err := run(t.Context(), exe, args, &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	var rep report
	text, err := os.ReadFile(raw)
	if err == nil {
		err = json.Unmarshal(text, &rep)
	}
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, table := range rep.Tables {
		rows[table.Title] = len(table.Rows)
		for _, row := range table.Rows {
			checkRow(t, table, row)
		}
	}
	callsOfBoth := 0
	if _, ok := pgtest.Bin(); ok {
		callsOfBoth = 3
	}
	want := map[string]int{
		"PostgreSQL beside SQLite on one disk":                  callsOfBoth,
		"One caller, in flushes of its disk":                    6,
		"Many callers: World beside servers that store nothing": 8,
		"Many callers: the figures behind it":                   8,
		"Users' tasks beside calls over MCP":                    2,
		"A log of 300 entries beside one of 100":                5,
		"Asking what happened":                                  3,
		"Memory after that work":                                1,
		"Starting and resting":                                  3,
		"Starlark in a worker process beside in-process":        2,
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + markBegin + "\n" + out.String() + "\n" + markEnd + "\nafter\n"; string(written) != want {
		t.Errorf("the page holds\n%s\nwant\n%s", written, want)
	}
	left, err := filepath.Glob(filepath.Join(dir, "cache", "run-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("scratch files are left: %v, %v", left, err)
	}
}

// checkRow: a row has a cell for each column, and each figure was measured. What only
// /proc tells may be missing.
func checkRow(t *testing.T, table table, row row) {
	t.Helper()
	if len(row.Cells) != len(table.Head)-1 {
		t.Errorf("%s, %s: %d cells under %d heads", table.Title, row.Name, len(row.Cells), len(table.Head)-1)
	}
	for i, c := range row.Cells {
		head := table.Head[min(i+1, len(table.Head)-1)]
		procOnly := strings.Contains(head, "CPU") || strings.Contains(head, "KB") || strings.Contains(head, "memory") || strings.Contains(head, "MB") ||
			strings.Contains(row.Name, "MB") || row.Name == "peak"
		if c.Unit != words && len(c.Rounds) == 0 && !procOnly {
			t.Errorf("%s, %s, %s was not measured", table.Title, row.Name, head)
		}
		for _, v := range c.Rounds {
			if v <= 0 && !procOnly { // a server may use less processor time than a tick
				t.Errorf("%s, %s, %s is %v", table.Title, row.Name, head, v)
			}
		}
	}
}

// TestWrongAnswersAreNoFigures: whatever is not the answer to the very call ends a run.
func TestWrongAnswersAreNoFigures(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a status":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"another text":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"text":"0000000000000000"}`) },
		"the last text": staleEcho(),
		"nothing":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(answer)
			defer srv.Close()
			a := ask{method: http.MethodPost, path: fixed("/"), body: `{"text":"` + markNow + `"}`, want: []string{`{"text":"` + markNow + `"}`}}
			o := load(t.Context(), []*caller{newCaller(newClient(), srv.URL, a, newNumbers())}, 10*time.Millisecond, 0)
			if o.errors == 0 || o.err("call") == nil {
				t.Errorf("%d answers were taken for right, %d errors", o.calls, o.errors)
			}
		})
	}
}

// staleEcho answers each call with what the call before sent.
func staleEcho() http.HandlerFunc {
	last := []byte("{}")
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(last)
		last = body
	}
}

func TestRightAnswersAreCounted(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	defer srv.Close()
	a := ask{method: http.MethodPost, path: fixed("/"), body: markLast + " " + markNow, want: []string{markLast + " " + markNow}}
	nums := newNumbers()
	var callers []*caller
	for range 3 {
		callers = append(callers, newCaller(newClient(), srv.URL, a, nums))
	}
	o := load(t.Context(), callers, 20*time.Millisecond, 0)
	if err := o.err("echo"); err != nil || o.calls < 3 || o.calls != o.hist.TotalCount() || o.quantile(50) <= 0 || o.rate() <= 0 {
		t.Fatalf("%v, %+v", err, o)
	}
	if sent := nums.next.Load(); uint64(o.calls) != sent {
		t.Errorf("%d calls, %d numbers", o.calls, sent)
	}
}

func TestText(t *testing.T) {
	tx := newText("a " + markNow + " b " + markLast + markNow)
	for _, want := range []string{
		"a 00000000000000ff b 000000000000000000000000000000ff",
		"a fedcba9876543210 b 00000000000000fffedcba9876543210",
	} {
		var now, last uint64 = 0xff, 0
		if strings.Contains(want, "fed") {
			now, last = 0xfedcba9876543210, 0xff
		}
		if got := string(tx.set(now, last)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if len(markNow) != len(markLast) || markLen != 16 {
		t.Error("a mark is as long as a number")
	}
}

func TestCells(t *testing.T) {
	for want, c := range map[string]cell{
		"2.00":                      per(cell{micros, []float64{6, 4}, ""}, cell{micros, []float64{3, 2}, ""}),
		"2.50 (1.00–4.00)":          per(cell{micros, []float64{4, 8}, ""}, cell{micros, []float64{4, 2}, ""}),
		"3.00 (1.00–5.00)":          {ratio, []float64{5, 1, 3}, ""},
		"1.50":                      {micros, []float64{1500}, ""},
		"12.3":                      {millis, []float64{12_345_678}, ""},
		"1,234,568 (999–2,000,000)": {rate, []float64{999, 1234567.8, 2e6}, ""},
		"25.0":                      {mega, []float64{25 << 20}, ""},
		"≤ 2.5":                     say("%s", aimPure),
		"not measured here":         per(cell{Unit: micros}, cell{micros, []float64{1}, ""}),
	} {
		if got := c.String(); got != want {
			t.Errorf("%+v prints %q, want %q", c, got, want)
		}
	}
}

func TestBetween(t *testing.T) {
	for _, page := range []string{"", markBegin, markEnd, markEnd + markBegin} {
		if _, err := between([]byte(page), "x"); err == nil {
			t.Errorf("%q took it", page)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, bad := range [][]string{
		{"-rounds", "0"}, {"-slice", "0s"}, {"-entries", "1000"}, {"-only", "one,none"}, {"more"}, {"-no-such"},
	} {
		if _, err := parseOptions(bad, io.Discard); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	o, err := parseOptions([]string{"-only", "size,one", "-entries", "5000"}, io.Discard)
	if err != nil || !cmp.Equal(o.sections, []string{"size", "one"}) || o.sizes != [2]int64{usualSmall, 5000} {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestBuilds(t *testing.T) {
	for _, c := range []struct {
		opt  options
		want [][]string
	}{
		{options{}, [][]string{{"me", verbWorld, "--"}}},
		{options{worldd: "new"}, [][]string{{"new"}}},
		{options{worldd: "new", against: "old"}, [][]string{{"new"}, {"old"}}},
	} {
		b := &bench{opt: c.opt, exe: "me"}
		var got [][]string
		for _, build := range b.builds() {
			got = append(got, build.command)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestAServerThatDoesNotServe is told with what it said.
func TestAServerThatDoesNotServe(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = start(context.Background(), "nobody", []string{exe, verbRival, "nobody"})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint([]string{"mcp-go", "sdk-raw", "sdk-typed"})) {
		t.Fatalf("%v", err)
	}
}
