package hashref

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// Ordered is the canonical JSON of a value that is canonical by construction: a struct
// whose fields stand in canonical order (by UTF-16 units, which for ASCII names is by
// bytes), holding texts, references, small integers, booleans, and JSON values that are
// canonical already. It is Marshal without the second pass, for the path of a call; a
// test of every type that is given to it holds it equal to Marshal. It panics on what
// cannot be JSON at all, such as a text that is no UTF-8.
func Ordered(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("hashref: %v", err))
	}
	return b
}

// Insert adds a member to a canonical object, in its place; the key is ASCII without
// characters that JSON escapes, and val is canonical. ok is false if the object has the
// key already, and the object is not changed.
func Insert(object []byte, key string, val []byte) (grown []byte, ok bool, err error) {
	at, first, there, err := seek(object, key)
	if err != nil || there {
		return nil, false, err
	}
	grown = make([]byte, 0, len(object)+len(key)+len(val)+4)
	grown = append(grown, object[:at]...)
	if !first {
		grown = append(grown, ',')
	}
	grown = append(append(append(append(grown, '"'), key...), '"', ':'), val...)
	if first && object[at] != '}' {
		grown = append(grown, ',')
	}
	return append(grown, object[at:]...), true, nil
}

// Has tells whether a canonical object has a member of an ASCII name.
func Has(object []byte, key string) (bool, error) {
	_, _, there, err := seek(object, key)
	return there, err
}

// seek finds where a key stands, or would, among the members of a canonical object: the
// offset after the member before it, and whether there is none before it. An ASCII key
// compares by bytes as it does by UTF-16 units.
func seek(object []byte, key string) (at int64, first, there bool, err error) {
	dec, err := open(object, '{', ErrObject)
	if err != nil {
		return 0, false, false, err
	}
	for first = true; ; first = false {
		at = dec.InputOffset()
		if dec.PeekKind() == '}' {
			return at, first, false, nil
		}
		name, err := dec.ReadToken()
		if err != nil {
			return 0, false, false, fmt.Errorf("%w: %w", ErrSyntax, err)
		}
		if n := name.String(); n >= key {
			return at, first, n == key, nil
		}
		if err := dec.SkipValue(); err != nil {
			return 0, false, false, fmt.Errorf("%w: %w", ErrSyntax, err)
		}
	}
}
