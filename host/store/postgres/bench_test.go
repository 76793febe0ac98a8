package postgres

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/store/storetest"
)

// BenchmarkCalls appends calls by one caller and by 64, to a file and to a database whose
// cluster is on the same disk: ns/op is the time of a call.
func BenchmarkCalls(b *testing.B) {
	opens := map[string]func(b *testing.B) store.Store{
		"sqlite": func(b *testing.B) store.Store {
			s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(b.TempDir(), "w.db")})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
		"postgres": func(b *testing.B) store.Store {
			s, err := Open(ctx, Options{URL: cluster.URL(cluster.Database(b))})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
	}
	for _, name := range []string{"sqlite", "postgres"} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, callers), func(b *testing.B) {
				s := opens[name](b)
				defer s.Close()
				if _, err := s.Commit(ctx, storetest.Genesis()); err != nil {
					b.Fatal(err)
				}
				var next atomic.Int64
				b.ResetTimer()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
							if _, err := s.Append(ctx, storetest.Call(fmt.Sprint(n))); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
