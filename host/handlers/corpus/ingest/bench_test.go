package ingest_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/corpus/ingest"
	"ailang.dev/world/host/world"
)

var texts = flag.String("texts", "", "folder of documents for the benchmark, best with 100,000 passages or more")

// shelf keeps documents' objects in memory.
type shelf struct {
	mu  sync.Mutex
	all map[world.Ref]world.Object
}

func newShelf() *shelf { return &shelf{all: map[world.Ref]world.Object{}} }

func (s *shelf) PutDocuments(_ context.Context, objects []world.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.all[o.Hash] = o
	}
	return nil
}

func (s *shelf) Object(_ context.Context, ref world.Ref) (world.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.all[ref]; ok {
		return o, nil
	}
	return world.Object{}, world.Errorf(world.KindNotFound, "shelf", "no object %s", ref)
}

// BenchmarkSearch makes a corpus of the documents of a folder and searches it. Run it as
// go test ./host/handlers/corpus/ingest -run '^$' -bench Search -benchtime 1x -args -texts DIR
func BenchmarkSearch(b *testing.B) {
	if *texts == "" {
		b.Skip("name a folder of documents with -args -texts DIR")
	}
	dir, err := filepath.Abs(*texts)
	if err != nil {
		b.Fatal(err)
	}
	lib, place := corpus.NewLibrary(b.TempDir()), b.TempDir()
	lib.Close()
	began := time.Now()
	res, err := ingest.Add(b.Context(), ingest.Request{Dir: place, Corpus: "bench", Paths: []string{dir}, Store: newShelf()})
	if err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	lib = corpus.NewLibrary(place)
	defer lib.Close()
	st, err := lib.Status(b.Context(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d documents, %d passages, %.1f MB read, index %.1f MB, added in %v: %.0f passages/s, %.1f MB/s; %d failures", res.Added, st.Passages,
		float64(res.Bytes)/1e6, float64(st.Bytes)/1e6, took.Round(time.Millisecond), float64(st.Passages)/took.Seconds(), float64(res.Bytes)/1e6/took.Seconds(), res.Failures)
	common, rare := lib.Sample(b.Context(), "bench")
	for _, k := range kinds(common, rare) {
		b.Run(k.name, func(b *testing.B) {
			var times []time.Duration
			for range max(b.N, 1) {
				times = times[:0]
				for _, q := range k.queries {
					began := time.Now()
					if _, err := lib.Search(b.Context(), "bench", corpus.Query{Query: q}); err != nil {
						b.Fatalf("%q: %v", q, err)
					}
					times = append(times, time.Since(began))
				}
			}
			slices.Sort(times)
			at := func(p int) float64 { return float64(times[(len(times)-1)*p/100].Microseconds()) / 1000 }
			b.ReportMetric(at(50), "p50-ms")
			b.ReportMetric(at(99), "p99-ms")
			b.ReportMetric(at(100), "max-ms")
		})
	}
}

type kind struct {
	name    string
	queries []string
}

// kinds are queries of each kind, out of the words of a corpus.
func kinds(common, rare []string) []kind {
	pick := func(from []string, i int) string { return from[(i*7919+i*i)%len(from)] }
	var words, question, mixed, phrase, prefix, one, hard []string
	for i := range 200 {
		words = append(words, pick(rare, i))
		mixed = append(mixed, pick(common, i)+" "+pick(rare, i+3))
		question = append(question, fmt.Sprintf("What does the %s say about %s and the %s of %s?", pick(common, i), pick(rare, i), pick(common, i+1), pick(common, i+2)))
		phrase = append(phrase, `"`+pick(common, i)+" "+pick(common, i+1)+`"`)
		prefix = append(prefix, pick(rare, i)[:3]+"*")
		one = append(one, pick(common, i))
	}
	long := ""
	for i := 0; len(long) < 1000; i++ {
		long += pick(common, i) + " "
	}
	for c := 'a'; c <= 'z'; c++ {
		hard = append(hard, string(c)+"*")
	}
	hard = append(hard, long[:1000], common[0]+" "+common[1]+" "+common[2], `"of the of the"`, "the and of", `"`+common[0]+" "+common[1]+" "+common[0]+`"`)
	return []kind{{"rare-word", words}, {"common-word", one}, {"common-and-rare", mixed}, {"question", question}, {"phrase", phrase}, {"prefix", prefix}, {"worst", hard}}
}
