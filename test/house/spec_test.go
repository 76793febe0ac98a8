package house

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	statement  = regexp.MustCompile(`(?m)^- \*\*(\d+\.\d+)\*\* \S`)
	testsRow   = regexp.MustCompile(`(?m)^\| (\d+\.\d+) \| (.*) \|$`)
	testName   = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*)(?:/(\w+))?`)
	transcript = regexp.MustCompile(`[\w./-]+\.txtar\b`)
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	literal    = regexp.MustCompile(`"[^"\n]+"`)

	// outerRow is a statement of an outer contract, with its four cells.
	outerRow = regexp.MustCompile(`(?m)^\| (\d{3}-\d+) \|(.*)\|(.*)\|(.*)\|$`)
	// cited is a statement or a chapter that a cell names.
	cited = regexp.MustCompile(`\b\d+(?:\.\d+)?\b`)
)

// transcripts are the folders of wire transcripts by the name that pages give them.
var transcripts = map[string]string{
	"e2e": "test/e2e/testdata",
	"mcp": "host/mcp/testdata",
	"a2a": "host/a2a/testdata",
}

// notServed is the cell of what the contract asks for and this daemon has not.
const notServed = "**not served**"

// tree is what can be named: test functions, texts that name their parts, files.
type tree struct {
	funcs, texts map[string]bool
	scripts      map[string]bool // names of .txtar files, without folder and ending
}

func readTree(t *testing.T) tree {
	t.Helper()
	have := tree{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".txtar"):
			have.scripts[strings.TrimSuffix(name, ".txtar")] = true
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".go") && strings.Contains(path, "test/"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range testFunc.FindAllSubmatch(text, -1) {
				have.funcs[string(m[1])] = true
			}
			for _, m := range literal.FindAll(text, -1) {
				have.texts[strings.ReplaceAll(strings.Trim(string(m), `"`), " ", "_")] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}

// has tells whether a test, and the part of it that is named, are there.
func (h tree) has(test, part string) bool {
	return h.funcs[test] && (part == "" || h.texts[part] || h.scripts[part])
}

// pages reads spec/*.md by their names.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "spec", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages in spec (%v)", err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// TestSpecNamesWhatIsThere: every test and transcript that a page names is in the tree, and
// every transcript of the wire is named by a page.
func TestSpecNamesWhatIsThere(t *testing.T) {
	have := readTree(t)
	named := map[string]bool{}
	for name, text := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !have.has(m[1], m[2]) {
				t.Errorf("spec/%s names %s, which is not in the tree", name, m[0])
			}
		}
		for _, file := range transcript.FindAllString(text, -1) {
			named[file] = true
			dir, base, _ := strings.Cut(file, "/")
			if _, err := os.Stat(filepath.Join(root, transcripts[dir], base)); err != nil || transcripts[dir] == "" {
				t.Errorf("spec/%s names %s, which is not in the tree", name, file)
			}
		}
	}
	for dir, path := range transcripts {
		files, err := filepath.Glob(filepath.Join(root, path, "*.txtar"))
		if err != nil || len(files) == 0 {
			t.Errorf("no transcripts in %s (%v)", path, err)
		}
		for _, file := range files {
			if name := dir + "/" + filepath.Base(file); !named[name] {
				t.Errorf("%s stands for no statement of a page", name)
			}
		}
	}
}

// statements reads the numbers of a page's statements, which count from 1 without a gap.
func statements(t *testing.T, name, text string) []string {
	t.Helper()
	chapter := strings.TrimLeft(name[:2], "0")
	var all []string
	for i, m := range statement.FindAllStringSubmatch(text, -1) {
		if want := fmt.Sprintf("%s.%d", chapter, i+1); m[1] != want {
			t.Errorf("spec/%s: statement %s, want %s", name, m[1], want)
		}
		all = append(all, m[1])
	}
	if len(all) == 0 {
		t.Errorf("spec/%s has no statement", name)
	}
	return all
}

// chapter tells whether a page holds numbered statements.
func chapter(name string) bool { return name[0] >= '0' && name[0] <= '9' }

// TestEveryStatementHasItsTests: each numbered statement has one row, in its order, which
// names something that would fail.
func TestEveryStatementHasItsTests(t *testing.T) {
	for name, text := range pages(t) {
		if !chapter(name) {
			continue
		}
		var rows []string
		for _, m := range testsRow.FindAllStringSubmatch(text, -1) {
			rows = append(rows, m[1])
			if !testName.MatchString(m[2]) && !transcript.MatchString(m[2]) {
				t.Errorf("spec/%s: the row of %s names no test", name, m[1])
			}
		}
		if want := statements(t, name, text); !slices.Equal(rows, want) {
			t.Errorf("spec/%s: statements %q\nrows %q", name, want, rows)
		}
	}
}

// TestConformanceIsWhole: the statements of each outer contract are counted without a gap,
// and each names a statement of ours that exists, and what shows it.
func TestConformanceIsWhole(t *testing.T) {
	all := pages(t)
	known := map[string]bool{}
	for name, text := range all {
		if chapter(name) {
			known[strings.TrimLeft(name[:2], "0")] = true
			for _, s := range statements(t, name, text) {
				known[s] = true
			}
		}
	}
	next := map[string]int{}
	rows := outerRow.FindAllStringSubmatch(all["conformance.md"], -1)
	for _, m := range rows {
		contract, _, _ := strings.Cut(m[1], "-")
		next[contract]++
		if want := fmt.Sprintf("%s-%d", contract, next[contract]); m[1] != want {
			t.Errorf("row %s, want %s", m[1], want)
		}
		label, spec, shown := strings.TrimSpace(m[2]), strings.TrimSpace(m[3]), strings.TrimSpace(m[4])
		if label == "" || spec == "" || shown == "" {
			t.Errorf("row %s has an empty cell", m[1])
		}
		if spec == notServed {
			continue
		}
		numbers := cited.FindAllString(spec, -1)
		for _, n := range numbers {
			if !known[n] {
				t.Errorf("row %s cites %s, which no page has", m[1], n)
			}
		}
		if len(numbers) == 0 || (!testName.MatchString(shown) && !transcript.MatchString(shown)) {
			t.Errorf("row %s cites no statement, or names no test", m[1])
		}
	}
	if lines := strings.Count(all["conformance.md"], "\n| 0"); lines != len(rows) || next["000"] == 0 || next["002"] == 0 || next["004"] == 0 {
		t.Errorf("%d rows of %d were read: %v", len(rows), lines, next)
	}
}
