package corpus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of a search.
const (
	MaxLimit      = 50  // passages of one answer
	DefaultLimit  = 10  // unless told otherwise
	MaxCandidates = 200 // passages that are ranked; the pages of a search end there
	MaxFilter     = 256 // bytes of a filter
	SearchTimeout = 5 * time.Second

	// rankBudget is how many places of words SQLite ranks by: of a query's words the rarest are
	// taken up to this, and the common ones only weigh among what those found.
	rankBudget = 6_000
	// maxExpand and maxRange bound which words a prefix stands for.
	maxExpand = 48
	maxRange  = 2000
)

// Filters narrow a search. Author and title are parts of a field, without case and
// diacritics; the rest is exact. From and to are dates, YYYY[-MM[-DD]], and include their end.
type Filters struct {
	Author   string `json:"author,omitzero"`
	Title    string `json:"title,omitzero"`
	Kind     string `json:"kind,omitzero"`
	Document string `json:"document,omitzero"` // an id, or its object's reference
	From     string `json:"from,omitzero"`
	To       string `json:"to,omitzero"`
}

// Query is one search.
type Query struct {
	Query   string  `json:"query"`
	Limit   int     `json:"limit,omitzero"`
	Cursor  string  `json:"cursor,omitzero"`
	Filters Filters `json:"filters,omitzero"`
}

// Passage is one that was found.
type Passage struct {
	Document   string   `json:"document"`
	Ref        string   `json:"ref"`
	Title      string   `json:"title"`
	Author     string   `json:"author"`
	Date       string   `json:"date"`
	Kind       string   `json:"kind"`
	Section    string   `json:"section"`
	Heading    string   `json:"heading"`
	Text       string   `json:"text"`
	Highlights [][2]int `json:"highlights"` // from and to, in characters of the text
	Score      string   `json:"score"`
	Link       string   `json:"link"`
}

// Found is the answer to a search. Total is exact below MaxCandidates, and else a lower
// bound.
type Found struct {
	Passages []Passage `json:"passages"`
	Next     string    `json:"next"`
	Total    int64     `json:"total"`
}

// check holds a query to its form.
func (q *Query) check() error {
	bad := func(format string, args ...any) error {
		return world.Errorf(world.KindBadRequest, "corpus.Search", format, args...)
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	switch f := q.Filters; {
	case strings.TrimSpace(q.Query) == "" || len(q.Query) > MaxQuery:
		return bad("query must be 1 to %d bytes", MaxQuery)
	case q.Limit < 1 || q.Limit > MaxLimit:
		return bad("limit must be from 1 to %d", MaxLimit)
	case len(q.Cursor) > maxCursor:
		return bad("cursor is longer than any that was given")
	case len(f.Author) > MaxFilter || len(f.Title) > MaxFilter || len(f.Kind) > MaxFilter || len(f.Document) > MaxFilter:
		return bad("a filter must be at most %d bytes", MaxFilter)
	case f.From != "" && !validDate(f.From), f.To != "" && !validDate(f.To):
		return bad("filters.from and filters.to must be dates, YYYY, YYYY-MM or YYYY-MM-DD")
	case f.From != "" && f.To != "" && f.From > f.To+"~":
		return bad("filters.from is after filters.to")
	}
	return nil
}

// where is the filters as a condition on documents, with its arguments.
func (f Filters) where() (string, []any) {
	var conds []string
	var args []any
	add := func(cond string, arg ...any) { conds, args = append(conds, cond), append(args, arg...) }
	if f.Author != "" {
		add("instr(substr(d.folded, instr(d.folded, char(10))), ?) > 0", foldLine(strings.TrimSpace(f.Author)))
	}
	if f.Title != "" {
		add("instr(substr(d.folded, 1, instr(d.folded, char(10))), ?) > 0", foldLine(strings.TrimSpace(f.Title)))
	}
	if f.Kind != "" {
		add("d.kind = ?", f.Kind)
	}
	if f.Document != "" {
		add("(d.id = ? OR d.ref = ?)", f.Document, f.Document)
	}
	const isDate = "d.date GLOB '[0-9][0-9][0-9][0-9]*'"
	if f.From != "" {
		add(isDate+" AND d.date >= substr(?, 1, length(d.date))", f.From)
	}
	if f.To != "" {
		add(isDate+" AND substr(d.date, 1, length(?)) <= ?", f.To, f.To)
	}
	return strings.Join(conds, " AND "), args
}

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

// Search finds passages, best first.
func (l *Library) Search(ctx context.Context, name string, q Query) (*Found, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, SearchTimeout)
	defer cancel()
	found := &Found{Passages: []Passage{}}
	err := l.read(ctx, "corpus.Search", name, func(c *sqlite.Conn, m meta) error {
		offset, err := openCursor(name, m, &q)
		if err != nil {
			return err
		}
		stem := l.stems.Get().(*stemmer)
		defer l.stems.Put(stem)
		s := &searcher{c: c, m: m, name: name, seen: map[int64]bool{}}
		s.where, s.args = q.Filters.where()
		if err := s.weigh(parseQuery(stem, q.Query)); err != nil {
			return err
		}
		if err := s.gather(); err != nil {
			return err
		}
		ranked, err := s.rank(stem)
		if err != nil {
			return err
		}
		found.Total = s.total(len(ranked))
		page := ranked[min(offset, len(ranked)):min(offset+q.Limit, len(ranked))]
		if end := offset + len(page); end < len(ranked) {
			found.Next = sealCursor(name, m, &q, end)
		}
		for _, r := range page {
			p, err := s.passage(stem, r)
			if err != nil {
				return err
			}
			found.Passages = append(found.Passages, p)
		}
		return nil
	})
	return found, err
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

// total is how many passages there are, or a lower bound.
func (s *searcher) total(ranked int) int64 {
	n := int64(ranked)
	if s.full && s.where == "" {
		for _, t := range s.terms {
			if len(t.stems) == 1 && !t.prefix {
				n = max(n, t.df) // what has the most common word is found
			}
		}
	}
	return n
}

// passage reads what is shown of a passage, and proves it.
func (s *searcher) passage(stem *stemmer, r scored) (Passage, error) {
	p := Passage{Section: r.section, Heading: r.heading, Text: r.text, Score: strconv.FormatFloat(r.score, 'f', 4, 64)}
	if sum(r.section, r.heading, r.text) != r.sum {
		return p, damaged("corpus.Search", s.name, fmt.Errorf("passage %d does not prove itself", r.id))
	}
	found := false
	err := exec(s.c, "SELECT id, ref, title, author, date, kind, link, sum FROM documents WHERE seq = ?", func(st *sqlite.Stmt) error {
		found = true
		d := readShown(st)
		if !d.proved {
			return damaged("corpus.Search", s.name, fmt.Errorf("document %q does not prove itself", d.ID))
		}
		p.Document, p.Ref, p.Title, p.Author, p.Date, p.Kind, p.Link = d.ID, d.Ref, d.Title, d.Author, d.Date, d.Kind, d.Link
		return nil
	}, r.doc)
	if err == nil && !found {
		err = damaged("corpus.Search", s.name, fmt.Errorf("passage %d has no document", r.id))
	}
	p.Highlights = s.highlights(stem, r.text)
	return p, err
}

// Shown is what is told of a document.
type Shown struct {
	ID     string `json:"document"`
	Ref    string `json:"ref"`
	Title  string `json:"title"`
	Author string `json:"author"`
	Date   string `json:"date"`
	Kind   string `json:"kind"`
	Link   string `json:"link"`
	proved bool
}

// objectRoute is where a document without a link of its own is read.
const objectRoute = "/v1/objects/"

func readShown(st *sqlite.Stmt) Shown {
	c := func(i int) string { return st.ColumnText(i) }
	d := Shown{ID: c(0), Ref: c(1), Title: c(2), Author: c(3), Date: c(4), Kind: c(5), Link: c(6)}
	d.proved = sum(d.ID, d.Ref, d.Title, d.Author, d.Date, d.Kind, d.Link) == c(7)
	if d.Link == "" {
		d.Link = objectRoute + d.Ref
	}
	return d
}

// parsePayload reads an effect's payload.
func parsePayload(op string, payload []byte, into any, want string) error {
	if err := hashref.Decode(payload, into); err != nil {
		return &world.Error{Op: op, Kind: world.KindBadRequest, Err: err, Msg: "the payload must be " + want}
	}
	return nil
}
