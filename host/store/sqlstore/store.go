package sqlstore

import (
	"ailang.dev/world/host/store"
)

// Store is a store.Store over the rows of a Backend.
//
// Payloads handed to a write belong to the store until it is answered, and for good if
// the answer is KindTimeout or KindUncertain: the caller must not change them.
type Store struct {
	backend Backend
	writer  *writer
	hot     *hot
}

var _ store.Store = (*Store)(nil)

// New starts the writer over a backend, which it owns from now on. logf gets what an
// operator should know of failed batches; it may be nil.
func New(b Backend, hooks Hooks, logf func(format string, args ...any)) *Store {
	if logf == nil {
		logf = func(string, ...any) {}
	}
	h := newHot(b.Exclusive())
	return &Store{backend: b, writer: newWriter(b, h, hooks, logf), hot: h}
}

// ID implements store.Reader.
func (s *Store) ID() string { return s.backend.ID() }

// Close implements store.Store. It may be called again.
func (s *Store) Close() error {
	s.hot.on.Store(false)
	s.writer.close()
	return s.backend.Close()
}

// Waiting is how many operations wait for the writer.
func (s *Store) Waiting() int { return len(s.writer.queue) }
