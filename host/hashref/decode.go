package hashref

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads exactly one JSON value into v: member names match to the letter, unknown
// and repeated members, invalid UTF-8 and trailing values are refused. Its errors name
// the place and may be shown to the sender.
func Decode(raw []byte, v any) error {
	return json.Unmarshal(raw, v, json.RejectUnknownMembers(true))
}

// DecodeKnown is Decode, but members that v does not have are passed over: for protocols
// that senders may extend.
func DecodeKnown(raw []byte, v any) error {
	return json.Unmarshal(raw, v)
}

// Errors of Members and Items.
var (
	ErrArray  = errors.New("is not a JSON array")
	ErrRepeat = errors.New("repeats a member")
	ErrUTF8   = errors.New("is not valid UTF-8")
)

// Members splits a JSON object into its members without judging what is inside them
// beyond syntax, so that each can be judged, and refused, in its own place. A member
// repeated at this level is ErrRepeat.
func Members(raw []byte) (map[string]jsontext.Value, error) {
	dec, err := open(raw, '{', ErrObject)
	if err != nil {
		return nil, err
	}
	out := make(map[string]jsontext.Value)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
		}
		key := name.String()
		val, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
		}
		if _, again := out[key]; again {
			return nil, fmt.Errorf("%w: %q", ErrRepeat, key)
		}
		out[key] = val.Clone()
	}
	return out, end(dec)
}

// Items splits a JSON array likewise. More than max items is an error.
func Items(raw []byte, max int) ([]jsontext.Value, error) {
	dec, err := open(raw, '[', ErrArray)
	if err != nil {
		return nil, err
	}
	var out []jsontext.Value
	for dec.PeekKind() != ']' {
		if len(out) == max {
			return nil, fmt.Errorf("has more than %d items", max)
		}
		val, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
		}
		out = append(out, val.Clone())
	}
	return out, end(dec)
}

func open(raw []byte, kind jsontext.Kind, wrong error) (*jsontext.Decoder, error) {
	if !utf8.Valid(raw) {
		return nil, ErrUTF8
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if k := dec.PeekKind(); k != kind {
		if k == 0 {
			return nil, ErrSyntax
		}
		return nil, wrong
	}
	_, err := dec.ReadToken()
	return dec, err
}

// end reads the closing token and demands that nothing follows it.
func end(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one value", ErrSyntax)
	}
	return nil
}
