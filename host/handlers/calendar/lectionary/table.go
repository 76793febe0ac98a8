// Package lectionary tells which readings a liturgical day has: a table of citations by the
// numbers of the Lectionary for Mass (second typical edition), and which of them are a day's. It
// holds no text of Scripture. A citation is confirmed if a second, independent source has the
// same verses; one that is not says so, and what the table lacks it does not make up. It owns
// its files and the reading of them. Answers spec/20-calendar.md.
package lectionary

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.txt
var files embed.FS

// Files are the table's, in order.
var fileNames = [...]string{"sundays.txt", "weekdays-proper.txt", "weekdays-ordinary.txt", "saints.txt"}

// Cited is one citation: its text as it stands in the table, and whether it is confirmed. Taken
// ones were put right by the second source, which is the only one for them.
type Cited struct {
	Text      string
	Confirmed bool
	Taken     bool
}

// Kind says which reading it is.
type Kind string

// The kinds, in the order in which they are read.
const (
	First  Kind = "first reading"
	Psalm  Kind = "responsorial psalm"
	Second Kind = "second reading"
	Gospel Kind = "gospel"
)

// Kinds are all, in order.
var Kinds = [...]Kind{First, Psalm, Second, Gospel}

// Row is one line of the table.
type Row struct {
	Number int // 0: the Lectionary's second edition has none yet
	Part   int // of the Easter Vigil, 1 to 8
	Cycle  string
	// Celebration is that of a saint's row; Must is a memorial's that are read in the place of
	// the weekday's.
	Celebration string
	Must        bool
	Cells       map[Kind][]Cited // the first, then its alternatives
}

// Table is the whole. It does not change, and is safe for concurrent use.
type Table struct {
	rows   []Row
	number map[int][]int
	saint  map[string][]int
}

// Load reads the table that is built in.
func Load() (*Table, error) {
	t := &Table{number: map[int][]int{}, saint: map[string][]int{}}
	for _, name := range fileNames {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			r, err := ParseRow(name, line)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
			}
			n := len(t.rows)
			t.rows = append(t.rows, r)
			if r.Celebration != "" {
				t.saint[r.Celebration] = append(t.saint[r.Celebration], n)
			} else {
				t.number[r.Number] = append(t.number[r.Number], n)
			}
		}
	}
	return t, nil
}

// Rows are all, in the table's order.
func (t *Table) Rows() []Row { return slices.Clone(t.rows) }

var rowHead = regexp.MustCompile(`^(\d+)(?:\.(\d))?(I|II|[ABC]{1,3})?$`)

// ParseRow reads a line of one of the table's files.
func ParseRow(file, line string) (Row, error) {
	cells := strings.Split(line, " | ")
	r := Row{Cells: map[Kind][]Cited{}}
	if head := strings.TrimSpace(cells[0]); head != "-" {
		m := rowHead.FindStringSubmatch(head)
		if m == nil {
			return r, fmt.Errorf("%q is no number", head)
		}
		r.Number, _ = strconv.Atoi(m[1]) // digits, and few
		r.Part, _ = strconv.Atoi(m[2])
		r.Cycle = m[3]
	}
	cells = cells[1:]
	if file == "saints.txt" {
		r.Celebration, r.Must = strings.TrimPrefix(cells[0], "!"), cells[0][0] == '!'
		cells = cells[1:]
	}
	kinds := Kinds[:]
	if file == "weekdays-ordinary.txt" {
		kinds = []Kind{Gospel}
		if r.Cycle == "I" || r.Cycle == "II" {
			kinds = []Kind{First, Psalm}
		}
	}
	if len(cells) != len(kinds) {
		return r, fmt.Errorf("%q has %d readings, not %d", line, len(cells), len(kinds))
	}
	for i, cell := range cells {
		if cell == "-" {
			continue
		}
		for _, text := range strings.Split(cell, " or ") {
			text, confirmed := strings.CutSuffix(text, "*")
			text, taken := strings.CutSuffix(text, "~")
			if _, err := ParseCitation(text); err != nil {
				return r, err
			}
			r.Cells[kinds[i]] = append(r.Cells[kinds[i]], Cited{text, confirmed, taken})
		}
	}
	return r, nil
}

// find are the rows of a number for a Sunday and a weekday cycle.
func (t *Table) find(number int, sunday, weekday string) []Row {
	var all []Row
	for _, i := range t.number[number] {
		if r := t.rows[i]; r.fits(sunday, weekday) {
			all = append(all, r)
		}
	}
	return all
}

func (r Row) fits(sunday, weekday string) bool {
	switch r.Cycle {
	case "":
		return true
	case "I", "II":
		return r.Cycle == weekday
	}
	return strings.Contains(r.Cycle, sunday)
}
