package corpus

import (
	"context"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite"
)

// Status is what a corpus holds.
type Status struct {
	Name      string `json:"corpus"`
	Documents int64  `json:"documents"`
	Passages  int64  `json:"passages"`
	Words     int64  `json:"words"`
	Bytes     int64  `json:"bytes"` // of the index
}

// Status tells what a corpus holds.
func (l *Library) Status(ctx context.Context, name string) (Status, error) {
	s := Status{Name: name}
	err := l.read(ctx, "corpus.Status", name, func(c *sqlite.Conn, m meta) error {
		s.Passages, s.Words = m.passages, m.words
		return exec(c, "SELECT count(*) FROM documents", func(st *sqlite.Stmt) error { s.Documents = st.ColumnInt64(0); return nil })
	})
	for _, suffix := range []string{"", "-wal"} {
		if st, serr := os.Stat(indexPath(l.dir, name) + suffix); serr == nil {
			s.Bytes += st.Size()
		}
	}
	return s, err
}

// MaxListed bounds one listing of documents.
const MaxListed = 10_000

// Listed is a document in a listing.
type Listed struct {
	Shown
	Origin   string `json:"origin"` // the file it came of; for the operator alone
	Passages int64  `json:"passages"`
	Bytes    int64  `json:"bytes"` // of its object
}

// Documents lists a corpus by id, strictly after one ("": from the first), at most limit.
func (l *Library) Documents(ctx context.Context, name, after string, limit int) ([]Listed, error) {
	all := []Listed{}
	err := l.read(ctx, "corpus.Documents", name, func(c *sqlite.Conn, _ meta) error {
		return exec(c, "SELECT id, ref, title, author, date, kind, link, sum, origin, passages, bytes FROM documents WHERE id > ? ORDER BY id LIMIT ?", func(st *sqlite.Stmt) error {
			d := Listed{Shown: readShown(st), Origin: st.ColumnText(8), Passages: st.ColumnInt64(9), Bytes: st.ColumnInt64(10)}
			if !d.proved {
				return damaged("corpus.Documents", name, fmt.Errorf("document %q does not prove itself", d.ID))
			}
			all = append(all, d)
			return nil
		}, after, min(limit, MaxListed))
	})
	return all, err
}

// Sample is common and rare words of a corpus, as stems, for measuring.
func (l *Library) Sample(ctx context.Context, name string) (common, rare []string) {
	_ = l.read(ctx, "corpus.Sample", name, func(c *sqlite.Conn, _ meta) error {
		take := func(into *[]string) func(*sqlite.Stmt) error {
			return func(st *sqlite.Stmt) error { *into = append(*into, st.ColumnText(0)); return nil }
		}
		if err := exec(c, "SELECT term FROM terms WHERE term GLOB '[a-z][a-z][a-z]*' ORDER BY n DESC LIMIT 300", take(&common)); err != nil {
			return err
		}
		return exec(c, "SELECT term FROM terms WHERE term GLOB '[a-z][a-z][a-z]*' AND n BETWEEN 5 AND 200 ORDER BY n, term LIMIT 20000", take(&rare))
	})
	return common, rare
}
