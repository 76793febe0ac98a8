package corpus

import (
	"context"
	"fmt"
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
	const isDate = "(length(d.date) IN (4, 7, 10) AND d.date GLOB '[0-9][0-9][0-9][0-9]*')"
	if f.From != "" {
		add(isDate+" AND d.date >= substr(?, 1, length(d.date))", f.From)
	}
	if f.To != "" {
		add(isDate+" AND substr(d.date, 1, length(?)) <= ?", f.To, f.To)
	}
	return strings.Join(conds, " AND "), args
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
