// Package wire plays transcripts of HTTP exchanges and compares every byte of what comes
// back. It owns the transcripts' format and nothing of what they talk to, so that one
// runner serves a handler with fakes as well as a whole daemon. It is for tests alone.
//
// A transcript is a txtar file. Its comment says what the transcript pins; lines of it
// that begin with "capture " name what differs from run to run:
//
//	capture REF sha256:[0-9a-f]{64}
//
// Then come requests, each followed by the response that it must get:
//
//	-- request --
//	POST /mcp/
//	Authorization: Bearer $TOKEN
//
//	{"jsonrpc":"2.0","id":1,"method":"ping"}
//	-- response --
//	200
//	Cache-Control: no-cache
//	Content-Type: text/event-stream
//
//	event: message
//	data: {"jsonrpc":"2.0","id":1,"result":{}}
//
// The newline that ends a section is not of the body; all others are. Response headers are
// sorted by name; Date and Content-Length are left out.
//
// Variables stand for values both ways. In a request $NAME is replaced by its value. In
// what comes back, values of the runner's variables are replaced by their $NAME wherever
// they stand, and what a capture matches (its first group, if it has one) becomes $NAME1,
// $NAME2 and so on in the order of being seen, which later requests may use. A variable
// that is "" is not looked for.
//
// With -update the responses are rewritten with what came. Read the difference like code.
package wire

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// maxResponse bounds, in bytes, a response that a transcript may hold.
const maxResponse = 64 << 20

var update = flag.Bool("update", false, "rewrite the expected responses of wire transcripts")

// Updating tells whether the tests run with -update. Other goldens share the flag by it.
func Updating() bool { return *update }

// To sends requests to a server whose URL is base.
func To(t *testing.T, client *http.Client, base string) func(*http.Request) *http.Response {
	t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return func(r *http.Request) *http.Response {
		r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
		resp, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		return resp
	}
}

// Run plays every transcript of a folder, each as a test of its own with fresh captures.
// do sends a request, whose URL has no scheme and no host yet. A folder without
// transcripts fails.
func Run(t *testing.T, dir string, do func(*http.Request) *http.Response, vars map[string]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in %s (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { Play(t, file, do, vars) })
	}
}

// Play plays one transcript.
func Play(t *testing.T, file string, do func(*http.Request) *http.Response, vars map[string]string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newScript(string(archive.Comment), vars)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := wellFormed(archive.Files); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		request, response := archive.Files[i], &archive.Files[i+1]
		got, err := s.exchange(string(request.Data), do)
		if err != nil {
			t.Fatalf("%s: request %d: %v", file, i/2+1, err)
		}
		if *update {
			response.Data = []byte(got)
			continue
		}
		if diff := gocmp.Diff(string(response.Data), got); diff != "" {
			t.Errorf("%s: response %d (-want +got):\n%s", file, i/2+1, diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// wellFormed demands requests and responses in turn.
func wellFormed(files []txtar.File) error {
	if len(files) == 0 || len(files)%2 != 0 {
		return fmt.Errorf("%d sections are no pairs of request and response", len(files))
	}
	for i, f := range files {
		if want := []string{"request", "response"}[i%2]; f.Name != want {
			return fmt.Errorf("section %d is %q, want %q", i+1, f.Name, want)
		}
	}
	return nil
}

// script is the state of one transcript.
type script struct {
	vars     map[string]string // the runner's, by name without the $
	captures []capture
	captured map[string]string // what captures found, likewise
}

type capture struct {
	name  string
	re    *regexp.Regexp
	names map[string]string // by what was found
}

var (
	captureLine = regexp.MustCompile(`(?m)^capture ([A-Z_]+) (.+)$`)
	variable    = regexp.MustCompile(`\$[A-Z_]+[0-9]*`)
)

func newScript(comment string, vars map[string]string) (*script, error) {
	s := &script{vars: vars, captured: map[string]string{}}
	for _, m := range captureLine.FindAllStringSubmatch(comment, -1) {
		re, err := regexp.Compile(m[2])
		if err != nil {
			return nil, err
		}
		s.captures = append(s.captures, capture{m[1], re, map[string]string{}})
	}
	return s, nil
}

// exchange sends one request and gives the text of its response.
func (s *script) exchange(text string, do func(*http.Request) *http.Response) (string, error) {
	var unknown []string
	text = variable.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := s.value(name[1:])
		if !ok {
			unknown = append(unknown, name)
		}
		return value
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("nothing is known as %s", strings.Join(unknown, ", "))
	}
	r, err := parseRequest(text)
	if err != nil {
		return "", err
	}
	resp := do(r)
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return "", err
	}
	return s.generalise(responseText(resp, body)), nil
}

// parseRequest reads "METHOD target", headers, an empty line and a body.
func parseRequest(text string) (*http.Request, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	lines := strings.Split(strings.TrimSuffix(head, "\n"), "\n")
	method, target, ok := strings.Cut(lines[0], " ")
	if !ok {
		return nil, fmt.Errorf("%q is no METHOD and target", lines[0])
	}
	at, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: method, URL: at, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	if body == "" {
		r.Body = http.NoBody
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("%q is no header", line)
		}
		value = strings.TrimSpace(value)
		if strings.EqualFold(name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	return r, nil
}

// responseText is a response as transcripts write it.
func responseText(resp *http.Response, body []byte) string {
	h := resp.Header.Clone()
	h.Del("Date")
	h.Del("Content-Length")
	if resp.Close {
		h.Set("Connection", "close")
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, resp.StatusCode)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(&b, "\n%s\n", body)
	}
	return b.String()
}

// generalise writes what is known by its name, and names what a capture finds.
func (s *script) generalise(text string) string {
	for _, name := range s.longestFirst() {
		text = strings.ReplaceAll(text, s.vars[name], "$"+name)
	}
	for _, c := range s.captures {
		text = s.capture(c, text)
	}
	return text
}

// capture replaces what one capture finds, where it finds it and nowhere else.
func (s *script) capture(c capture, text string) string {
	var b strings.Builder
	end := 0
	for _, m := range c.re.FindAllStringSubmatchIndex(text, -1) {
		from, to := m[0], m[1]
		if len(m) > 2 {
			from, to = m[2], m[3]
		}
		if from < end || from == to {
			continue
		}
		found := text[from:to]
		name, known := c.names[found]
		if !known {
			name = c.name + strconv.Itoa(len(c.names)+1)
			c.names[found] = name
			s.captured[name] = found
		}
		b.WriteString(text[end:from] + "$" + name)
		end = to
	}
	b.WriteString(text[end:])
	return b.String()
}

// value is what a request's variable stands for.
func (s *script) value(name string) (string, bool) {
	if v, ok := s.vars[name]; ok {
		return v, true
	}
	v, ok := s.captured[name]
	return v, ok
}

// longestFirst lists the names of what there is to look for, longest value first, so that
// no value is cut by a shorter one within it.
func (s *script) longestFirst() []string {
	var names []string
	for name, value := range s.vars {
		if value != "" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := cmp.Compare(len(s.vars[b]), len(s.vars[a])); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	return names
}
