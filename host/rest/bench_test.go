package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"ailang.dev/world/host/rest"
	"ailang.dev/world/host/store"
)

// BenchmarkLargestCommit is the decoding of a body of MaxBody bytes; the store does
// nothing.
func BenchmarkLargestCommit(b *testing.B) {
	s := newServer(b, setup{wrap: func(st store.Store) store.Store {
		return committing{st, func(_ context.Context, c store.Commit) (store.Committed, error) {
			return store.Committed{World: c.NextWorld}, nil
		}}
	}})
	raw := sized(b, rest.MaxBody)
	b.SetBytes(rest.MaxBody)
	b.ReportAllocs()
	for b.Loop() {
		req := s.request(http.MethodPost, "/v1/commit", strings.NewReader(raw))
		req.Header.Set("Authorization", "Bearer "+s.cred)
		if r := s.do(req); r.status != http.StatusOK {
			b.Fatalf("%d %s", r.status, r.body)
		}
	}
}
