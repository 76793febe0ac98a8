package hashref

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how many arrays and objects may be open at once in a JSON value that is
// hashed or returned.
const MaxDepth = 64

// MaxInt is the largest magnitude of a number in such a value: beyond it doubles, and so
// RFC 8785, cannot tell neighbouring integers apart.
const MaxInt = 1<<53 - 1

// Errors of Canonical. Each is wrapped with the place where it was found.
var (
	ErrSyntax = errors.New("is not valid JSON")
	ErrDepth  = fmt.Errorf("is nested deeper than %d levels", MaxDepth)
	ErrNumber = fmt.Errorf("holds a number beyond ±(2^53-1)")
	ErrObject = errors.New("is not a JSON object")
)

// Canonical is the RFC 8785 form of one JSON value. Duplicate keys, invalid UTF-8, lone
// surrogates, trailing bytes, more than MaxDepth levels and numbers beyond MaxInt are
// refused. Canonical of its own result is that result. The input is not changed.
func Canonical(raw []byte) ([]byte, error) {
	if err := checkLaws(raw); err != nil {
		return nil, err
	}
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return v, nil
}

// CanonicalObject is Canonical, and refuses what is not an object with ErrObject.
func CanonicalObject(raw []byte) ([]byte, error) {
	c, err := Canonical(raw)
	if err != nil {
		return nil, err
	}
	if c[0] != '{' {
		return nil, ErrObject
	}
	return c, nil
}

// Marshal is the canonical JSON of a Go value.
func Marshal(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Canonical(raw)
}

// MustMarshal is Marshal for values that cannot fail: structs of strings, references and
// small integers. It panics otherwise.
func MustMarshal(v any) []byte {
	b, err := Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("hashref: %v", err))
	}
	return b
}

// checkLaws reads every token once, for the laws that canonicalisation itself does not
// enforce: depth and the range of numbers.
func checkLaws(raw []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for first := true; first || dec.StackDepth() > 0; first = false {
		tok, err := dec.ReadToken()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrSyntax, err)
		}
		if dec.StackDepth() > MaxDepth {
			return ErrDepth
		}
		if tok.Kind() == '0' {
			f, err := strconv.ParseFloat(tok.String(), 64)
			if err != nil || math.Abs(f) > MaxInt {
				return ErrNumber
			}
		}
	}
	return nil
}
