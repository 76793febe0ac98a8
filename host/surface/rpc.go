package surface

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
)

// The error codes of JSON-RPC 2.0.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// ID is the JSON text of a message's id as it came, a string or an integer. The zero value
// is no id, and is written as null.
type ID string

// MessageKind is which of the three messages of JSON-RPC one is.
type MessageKind int

// The kinds of messages.
const (
	Request      MessageKind = iota // a method and an id: wants an answer
	Notification                    // a method without an id: wants none
	Response                        // a result or an error of something we never asked
)

// Message is one envelope. Of a response only the kind and the id are kept.
type Message struct {
	Kind   MessageKind
	ID     ID
	Method string
	Params jsontext.Value // as it came; nil if absent
}

// Errors of ParseMessage and ParseBatch.
var (
	ErrParse   = errors.New("not JSON")
	ErrInvalid = errors.New("not a JSON-RPC 2.0 message")
)

// ParseMessage reads one envelope. Bytes that are not one JSON value are ErrParse; a value
// that is no envelope is ErrInvalid: no object, a member repeated, jsonrpc not "2.0", a
// method that is no string, or an id that is neither string nor integer. Members that are
// not of the envelope are passed over, and params are not judged.
func ParseMessage(raw []byte) (Message, error) {
	m, err := hashref.Members(raw)
	if err != nil {
		return Message{}, envelopeError(raw)
	}
	if v, ok := String(m["jsonrpc"]); !ok || v != "2.0" {
		return Message{}, ErrInvalid
	}
	id, hasID := m["id"]
	method, hasMethod := m["method"]
	if !hasMethod {
		return parseResponse(m)
	}
	msg := Message{Kind: Notification, Params: m["params"]}
	var ok bool
	if msg.Method, ok = String(method); !ok {
		return Message{}, ErrInvalid
	}
	if hasID {
		if !validID(id) {
			return Message{}, ErrInvalid
		}
		msg.Kind, msg.ID = Request, ID(id)
	}
	return msg, nil
}

// parseResponse judges an envelope without a method. An error that answers something
// unreadable carries a null id.
func parseResponse(m map[string]jsontext.Value) (Message, error) {
	_, result := m["result"]
	_, failed := m["error"]
	id, hasID := m["id"]
	if result == failed || !hasID {
		return Message{}, ErrInvalid
	}
	if failed && id.Kind() == 'n' {
		return Message{Kind: Response}, nil
	}
	if !validID(id) {
		return Message{}, ErrInvalid
	}
	return Message{Kind: Response, ID: ID(id)}, nil
}

// ParseBatch splits a JSON array into its items, unjudged. Bytes that are not JSON are
// ErrParse; no array, an empty one, and one of more than max items are ErrInvalid.
func ParseBatch(raw []byte, max int) ([]jsontext.Value, error) {
	items, err := hashref.Items(raw, max)
	if err != nil {
		return nil, envelopeError(raw)
	}
	if len(items) == 0 {
		return nil, ErrInvalid
	}
	return items, nil
}

// IsArray tells whether the first thing in raw opens an array.
func IsArray(raw []byte) bool {
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '['
}

// envelopeError tells bytes that are no JSON from JSON that is no envelope.
func envelopeError(raw []byte) error {
	if utf8.Valid(raw) && jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return ErrInvalid
	}
	return ErrParse
}

// validID admits strings, and numbers written without a fraction or an exponent: those are
// the ones that every peer reads as the integer that was meant.
func validID(v jsontext.Value) bool {
	switch v.Kind() {
	case '"':
		return true
	case '0':
		return !strings.ContainsAny(string(v), ".eE")
	}
	return false
}

// String is the text of a JSON string; false for any other value, for none, and for a
// string with a lone surrogate.
func String(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return "", false
	}
	return s, true
}

// Reason says what is wrong with a value that hashref refused, in words that follow its
// name and do not change with the decoder's.
func Reason(err error) string {
	switch {
	case errors.Is(err, hashref.ErrObject):
		return "must be a JSON object"
	case errors.Is(err, hashref.ErrDepth):
		return fmt.Sprintf("must not be nested deeper than %d levels", hashref.MaxDepth)
	case errors.Is(err, hashref.ErrNumber):
		return "must not hold a number beyond ±(2^53-1)"
	case errors.Is(err, hashref.ErrRepeat), errors.Is(err, jsontext.ErrDuplicateName):
		return "must not repeat a member"
	}
	return "must be valid JSON of valid Unicode text"
}

// Error is one JSON-RPC error.
type Error struct {
	Code    int
	Message string
	Data    jsontext.Value // nil for none
}

// Error is the message: an Error is also what a method returns that refuses.
func (e Error) Error() string { return e.Message }

// AppendResult appends a response that carries a result, which must be compact JSON.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = appendHead(dst, id)
	dst = append(dst, `"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends a response that carries an error.
func AppendError(dst []byte, id ID, e Error) []byte {
	dst = appendHead(dst, id)
	dst = append(dst, `"error":{"code":`...)
	dst = jsontext.AppendFloat(dst, float64(e.Code), 64)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, "}}"...)
}

func appendHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id == "" {
		id = "null"
	}
	dst = append(dst, id...)
	return append(dst, ',')
}

// AppendString appends a JSON string of any text; what is not UTF-8 in it is replaced.
func AppendString[T ~string | ~[]byte](dst []byte, text T) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // its error tells of the replacement alone
	return dst
}
