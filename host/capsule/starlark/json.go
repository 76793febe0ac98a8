package starlark

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	star "go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"ailang.dev/world/host/capsule"
)

// Semantic limits of the json module. They decide, and are part of the identity.
const (
	MaxJSONDepth  = 128               // arrays and objects open at once; outputs may have half of it
	MaxJSONDigits = 1000              // bytes of one number
	MaxJSONBytes  = capsule.MaxOutput // bytes of a text that encode makes
	JSONStep      = 64                // bytes of JSON text that count as one step
)

var (
	errJSONDepth = fmt.Errorf("nested deeper than %d levels", MaxJSONDepth)
	errJSONBytes = fmt.Errorf("the text is longer than %d bytes", MaxJSONBytes)
)

// newJSON makes the predeclared module json. It has encode and decode with the signatures
// of go.starlark.net/lib/json, but its own code: both are bounded in depth and size, so
// that they cannot take the process's stack or memory; decode refuses repeated keys, lone
// surrogates and invalid UTF-8 instead of altering them; encode writes strings as RFC 8785
// does. Objects are encoded with their keys in bytewise order.
func newJSON() *starlarkstruct.Module {
	return &starlarkstruct.Module{Name: "json", Members: star.StringDict{
		"encode": star.NewBuiltin("json.encode", jsonEncode),
		"decode": star.NewBuiltin("json.decode", jsonDecode),
	}}
}

func jsonEncode(thread *star.Thread, b *star.Builtin, args star.Tuple, kwargs []star.Tuple) (star.Value, error) {
	var x star.Value
	if err := star.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &x); err != nil {
		return nil, err
	}
	text, err := appendJSON(nil, x, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	thread.Steps += uint64(len(text) / JSONStep)
	return star.String(text), nil
}

func appendJSON(dst []byte, x star.Value, depth int) ([]byte, error) {
	if len(dst) > MaxJSONBytes {
		return nil, errJSONBytes
	}
	if depth > MaxJSONDepth {
		return nil, errJSONDepth
	}
	switch x := x.(type) {
	case star.NoneType:
		return append(dst, "null"...), nil
	case star.Bool:
		return strconv.AppendBool(dst, bool(x)), nil
	case star.Int:
		if x.BigInt().BitLen() > 4*MaxJSONDigits {
			return nil, fmt.Errorf("an integer is longer than %d digits", MaxJSONDigits)
		}
		return append(dst, x.String()...), nil
	case star.Float:
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("cannot encode non-finite float %v", x)
		}
		return append(dst, x.String()...), nil
	case star.String:
		return appendJSONString(dst, string(x))
	case star.IterableMapping:
		return appendJSONMapping(dst, x, depth)
	case star.Iterable:
		return appendJSONArray(dst, x, depth)
	case *starlarkstruct.Struct:
		return appendJSONStruct(dst, x, depth)
	}
	return nil, fmt.Errorf("cannot encode %s as JSON", x.Type())
}

func appendJSONString(dst []byte, s string) ([]byte, error) {
	if len(dst)+len(s) > MaxJSONBytes {
		return nil, errJSONBytes
	}
	dst, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return nil, errors.New("a string is not valid UTF-8")
	}
	return dst, nil
}

func appendJSONMapping(dst []byte, m star.IterableMapping, depth int) ([]byte, error) {
	items := m.Items()
	for _, item := range items {
		if _, ok := item[0].(star.String); !ok {
			return nil, fmt.Errorf("%s has a key of type %s, want string", m.Type(), item[0].Type())
		}
	}
	sort.Slice(items, func(i, j int) bool { return items[i][0].(star.String) < items[j][0].(star.String) })
	dst = append(dst, '{')
	for i, item := range items {
		var err error
		if dst, err = appendJSONMember(dst, i, string(item[0].(star.String)), item[1], depth); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendJSONStruct(dst []byte, s *starlarkstruct.Struct, depth int) ([]byte, error) {
	dst = append(dst, '{')
	for i, name := range s.AttrNames() { // sorted
		v, err := s.Attr(name)
		if err != nil {
			return nil, err
		}
		if dst, err = appendJSONMember(dst, i, name, v, depth); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendJSONMember(dst []byte, i int, name string, v star.Value, depth int) ([]byte, error) {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst, err := appendJSONString(dst, name)
	if err != nil {
		return nil, err
	}
	return appendJSON(append(dst, ':'), v, depth+1)
}

func appendJSONArray(dst []byte, x star.Iterable, depth int) ([]byte, error) {
	iter := x.Iterate()
	defer iter.Done()
	dst = append(dst, '[')
	var elem star.Value
	for i := 0; iter.Next(&elem); i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendJSON(dst, elem, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func jsonDecode(thread *star.Thread, b *star.Builtin, args star.Tuple, kwargs []star.Tuple) (star.Value, error) {
	var text string
	var fallback star.Value
	if err := star.UnpackArgs(b.Name(), args, kwargs, "x", &text, "default?", &fallback); err != nil {
		return nil, err
	}
	if len(args) < 1 {
		return nil, fmt.Errorf("%s: x is positional only", b.Name())
	}
	thread.Steps += uint64(len(text) / JSONStep)
	v, err := decodeJSON(text)
	if err == nil {
		return v, nil
	}
	if fallback != nil {
		return fallback, nil
	}
	return nil, fmt.Errorf("%s: %w", b.Name(), err)
}

func decodeJSON(text string) (star.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBufferString(text))
	v, err := readJSON(dec, 0)
	if err != nil {
		return nil, jsonFault(dec, err)
	}
	if dec.PeekKind() != 0 {
		return nil, fmt.Errorf("more than one value, at offset %d", dec.InputOffset())
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, jsonFault(dec, err)
	}
	return v, nil
}

// jsonFault words an error itself: the texts of the JSON library are not part of the
// engine's identity, and may change.
func jsonFault(dec *jsontext.Decoder, err error) error {
	if errors.Is(err, errJSONDepth) || errors.Is(err, errJSONNumber) {
		return fmt.Errorf("%w, at offset %d", err, dec.InputOffset())
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("a repeated key, at offset %d", dec.InputOffset())
	}
	return fmt.Errorf("not a JSON text, at offset %d", dec.InputOffset())
}

var errJSONNumber = errors.New("a number out of range")

func readJSON(dec *jsontext.Decoder, depth int) (star.Value, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 'n':
		return star.None, nil
	case 't', 'f':
		return star.Bool(tok.Bool()), nil
	case '"':
		return star.String(tok.String()), nil
	case '0':
		return readJSONNumber(tok.String())
	}
	if depth == MaxJSONDepth {
		return nil, errJSONDepth
	}
	if tok.Kind() == '[' {
		return readJSONArray(dec, depth+1)
	}
	return readJSONObject(dec, depth+1)
}

func readJSONArray(dec *jsontext.Decoder, depth int) (star.Value, error) {
	var elems []star.Value
	for dec.PeekKind() != ']' {
		v, err := readJSON(dec, depth)
		if err != nil {
			return nil, err
		}
		elems = append(elems, v)
	}
	_, err := dec.ReadToken()
	return star.NewList(elems), err
}

func readJSONObject(dec *jsontext.Decoder, depth int) (star.Value, error) {
	dict := new(star.Dict)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := star.String(name.String())
		v, err := readJSON(dec, depth)
		if err != nil {
			return nil, err
		}
		if err := dict.SetKey(key, v); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return dict, err
}

// readJSONNumber keeps integers of any size exact; a fraction or an exponent makes a float.
func readJSONNumber(s string) (star.Value, error) {
	if len(s) > MaxJSONDigits {
		return nil, errJSONNumber
	}
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, errJSONNumber
		}
		return star.Float(f), nil
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, errJSONNumber
	}
	return star.MakeBigInt(n), nil
}
