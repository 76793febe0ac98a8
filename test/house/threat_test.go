package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// threatRow is a row of docs/threat-model.md: its number, what is tried, what stops it, and what shows it.
var threatRow = regexp.MustCompile(`(?m)^\| ([A-Z])(\d+) \| (.*) \| (.*) \| (.*) \|$`)

// notDefended begins the third cell of what nothing stops.
const notDefended = "**Not defended"

// threats gives what is wrong with a threat model. read gives the text of a file of the tree.
func threats(page string, have tree, read func(file string) (string, error)) []string {
	var wrong []string
	tell := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	next := map[string]int{}
	rows := threatRow.FindAllStringSubmatch(page, -1)
	for _, m := range rows {
		next[m[1]]++
		no, tried, stops, shown := m[1]+m[2], strings.TrimSpace(m[3]), strings.TrimSpace(m[4]), strings.TrimSpace(m[5])
		if want := fmt.Sprintf("%s%d", m[1], next[m[1]]); no != want {
			tell("row %s, want %s", no, want)
		}
		if tried == "" || stops == "" {
			tell("row %s has an empty cell", no)
		}
		if strings.HasPrefix(stops, notDefended) {
			if shown != "–" {
				tell("row %s is not defended, and names what shows it", no)
			}
			continue
		}
		for _, item := range strings.Split(shown, ", ") {
			file, test, _ := strings.Cut(item, " ")
			text, err := read(file)
			name, part, _ := strings.Cut(test, "/")
			switch {
			case err != nil:
				tell("row %s: no file %q", no, file)
			case strings.HasSuffix(file, ".txtar") && test == "":
			case !regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`).MatchString(name) || !strings.Contains(text, "\nfunc "+name+"("):
				tell("row %s: %s has no test %q", no, file, name)
			case !have.has(name, part):
				tell("row %s: %s has no part %q", no, name, part)
			}
		}
	}
	// What is named in passing is there too.
	for _, m := range testName.FindAllStringSubmatch(page, -1) {
		if !have.has(m[1], m[2]) {
			tell("%s is not in the tree", m[0])
		}
	}
	if lines := len(regexp.MustCompile(`(?m)^\| [A-Z]\d`).FindAllString(page, -1)); lines != len(rows) || lines == 0 {
		tell("%d rows of %d were read", len(rows), lines)
	}
	return wrong
}

// TestThreatModelIsShown: each row of the threat model names files and tests that are there, or says that it is not defended.
func TestThreatModelIsShown(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range threats(string(text), readTree(t), func(file string) (string, error) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		return string(text), err
	}) {
		t.Errorf("docs/threat-model.md: %s", w)
	}
}

// TestThreatsAreJudged: a row that names nothing, or what is not there, is told.
func TestThreatsAreJudged(t *testing.T) {
	have := tree{funcs: map[string]bool{"TestA": true, "TestB": true}, texts: map[string]bool{"part": true}, scripts: map[string]bool{}}
	read := func(file string) (string, error) {
		switch file {
		case "a_test.go":
			return "package a\n\nfunc TestA(t *testing.T) {}\n", nil
		case "a.txtar":
			return "", nil
		}
		return "", os.ErrNotExist
	}
	for _, c := range []struct{ page, tell string }{
		{"| A1 | x | y | a_test.go TestA, a.txtar, a_test.go TestA/part |\n| B1 | x | **Not defended.** | – |", ""},
		{"| A1 | x | y | – |", "row A1: no file"},
		{"| A1 | x | y | a_test.go |", "row A1: a_test.go has no test"},
		{"| A1 | x | y | a_test.go TestB |", `row A1: a_test.go has no test "TestB"`},
		{"| A1 | x | y | a_test.go TestA/other |", `row A1: TestA has no part "other"`},
		{"| A1 | x | y | b_test.go TestA |", "row A1: no file"},
		{"| A1 | x | y | b.txtar |", "row A1: no file"},
		{"| A1 | x | y | a_test.go TestA |\n| A3 | x | y | a_test.go TestA |", "row A3, want A2"},
		{"| A1 |  | y | a_test.go TestA |", "row A1 has an empty cell"},
		{"| A1 | x | **Not defended.** | a_test.go TestA |", "row A1 is not defended, and names"},
		{"| A1 | x | y | a_test.go TestA |\n\nTestGone shows it.", "TestGone is not in the tree"},
		{"| A1 | x | y |", "0 rows of 1 were read"},
		{"", "0 rows of 0 were read"},
	} {
		got := strings.Join(threats(c.page, have, read), "; ")
		if (c.tell == "") != (got == "") || !strings.Contains(got, c.tell) {
			t.Errorf("%q: told %q, want %q", c.page, got, c.tell)
		}
	}
}
