package hashref

import (
	"crypto/sha256"
	"hash"
)

// Stream takes the reference of bytes that are too many to be held at once. It is an
// io.Writer that never fails.
type Stream struct{ sum hash.Hash }

// NewStream begins one.
func NewStream() *Stream { return &Stream{sum: sha256.New()} }

// Write adds bytes.
func (s *Stream) Write(p []byte) (int, error) { return s.sum.Write(p) }

// Ref is the reference of all that was written so far.
func (s *Stream) Ref() Ref {
	r := Ref{set: true}
	s.sum.Sum(r.digest[:0])
	return r
}
