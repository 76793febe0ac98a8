package corpus

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
)

// term is a unit with how common it is.
type term struct {
	unit
	any []string // what a prefix stands for
	df  int64
}

// expr is a term in the language of FTS5. Stems are letters and digits alone.
func (t *term) expr() string {
	if t.prefix {
		return `("` + strings.Join(t.any, `" OR "`) + `")`
	}
	return `"` + strings.Join(t.stems, " ") + `"`
}

// searcher is one search on its way.
type searcher struct {
	c     *sqlite.Conn
	m     meta
	name  string
	where string
	args  []any
	terms []*term
	ids   []int64
	seen  map[int64]bool
	full  bool // more was there than is ranked
}

// weigh finds how common each unit is, and leaves out those that are nowhere.
func (s *searcher) weigh(units []unit) error {
	for _, u := range units {
		t := &term{unit: u}
		var err error
		if u.prefix {
			err = s.expand(t)
		} else {
			t.df = s.m.passages
			for _, stem := range u.stems {
				n := int64(0)
				err = errors.Join(err, exec(s.c, "SELECT n FROM terms WHERE term = ?", func(st *sqlite.Stmt) error { n = st.ColumnInt64(0); return nil }, stem))
				t.df = min(t.df, n)
			}
		}
		if err != nil {
			return err
		}
		if t.df > 0 {
			s.terms = append(s.terms, t)
		}
	}
	slices.SortStableFunc(s.terms, func(a, b *term) int { return cmp.Compare(a.df, b.df) })
	return nil
}

// expand finds the words that begin with a prefix: those whose stems are shorter, and the
// most common of the first maxRange of the others.
func (s *searcher) expand(t *term) error {
	for _, stem := range t.whole {
		err := exec(s.c, "SELECT n FROM terms WHERE term = ? AND n > 0", func(st *sqlite.Stmt) error {
			t.any, t.df = append(t.any, stem), t.df+st.ColumnInt64(0)
			return nil
		}, stem)
		if err != nil {
			return err
		}
	}
	p := t.stems[0]
	return exec(s.c, `SELECT term, n FROM (SELECT term, n FROM terms WHERE term >= ? AND term < ? AND n > 0 LIMIT ?) ORDER BY n DESC, term LIMIT ?`, func(st *sqlite.Stmt) error {
		n := st.ColumnInt64(1)
		if len(t.any) == 0 || t.df+n <= rankBudget {
			t.any, t.df = append(t.any, st.ColumnText(0)), t.df+n
		} else {
			s.full = true
		}
		return nil
	}, p, p+"\U0010ffff", maxRange, maxExpand)
}

// gather finds candidates: first what has all of the query, then what has its rarest words.
func (s *searcher) gather() error {
	if len(s.terms) == 0 {
		return nil
	}
	exprs, cost := make([]string, len(s.terms)), int64(0)
	for i, t := range s.terms {
		exprs[i] = t.expr()
		cost += t.df
	}
	all := strings.Join(exprs, " AND ")
	if cost <= rankBudget {
		if err := s.match(all, true); err != nil {
			return err
		}
	} else {
		// Too common to be ranked as a whole: what has it in its title or heading goes first.
		if err := s.match("{title heading} : ("+all+")", false); err != nil {
			return err
		}
		if err := s.match(all, false); err != nil {
			return err
		}
	}
	if len(s.terms) == 1 || len(s.ids) >= MaxCandidates {
		return nil
	}
	n, cost := 0, int64(0)
	for ; n < len(s.terms) && (n == 0 || cost+s.terms[n].df <= rankBudget); n++ {
		cost += s.terms[n].df
	}
	if n < len(s.terms) {
		s.full = true
	}
	return s.match(strings.Join(exprs[:n], " OR "), cost <= rankBudget)
}

// match adds the passages that an expression finds, ranked by BM25 or in their order.
func (s *searcher) match(expr string, ranked bool) error {
	sql := "SELECT w.rowid FROM words w"
	if s.where != "" {
		sql += " JOIN passages p ON p.id = w.rowid JOIN documents d ON d.seq = p.doc"
	}
	sql += " WHERE words MATCH ?"
	if ranked {
		sql += " AND rank MATCH 'bm25(4.0, 2.0, 1.0)'"
	}
	if s.where != "" {
		sql += " AND " + s.where
	}
	if ranked {
		sql += " ORDER BY rank"
	}
	args := append([]any{expr}, s.args...)
	n := 0
	err := exec(s.c, sql+" LIMIT "+itoa(MaxCandidates+1), func(st *sqlite.Stmt) error {
		if n++; n > MaxCandidates {
			s.full = true
		} else if id := st.ColumnInt64(0); !s.seen[id] {
			s.seen[id] = true
			s.ids = append(s.ids, id)
		}
		return nil
	}, args...)
	return err
}
