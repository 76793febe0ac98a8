package corpus_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ailang.dev/world/host/handlers/corpus"
)

// TestHardQueriesAreBounded: the most common words, the shortest prefixes and the longest
// queries are answered in time, from passages that have them.
func TestHardQueriesAreBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&b, `{"title":"T%d","text":"common every all`, i)
		for range 60 {
			fmt.Fprintf(&b, " %c%c%d", 'a'+r.IntN(26), 'a'+r.IntN(26), r.IntN(9))
		}
		b.WriteString(`"}` + "\n")
	}
	d := newDesk(t, map[string]string{"l.jsonl": b.String()})
	long := ""
	for c := 'a'; len(long) < corpus.MaxQuery-8; c++ {
		long += fmt.Sprintf("%c%c1 common ", 'a'+(c-'a')%26, 'a'+(c*7)%26)
	}
	for _, q := range []string{"common", "common every all", "a*", "c* e* a*", long, `"every every every every"`, `"common every" all a* b*`, strings.Repeat("a* ", 300), strings.Repeat(`"`, 1000)} {
		f := d.search(corpus.Query{Query: q, Limit: 50}) // past SearchTimeout it fails
		if strings.Contains(q, "common") && (len(f.Passages) != 50 || f.Total < 200) {
			t.Errorf("%.40q: %d passages of %d", q, len(f.Passages), f.Total)
		}
	}
}
