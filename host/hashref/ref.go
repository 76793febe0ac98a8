// Package hashref owns content addresses and the bytes they are taken over: sha256
// references, RFC 8785 canonical JSON, and the strict decoder for JSON that comes from
// outside. It is the one place in the tree that hashes. It does no I/O and knows no
// entity of the world. Answers spec/05-encoding.md.
package hashref

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
)

// Size is the length in bytes of a digest.
const Size = sha256.Size

// prefix is the only algorithm label a canonical reference carries.
const prefix = "sha256:"

// TextLen is the length of a reference's canonical text.
const TextLen = len(prefix) + 2*Size

// ErrRef says that a text is no canonical reference.
var ErrRef = errors.New("must be sha256: followed by 64 lower-case hexadecimal digits")

// Ref is a content address. It is comparable and may be a map key; the zero value is
// None, "no reference", whose text is "".
type Ref struct {
	digest [Size]byte
	set    bool
}

// None is the absent reference.
var None Ref

// Zero is the reference whose digest is all zero bytes: what a first log entry names as
// its predecessor.
var Zero = Ref{set: true}

// Sum is the reference of payload.
func Sum(payload []byte) Ref { return Ref{digest: sha256.Sum256(payload), set: true} }

// Summer is Sum of bytes that come piece by piece. Make one with NewSummer.
type Summer struct{ h hash.Hash }

// NewSummer begins with no bytes.
func NewSummer() *Summer { return &Summer{sha256.New()} }

// Write implements io.Writer; it never fails.
func (s *Summer) Write(p []byte) (int, error) { return s.h.Write(p) }

// Ref is the reference of what was written so far.
func (s *Summer) Ref() Ref {
	r := Ref{set: true}
	s.h.Sum(r.digest[:0])
	return r
}

// SumString is Sum of a text's bytes.
func SumString(s string) Ref { return Sum([]byte(s)) }

// FromDigest makes a reference of a digest of exactly Size bytes.
func FromDigest(d []byte) (Ref, error) {
	if len(d) != Size {
		return None, fmt.Errorf("digest has %d bytes, want %d", len(d), Size)
	}
	r := Ref{set: true}
	copy(r.digest[:], d)
	return r, nil
}

// Parse reads a canonical reference. The empty text, other algorithms, other lengths and
// upper-case digits are ErrRef.
func Parse(s string) (Ref, error) {
	if len(s) != TextLen || s[:len(prefix)] != prefix {
		return None, ErrRef
	}
	for i := len(prefix); i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return None, ErrRef
		}
	}
	r := Ref{set: true}
	if _, err := hex.Decode(r.digest[:], []byte(s[len(prefix):])); err != nil {
		return None, ErrRef
	}
	return r, nil
}

// MustParse is Parse for texts fixed in the source; it panics on a bad one.
func MustParse(s string) Ref {
	r, err := Parse(s)
	if err != nil {
		panic(fmt.Sprintf("hashref: %q %v", s, err))
	}
	return r
}

// IsNone tells whether r is the absent reference.
func (r Ref) IsNone() bool { return !r.set }

// Digest is a copy of the digest's bytes; nil for None.
func (r Ref) Digest() []byte {
	if !r.set {
		return nil
	}
	return append([]byte(nil), r.digest[:]...)
}

// AppendDigest adds the digest's bytes to b; nothing for None.
func (r Ref) AppendDigest(b []byte) []byte {
	if !r.set {
		return b
	}
	return append(b, r.digest[:]...)
}

// AppendText adds the canonical text to b; nothing for None.
func (r Ref) AppendText(b []byte) ([]byte, error) {
	if !r.set {
		return b, nil
	}
	return hex.AppendEncode(append(b, prefix...), r.digest[:]), nil
}

// Hex is the digest as 64 lower-case digits; "" for None.
func (r Ref) Hex() string {
	if !r.set {
		return ""
	}
	return hex.EncodeToString(r.digest[:])
}

// String is the canonical text; "" for None.
func (r Ref) String() string {
	if !r.set {
		return ""
	}
	return prefix + hex.EncodeToString(r.digest[:])
}

// Compare orders references by digest bytes, None first.
func (r Ref) Compare(o Ref) int {
	if r.set != o.set {
		if !r.set {
			return -1
		}
		return 1
	}
	for i := range r.digest {
		if r.digest[i] != o.digest[i] {
			if r.digest[i] < o.digest[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// MarshalText writes the canonical text.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a canonical text, or "" as None. Callers that need a reference
// check IsNone.
func (r *Ref) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*r = None
		return nil
	}
	p, err := Parse(string(b))
	if err != nil {
		return err
	}
	*r = p
	return nil
}
