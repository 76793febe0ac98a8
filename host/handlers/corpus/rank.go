package corpus

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"ailang.dev/world/host/hashref"
)

// BM25's constants, and what a word weighs in a title and a heading beside the text.
const (
	k1            = 1.2
	b             = 0.5
	titleWeight   = 3.0
	headingWeight = 2.0
	// closeness is what two terms add that stand within closeBy words of one another.
	closeness = 0.3
	closeBy   = 4
)

// scored is a candidate with its score.
type scored struct {
	id, doc                     int64
	section, heading, text, sum string
	score                       float64
}

// nearness is which terms stand close to one another: of each term a bit for those after it.
type nearness [maxUnits]uint32

// counter counts a query's terms in texts.
type counter struct {
	stem  *stemmer
	terms []*term
	first map[string][]int // terms by the stem that begins them
	// letters are those that stems of the query begin with: a stem begins as its word does, and
	// no other word need be looked at.
	letters [256]bool
	row     []word
	near    nearness // of the texts counted last
}

func (s *searcher) counter(stem *stemmer) *counter {
	c := &counter{stem: stem, terms: s.terms, first: map[string][]int{}}
	for i, t := range s.terms {
		if t.prefix {
			for _, st := range t.any {
				c.first[st] = append(c.first[st], i)
				c.letters[st[0]] = true
			}
			continue
		}
		for _, st := range t.stems {
			c.letters[st[0]] = true
		}
		c.first[t.stems[0]] = append(c.first[t.stems[0]], i)
	}
	return c
}

// count adds weight to freq for each time that a term stands in a text.
func (c *counter) count(text string, weight float64, freq []float64, each func(from, to int)) {
	row := c.row[:0]
	scan(text, func(raw string, start, end int) {
		w := word{start: start, end: end}
		if raw[0] >= utf8.RuneSelf || c.letters[raw[0]|0x20] {
			if w.stem = c.stem.stem(raw); w.stem == "" {
				return
			}
		}
		row = append(row, w)
	})
	c.row = row
	before, place := -1, 0 // the term that was met last, and where
	for at, w := range row {
		if w.stem == "" {
			continue
		}
		for _, i := range c.first[w.stem] {
			t := c.terms[i]
			last := at
			if !t.prefix {
				if last = at + len(t.stems) - 1; last >= len(row) || !inRow(row[at:], t.stems) {
					continue
				}
			}
			freq[i] += weight
			if before >= 0 && before != i && at-place <= closeBy {
				c.near[min(before, i)] |= 1 << max(before, i)
			}
			before, place = i, last
			if each != nil {
				each(w.start, row[last].end)
			}
		}
	}
}

func inRow(row []word, stems []string) bool {
	for i, st := range stems {
		if row[i].stem != st {
			return false
		}
	}
	return true
}

// rank scores all candidates by all of the query.
func (s *searcher) rank(stem *stemmer) ([]scored, error) {
	c := s.counter(stem)
	average := 1.0
	if s.m.passages > 0 && s.m.words > 0 {
		average = float64(s.m.words) / float64(s.m.passages)
	}
	all := make([]scored, 0, len(s.ids))
	titles := map[string][]float64{}
	read := 0
	err := exec(s.c, `SELECT p.id, p.doc, p.section, p.heading, p.text, p.sum, p.length, d.title FROM passages p JOIN documents d ON d.seq = p.doc
		WHERE p.id IN (SELECT value FROM json_each(?))`, func(st *sqlite.Stmt) error {
		read++
		r := scored{id: st.ColumnInt64(0), doc: st.ColumnInt64(1), section: st.ColumnText(2), heading: st.ColumnText(3), text: st.ColumnText(4), sum: st.ColumnText(5)}
		freq, title := make([]float64, len(s.terms)), st.ColumnText(7)
		base, ok := titles[title]
		if !ok {
			base = make([]float64, len(s.terms))
			c.count(title, titleWeight, base, nil)
			titles[title] = base
		}
		copy(freq, base)
		c.count(r.heading, headingWeight, freq, nil)
		c.near = nearness{}
		c.count(r.text, 1/(1-b+b*float64(st.ColumnInt64(6))/average), freq, nil)
		if r.score = s.score(freq, c.near); r.score > 0 {
			all = append(all, r)
		}
		return nil
	}, string(hashref.MustMarshal(s.ids)))
	if err == nil && read != len(s.ids) {
		err = damaged("corpus.Search", s.name, fmt.Errorf("of %d passages %d are there", len(s.ids), read))
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(x, y scored) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.id, y.id))
	})
	return all, nil
}

// idf is how much a term says by being rare.
func (s *searcher) idf(t *term) float64 {
	return max(math.Log(1+(float64(s.m.passages)-float64(t.df)+0.5)/(float64(t.df)+0.5)), 0.01) * float64(1+t.again)
}

// score is BM25 over fields, with something for terms that stand close together, times how
// much of the query is there at all.
func (s *searcher) score(freq []float64, near nearness) float64 {
	var score, have, want float64
	for i, others := range near {
		for ; others != 0; others &= others - 1 {
			score += closeness * min(s.idf(s.terms[i]), s.idf(s.terms[bits.TrailingZeros32(others)]))
		}
	}
	for i, t := range s.terms {
		idf := s.idf(t)
		want += idf
		if freq[i] > 0 {
			have += idf
			score += idf * freq[i] * (k1 + 1) / (freq[i] + k1)
		}
	}
	if want == 0 {
		return 0
	}
	return score * (0.4 + 0.6*have/want)
}

// maxHighlights bounds what is marked in one passage.
const maxHighlights = 64

// highlights is where a text has the query's words, in order and without overlap.
func (s *searcher) highlights(stem *stemmer, text string) [][2]int {
	all := [][2]int{}
	s.counter(stem).count(text, 1, make([]float64, len(s.terms)), func(from, to int) {
		all = append(all, [2]int{from, to})
	})
	slices.SortFunc(all, func(x, y [2]int) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(y[1], x[1])) })
	kept := all[:0]
	for _, h := range all {
		if n := len(kept); n > 0 && h[0] < kept[n-1][1] {
			kept[n-1][1] = max(kept[n-1][1], h[1])
		} else if n < maxHighlights {
			kept = append(kept, h)
		}
	}
	return kept
}
