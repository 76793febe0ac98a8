package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Bounds of one call.
const (
	callTimeout = 60 * time.Second // longer than any answer that a door gives within its deadline
	maxAnswer   = 8 << 20
	maxLabel    = 96 // bytes of what a refusal is counted under
)

// verdict is how a request ended.
type verdict int

// The verdicts. Only ok acknowledges; unknown may be an entry or not.
const (
	ok verdict = iota
	refused
	unknown
	wrong
)

// outcome is how one request ended, and what it is counted under.
type outcome struct {
	verdict verdict
	label   string
	entry   int64 // where the answer says that the call is in the log; 0 if it does not
}

var entryIndex = regexp.MustCompile(`"entry_index":"?(\d+)`)

// send sends one request and reads the answer to its end.
func (t *traffic) send(ctx context.Context, k *kind, n uint64) outcome {
	q := k.make(t, n)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, q.method, t.url+q.path, strings.NewReader(q.body))
	if err != nil {
		return outcome{verdict: wrong, label: err.Error()}
	}
	req.Header = q.header
	resp, err := t.client.Do(req)
	if err != nil {
		return broken(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return broken(err)
	}
	return judge(resp.StatusCode, body, q.want)
}

// broken is a request whose answer never came whole. The daemon may have made it an entry.
func broken(err error) outcome {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return outcome{verdict: unknown, label: fmt.Sprintf("no answer within %v", callTimeout)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return outcome{verdict: unknown, label: "the connection was closed"}
	}
	text := err.Error()
	for _, known := range []string{"connection reset by peer", "connection refused", "broken pipe", "server closed idle connection", "cannot assign requested address", "too many open files"} {
		if strings.Contains(text, known) {
			return outcome{verdict: unknown, label: known}
		}
	}
	return outcome{verdict: unknown, label: label(text)}
}

// mayStand are the refusals after which a call may be an entry all the same.
var mayStand = []string{"timed out", "canceled", "exceeded its deadline", "not confirmed", "is not known", "CommitUncertain"}

// judge tells an answer from a refusal.
func judge(status int, body []byte, want string) outcome {
	if status == http.StatusOK && bytes.Contains(body, []byte(want)) {
		o := outcome{}
		if m := entryIndex.FindSubmatch(body); m != nil {
			o.entry, _ = strconv.ParseInt(string(m[1]), 10, 64)
		}
		return o
	}
	why, shaped := refusal(body)
	text := label(fmt.Sprintf("%d %s", status, why))
	switch {
	case !shaped:
		return outcome{verdict: wrong, label: text}
	case containsAny(why, mayStand):
		return outcome{verdict: unknown, label: text}
	}
	return outcome{verdict: refused, label: text}
}

func containsAny(text string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// refusal reads an answer that is a JSON-RPC error, in an event stream or not, or a REST
// error. Anything else is no refusal: it is an answer that is wrong.
func refusal(body []byte) (why string, shaped bool) {
	text := bytes.TrimSpace(body)
	for line := range bytes.Lines(text) {
		if data, found := bytes.CutPrefix(line, []byte("data:")); found {
			text = data
		}
	}
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.Error == nil {
		return label(string(text)), false
	}
	var rpc struct {
		Code    any    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(answer.Error, &rpc) == nil && rpc.Code != nil {
		if _, number := rpc.Code.(float64); !number {
			return fmt.Sprint(rpc.Code), true
		}
		return fmt.Sprintf("%v %s", rpc.Code, rpc.Message), true
	}
	return label(string(answer.Error)), true
}

// label shortens a text to what is counted under it.
func label(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxLabel {
		text = text[:maxLabel] + "…"
	}
	return text
}
