package rest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// The scalars of a commit's body. Each knows whether it was there at all, so that a missing
// member is told apart from an empty one, and null is taken for neither. Their errors
// continue a field's path: "must be …".
type (
	text struct {
		given bool
		s     string
	}
	// reference is a content address or "", which the checker may allow.
	reference struct {
		given bool
		ref   world.Ref
	}
	integer struct {
		given bool
		n     int64
	}
	octets struct {
		given bool
		b     []byte
	}
)

var (
	errString  = errors.New("must be a string")
	errInteger = fmt.Errorf("must be an integer from 0 to %d, written in digits alone", int64(hashref.MaxInt))
	errBase64  = errors.New("must be standard base64 with padding and no line breaks")
)

func (t *text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s, err := readString(dec)
	if err != nil {
		return err
	}
	*t = text{true, string(s)}
	return nil
}

func (r *reference) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s, err := readString(dec)
	if err != nil {
		return err
	}
	*r = reference{given: true}
	if len(s) == 0 {
		return nil
	}
	r.ref, err = hashref.Parse(string(s))
	return err
}

// UnmarshalJSONFrom takes the digits as they stand: 1.0 and 1e3 are integers to some
// readers and fractions to others, and what is hashed must mean one thing.
func (i *integer) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	digits := string(raw)
	if strings.Trim(digits, "0123456789") != "" {
		return errInteger
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > hashref.MaxInt {
		return errInteger
	}
	*i = integer{true, n}
	return nil
}

func (o *octets) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s, err := readString(dec)
	if err != nil {
		return err
	}
	// The standard decoder skips line breaks; two texts of one payload are one too many.
	if bytes.ContainsAny(s, "\r\n") {
		return errBase64
	}
	b := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
	n, err := base64.StdEncoding.Strict().Decode(b, s)
	if err != nil {
		return errBase64
	}
	*o = octets{true, b[:n]}
	return nil
}

// readString gives a string's content. The slice may alias the decoder's input and holds
// only until it is read again.
func readString(dec *jsontext.Decoder) ([]byte, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if raw.Kind() != '"' {
		return nil, errString
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	return jsontext.AppendUnquote(nil, raw)
}
