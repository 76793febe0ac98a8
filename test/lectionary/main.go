// Command lectionary compares the table of readings with citations from elsewhere, row by row:
//
//	go run ./test/lectionary [-write DIR] CITATIONS.csv
//
// The file has the columns part (OT, PS, NT, G), citation, number_and_cycle, celebration,
// lectionary_number, cycle. It prints counts and every difference, and fails if a citation is
// confirmed in the table and not by the file. -write sets the marks of confirmation in the
// table's files in DIR. It owns nothing of the table: which of two that differ is right is
// decided by a person, and noted in docs/calendar.md. Answers spec/20-calendar.md.
package main

import (
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ailang.dev/world/host/handlers/calendar/lectionary"
)

func main() {
	write := flag.String("write", "", "set the marks of confirmation in the table's files in this `folder`")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: lectionary [-write DIR] CITATIONS.csv")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *write, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lectionary:", err)
		os.Exit(1)
	}
}

func run(path, write string, out io.Writer) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	theirs, err := readTheirs(in)
	if err != nil {
		return err
	}
	table, err := lectionary.Load()
	if err != nil {
		return err
	}
	c := compare(table, theirs)
	c.print(out)
	if write != "" {
		return c.write(write)
	}
	if len(c.wrong) > 0 {
		return fmt.Errorf("%d marks of confirmation are wrong, such as %s", len(c.wrong), c.wrong[0])
	}
	return nil
}

// books of the file, where they are not those of the table.
var books = map[string]string{"Gen": "Gn", "Exod": "Ex", "Lev": "Lv", "Num": "Nm", "Deut": "Dt", "Josh": "Jos", "Judg": "Jgs", "Ruth": "Ru", "1 Sam": "1 Sm",
	"2 Sam": "2 Sm", "Ezra": "Ezr", "Tob": "Tb", "Jdt": "Jdt", "Esth": "Est", "1 Macc": "1 Mc", "2 Macc": "2 Mc", "Job": "Jb", "Prov": "Prv",
	"Song": "Sg", "Cant": "Sg", "Isa": "Is", "Ezek": "Ez", "Dan": "Dn", "Joel": "Jl", "Amos": "Am", "Obad": "Ob", "Jonah": "Jon", "Mic": "Mi", "Nah": "Na",
	"Hab": "Hb", "Zeph": "Zep", "Hag": "Hg", "Zech": "Zec", "Matt": "Mt", "Mark": "Mk", "Luke": "Lk", "John": "Jn", "1 Thess": "1 Thes",
	"2 Thess": "2 Thes", "1 Tim": "1 Tm", "2 Tim": "2 Tm", "Titus": "Ti", "Phlm": "Phlm", "1 Pet": "1 Pt", "2 Pet": "2 Pt", "1 John": "1 Jn", "2 John": "2 Jn",
	"3 John": "3 Jn", "Rev": "Rv", "Qoh": "Eccl", "Philem": "Phlm"}

// their is one citation of the file.
type their struct {
	part, cycle, celebration, text string
	number                         int
	cited                          lectionary.Citation
	used                           bool
}

type theirs struct {
	all        []*their
	unreadable []string
	rows       int
}

func readTheirs(in io.Reader) (*theirs, error) {
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || len(rows[0]) != 6 {
		return nil, fmt.Errorf("the file is no list of citations with six columns")
	}
	t := &theirs{rows: len(rows) - 1}
	for _, r := range rows[1:] {
		number, err := strconv.Atoi(r[4])
		if err != nil {
			t.unreadable = append(t.unreadable, strings.Join(r, " | "))
			continue
		}
		book := ""
		for _, text := range strings.Split(r[1], " or ") {
			text = translate(strings.TrimSpace(text), &book)
			c, err := lectionary.ParseCitation(text)
			if err != nil {
				t.unreadable = append(t.unreadable, strings.Join(r, " | "))
				continue
			}
			t.all = append(t.all, &their{part: r[0], cycle: r[5], celebration: strings.TrimSpace(r[3]), text: text, number: number, cited: c})
		}
	}
	return t, nil
}

var bookHead = regexp.MustCompile(`^((?:[1-3] )?[A-Z][a-z]+)\.? (.*)$`)

// translate writes a citation of the file as the table would. An alternative without a book is
// of the one before.
func translate(text string, book *string) string {
	text = strings.NewReplacer("+", ", ", "[cd]", "", " [Vulg.]", "", "Eccl/Qoh", "Eccl", "Micah", "Mic", ": ", ":").Replace(text)
	if m := bookHead.FindStringSubmatch(text); m != nil {
		*book = m[1]
		if b := books[m[1]]; b != "" {
			*book = b
		}
		text = m[2]
	}
	return *book + " " + text
}

func (t *their) fits(r lectionary.Row, kind lectionary.Kind) bool {
	parts := map[lectionary.Kind]string{lectionary.First: "OT NT", lectionary.Second: "OT NT", lectionary.Psalm: "PS", lectionary.Gospel: "G"}[kind]
	if t.number != r.Number || !strings.Contains(parts, t.part) {
		return false
	}
	switch r.Cycle {
	case "":
		return true
	case "I", "II":
		return t.cycle == "1+2" || t.cycle == strconv.Itoa(len(r.Cycle))
	}
	return t.cycle == "1+2" || strings.ContainsAny(t.cycle, r.Cycle)
}

// outcome of one citation of the table.
type outcome int

const (
	agrees outcome = iota
	same           // after a decision
	differs
	lacks
	outcomes
)

type comparison struct {
	theirs      *theirs
	counts      map[lectionary.Kind][outcomes]int
	letters     int // agree also in the letters of parts of verses
	differences []string
	confirmed   map[string]bool // row head, kind and text
	wrong       []string
	rows, taken int
}

func key(r lectionary.Row, kind lectionary.Kind, text string) string {
	return fmt.Sprintf("%d.%d%s %s %s %s", r.Number, r.Part, r.Cycle, r.Celebration, kind, text)
}

func compare(table *lectionary.Table, t *theirs) *comparison {
	c := &comparison{theirs: t, counts: map[lectionary.Kind][outcomes]int{}, confirmed: map[string]bool{}}
	for _, r := range table.Rows() {
		c.rows++
		for _, kind := range lectionary.Kinds {
			c.cell(r, kind)
		}
	}
	return c
}

func (c *comparison) cell(r lectionary.Row, kind lectionary.Kind) {
	var pool []*their
	for _, t := range c.theirs.all {
		if t.fits(r, kind) {
			pool = append(pool, t)
		}
	}
	for _, cited := range r.Cells[kind] {
		ours, err := lectionary.ParseCitation(cited.Text)
		if err != nil {
			continue // Load has read it
		}
		got := lacks
		var near []string
		for _, t := range pool {
			switch {
			case t.cited.Same(ours):
				got, t.used = agrees, true
			case decided(t.number, t.text, cited.Text):
				got, t.used = min(got, same), true
			default:
				got = min(got, differs)
			}
			near = append(near, t.text)
		}
		if cited.Taken {
			c.taken++
			continue
		}
		n := c.counts[kind]
		n[got]++
		c.counts[kind] = n
		switch {
		case got == same:
			c.confirmed[key(r, kind, cited.Text)] = true
		case got == agrees:
			c.confirmed[key(r, kind, cited.Text)] = true
			if slices.ContainsFunc(near, func(text string) bool { return plain(text) == plain(cited.Text) }) {
				c.letters++
			}
		case got == differs:
			c.differences = append(c.differences, fmt.Sprintf("%d%s%s %s: %s; they: %s", r.Number, dot(r.Part), r.Cycle, kind, cited.Text, strings.Join(near, " / ")))
		}
		if cited.Confirmed != (got <= same) {
			c.wrong = append(c.wrong, key(r, kind, cited.Text))
		}
	}
}

func dot(part int) string {
	if part == 0 {
		return ""
	}
	return "." + strconv.Itoa(part)
}

func plain(text string) string {
	return strings.NewReplacer("—", "-", "–", "-", " ", "").Replace(text)
}

func (c *comparison) print(out io.Writer) {
	fmt.Fprintf(out, "their rows %d, of which unreadable %d; our rows %d\n", c.theirs.rows, len(c.theirs.unreadable), c.rows)
	sum := [outcomes]int{}
	for _, kind := range lectionary.Kinds {
		n := c.counts[kind]
		fmt.Fprintf(out, "%-20s agree %4d  same after a decision %2d  differ %3d  they have none %3d\n", kind, n[agrees], n[same], n[differs], n[lacks])
		for i := range n {
			sum[i] += n[i]
		}
	}
	fmt.Fprintf(out, "%-20s agree %4d  same after a decision %2d  differ %3d  they have none %3d\n", "all", sum[agrees], sum[same], sum[differs], sum[lacks])
	fmt.Fprintf(out, "%d agree in the letters of verses too; %d more citations were taken from them\n", c.letters, c.taken)
	fmt.Fprintln(out, "\nDifferences")
	for _, d := range c.differences {
		fmt.Fprintln(out, d)
	}
	fmt.Fprintln(out, "\nUnreadable")
	for _, d := range c.theirs.unreadable {
		fmt.Fprintln(out, d)
	}
	c.printAlone(out)
}

// printAlone lists what the file has for numbers of the table and the table has not.
func (c *comparison) printAlone(out io.Writer) {
	table, err := lectionary.Load()
	if err != nil {
		return
	}
	known := map[int]bool{}
	for _, r := range table.Rows() {
		known[r.Number] = true
	}
	alone, other := map[string]int{}, 0
	for _, t := range c.theirs.all {
		switch {
		case t.used:
		case known[t.number]:
			alone[fmt.Sprintf("%03d %s %s %s (%s)", t.number, t.cycle, t.part, t.text, t.celebration)]++
		default:
			other++
		}
	}
	fmt.Fprintf(out, "\nTheirs alone, of numbers that we have: %d\n", len(alone))
	for _, k := range slices.Sorted(maps.Keys(alone)) {
		fmt.Fprintln(out, k)
	}
	fmt.Fprintf(out, "\nTheirs of numbers that we have not (memorials, Commons, ritual and votive Masses): %d citations\n", other)
}

// write sets the marks in the table's files.
func (c *comparison) write(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%s has no table: %w", dir, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if line == "" || line[0] == '#' {
				continue
			}
			r, err := lectionary.ParseRow(filepath.Base(name), line)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", name, i+1, err)
			}
			lines[i] = c.mark(r, line)
		}
		if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) mark(r lectionary.Row, line string) string {
	cells := strings.Split(line, " | ")
	kindOf := map[string]lectionary.Kind{}
	for kind, all := range r.Cells {
		for _, cited := range all {
			kindOf[cited.Text] = kind
		}
	}
	for i, cell := range cells {
		parts := strings.Split(cell, " or ")
		for j, p := range parts {
			p = strings.TrimSuffix(p, "*")
			if kind, ok := kindOf[p]; ok {
				if c.confirmed[key(r, kind, p)] {
					p += "*"
				}
				parts[j] = p
			}
		}
		cells[i] = strings.Join(parts, " or ")
	}
	return strings.Join(cells, " | ")
}
