package surface

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/hashref"
)

func TestParseMessage(t *testing.T) {
	tests := []struct {
		raw  string
		want Message
		err  error
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"m"}`, Message{Kind: Request, ID: "1", Method: "m"}, nil},
		{` {"method":"m","params":{"a":1,"a":2},"x":null,"id":"\u0041","jsonrpc":"\u0032.0"}`,
			Message{Kind: Request, ID: `"\u0041"`, Method: "m", Params: []byte(`{"a":1,"a":2}`)}, nil},
		{`{"jsonrpc":"2.0","id":"\ud800","method":"m"}`, Message{Kind: Request, ID: `"\ud800"`, Method: "m"}, nil},
		{`{"jsonrpc":"2.0","method":"m","params":null}`, Message{Kind: Notification, Method: "m", Params: []byte("null")}, nil},
		{`{"jsonrpc":"2.0","id":1,"result":null}`, Message{Kind: Response, ID: "1"}, nil},
		{`{"jsonrpc":"2.0","id":null,"error":{}}`, Message{Kind: Response}, nil},
		{`{"jsonrpc":"2.0","id":[],"error":{}}`, Message{}, ErrInvalid},
		{`{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, Message{}, ErrInvalid},
		{`{"jsonrpc":"2.0","id":-0,"method":"m"}`, Message{Kind: Request, ID: "-0", Method: "m"}, nil},
		{`{"jsonrpc":"2.0","id":1E2,"method":"m"}`, Message{}, ErrInvalid},
		{`{"jsonrpc":"2.0","\u0069d":1,"id":1,"method":"m"}`, Message{}, ErrInvalid},
		{"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"m\"}", Message{}, ErrParse},
		{"\ufeff{}", Message{}, ErrParse},
		{`[{"jsonrpc":"2.0","id":1,"method":"m"}]`, Message{}, ErrInvalid},
		{strings.Repeat("[", 1<<20), Message{}, ErrParse},
	}
	for _, tt := range tests {
		got, err := ParseMessage([]byte(tt.raw))
		if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) {
			t.Errorf("%.80s: %v (-want +got):\n%s", tt.raw, err, diff)
		}
	}
}

func TestParseBatch(t *testing.T) {
	for raw, want := range map[string]error{
		`[]`: ErrInvalid, `[1,2,3]`: ErrInvalid, `[1,2]`: nil, ` [ {"a":1,"a":2} ] `: nil, `[1`: ErrParse, `[1,2,3`: ErrParse, `{}`: ErrInvalid,
	} {
		if items, err := ParseBatch([]byte(raw), 2); !errors.Is(err, want) || (err == nil) != (len(items) > 0) {
			t.Errorf("%s: %d items, %v; want %v", raw, len(items), err, want)
		}
	}
}

func TestReason(t *testing.T) {
	for raw, want := range map[string]string{
		`[]`:                                 "must be a JSON object",
		`{"a":1,"a":1}`:                      "must not repeat a member",
		`{"a":{"b":1,"b":1}}`:                "must not repeat a member",
		`{"a":1e300}`:                        "must not hold a number beyond ±(2^53-1)",
		`{"a":"\udc00"}`:                     "must be valid JSON of valid Unicode text",
		`{"a":` + strings.Repeat("[", 64):    "must not be nested deeper than 64 levels",
		`{"a":` + strings.Repeat(`{"a":`, 9): "must be valid JSON of valid Unicode text",
	} {
		_, err := hashref.CanonicalObject([]byte(raw))
		if got := Reason(err); got != want {
			t.Errorf("%s (%v): %q, want %q", raw, err, got, want)
		}
	}
	if _, err := hashref.Members([]byte(`{"a":1,"a":1}`)); Reason(err) != "must not repeat a member" {
		t.Errorf("members: %v", err)
	}
}

func TestAppendError(t *testing.T) {
	got := AppendError([]byte("x"), "", Error{Code: -32000, Message: "a\"b\n<\xff>", Data: []byte(`{"a":1}`)})
	want := "x" + `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"a\"b\n<` + "\ufffd" + `>","data":{"a":1}}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzParseMessage states what an envelope's reader promises: it refuses nothing as not
// JSON that is JSON and takes nothing that is not; and what it echoes as the id of a
// request is, byte for byte, the one member of that name, whatever else stands in it.
func FuzzParseMessage(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, `{"jsonrpc":"2.0","id":"a\u0000","method":""}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"m","x":[{"id":2}]}`, `{"jsonrpc":"2.0","id":1,"id":2}`, `[]`, `{`, `{"jsonrpc":"2.0","id":1,"result":1}`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"m"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		msg, err := ParseMessage(raw)
		if isJSON := json.Valid(raw) && utf8.Valid(raw); errors.Is(err, ErrParse) == isJSON {
			t.Fatalf("is JSON: %v, but %v", isJSON, err)
		}
		if err != nil || msg.Kind != Request {
			return
		}
		var envelope map[string]json.RawMessage
		if err := json.Unmarshal(raw, &envelope); err != nil {
			t.Fatal(err)
		}
		if string(envelope["id"]) != string(msg.ID) {
			t.Fatalf("id %s, echoed as %s", envelope["id"], msg.ID)
		}
		if n, ok := strings.CutPrefix(string(msg.ID), "-"); msg.ID[0] != '"' {
			if digits := strings.Trim(n, "0123456789"); digits != "" {
				t.Fatalf("id %s is no integer (%v)", msg.ID, ok)
			}
		}
		answer := AppendResult(nil, msg.ID, []byte("{}"))
		if !json.Valid(answer) || bytes.ContainsAny(answer, "\r\n") {
			t.Fatalf("answer %q", answer)
		}
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, msg.ID); string(answer) != want {
			t.Fatalf("answer %s, want %s", answer, want)
		}
	})
}
