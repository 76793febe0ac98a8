package corpus

import (
	"strings"

	"zombiezen.com/go/sqlite"
)

// tally is what a transaction changes of the counts.
type tally struct {
	passages, words int64
	terms           map[string]int64
}

func (w *Writer) settle(t *tally) error {
	for term, n := range t.terms {
		if n == 0 {
			continue
		}
		if err := exec(w.conn, "INSERT INTO terms VALUES (?, ?) ON CONFLICT (term) DO UPDATE SET n = n + excluded.n", nil, term, n); err != nil {
			return err
		}
	}
	return exec(w.conn, "UPDATE meta SET generation = generation + 1, passages = passages + ?, words = words + ?", nil, t.passages, t.words)
}

// idFor is the id of an entry: the one it has, or one made of its name that nothing else
// has.
func (w *Writer) idFor(e *Entry, before []Entry) (string, error) {
	if e.id != "" {
		return e.id, nil
	}
	id := ""
	err := exec(w.conn, "SELECT id FROM documents WHERE origin = ?", func(st *sqlite.Stmt) error { id = st.ColumnText(0); return nil }, e.Origin)
	if err != nil || id != "" || e.Gone {
		return id, err
	}
	base := DocumentID(e.Name)
	// Of one name there may be thousands: the search goes on where the last one ended.
	for n := max(w.next[base], 1); ; n++ {
		id = base
		if n > 1 {
			suffix := "-" + itoa(n)
			id = strings.TrimRight(cut(base, maxID-len(suffix)), "-") + suffix
		}
		taken := w.reserved[id]
		for i := range before {
			taken = taken || before[i].id == id && !before[i].Gone
		}
		if err := exec(w.conn, "SELECT 1 FROM documents WHERE id = ?", func(*sqlite.Stmt) error { taken = true; return nil }, id); err != nil || !taken {
			w.next[base] = n
			return id, err
		}
	}
}

// DocumentID is what a file's name, without its ending, gives for an id.
func DocumentID(name string) string {
	var b strings.Builder
	for _, r := range foldLine(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && s[len(s)-1] != '-' {
			b.WriteByte('-')
		}
	}
	id := strings.Trim(cut(strings.Trim(b.String(), "-"), maxID), "-")
	if id == "" {
		return "document"
	}
	return id
}

// drop takes out documents with their passages and words.
func (w *Writer) drop(t *tally, where string, arg any) error {
	type passage struct {
		id                   int64
		title, heading, text string
	}
	var gone []passage
	err := exec(w.conn, "SELECT p.id, d.title, p.heading, p.text FROM passages p JOIN documents d ON d.seq = p.doc WHERE d."+where, func(st *sqlite.Stmt) error {
		gone = append(gone, passage{st.ColumnInt64(0), st.ColumnText(1), st.ColumnText(2), st.ColumnText(3)})
		return nil
	}, arg)
	if err != nil {
		return err
	}
	for _, p := range gone {
		v := w.index(p.title, p.heading, p.text)
		if err := exec(w.conn, "INSERT INTO words (words, rowid, title, heading, body) VALUES ('delete',?,?,?,?)", nil, p.id, v.cols[0], v.cols[1], v.cols[2]); err != nil {
			return err
		}
		if err := exec(w.conn, "DELETE FROM passages WHERE id = ?", nil, p.id); err != nil {
			return err
		}
		t.count(v, -1)
	}
	return exec(w.conn, "DELETE FROM documents WHERE "+where, nil, arg)
}

// indexed is a passage's columns as stems, and its distinct ones.
type indexed struct {
	cols  [3]string
	words int64
	terms map[string]bool
}

func (w *Writer) index(cols ...string) indexed {
	v := indexed{terms: map[string]bool{}}
	for i, text := range cols {
		var b strings.Builder
		w.stem.words(text, func(wd word) {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(wd.stem)
			v.terms[wd.stem] = true
			if i == 2 {
				v.words++
			}
		})
		v.cols[i] = b.String()
	}
	return v
}

func (t *tally) count(v indexed, sign int64) {
	t.passages += sign
	t.words += sign * v.words
	for term := range v.terms {
		t.terms[term] += sign
	}
}

// put adds a document.
func (w *Writer) put(t *tally, e *Entry) error {
	d := e.Doc
	var pieces int64
	err := exec(w.conn, "INSERT INTO documents (id, origin, path, original, options, ref, title, author, date, kind, link, folded, passages, bytes, sum) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,0,?,?)", nil,
		e.id, e.Origin, e.Path, e.Original.String(), e.Options, e.Object.Hash.String(), d.Title, d.Author, d.Date, d.Kind, d.Link,
		foldLine(d.Title)+"\n"+foldLine(d.Author), int64(len(e.Object.Payload)),
		sum(e.id, e.Object.Hash.String(), d.Title, d.Author, d.Date, d.Kind, d.Link))
	if err != nil {
		return err
	}
	seq := w.conn.LastInsertRowID()
	for _, s := range d.Sections {
		for _, p := range chunk(s.Text) {
			v := w.index(d.Title, s.Heading, p.text)
			err := exec(w.conn, "INSERT INTO passages (doc, section, heading, start, length, text, sum) VALUES (?,?,?,?,?,?,?)", nil,
				seq, s.Section, s.Heading, p.start, v.words, p.text, sum(s.Section, s.Heading, p.text))
			if err != nil {
				return err
			}
			id := w.conn.LastInsertRowID()
			if err := exec(w.conn, "INSERT INTO words (rowid, title, heading, body) VALUES (?,?,?,?)", nil, id, v.cols[0], v.cols[1], v.cols[2]); err != nil {
				return err
			}
			t.count(v, 1)
			pieces++
		}
	}
	return exec(w.conn, "UPDATE documents SET passages = ? WHERE seq = ?", nil, pieces, seq)
}
