package rest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	statement = regexp.MustCompile(`(?m)^- \*\*(10\.\d+)\*\* `)
	testRow   = regexp.MustCompile(`(?m)^\| (10\.\d+) \| (.+) \|$`)
	testName  = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
)

// TestSpecNamesItsTests: each statement of the contract has a row of tests, each test of a
// row exists, and each test of this package stands in a row.
func TestSpecNamesItsTests(t *testing.T) {
	page, err := os.ReadFile("../../spec/10-rest.md")
	if err != nil {
		t.Fatal(err)
	}
	var statements, rows []string
	named := map[string]bool{}
	for _, m := range statement.FindAllSubmatch(page, -1) {
		statements = append(statements, string(m[1]))
	}
	for _, m := range testRow.FindAllSubmatch(page, -1) {
		rows = append(rows, string(m[1]))
		tests := testName.FindAllString(string(m[2]), -1)
		if len(tests) == 0 {
			t.Errorf("statement %s names no test", m[1])
		}
		for _, name := range tests {
			named[name] = true
		}
	}
	if len(statements) == 0 || !slices.Equal(statements, rows) {
		t.Errorf("statements %q\nrows       %q", statements, rows)
	}
	have := testsHere(t)
	for name := range named {
		if !have[name] {
			t.Errorf("the contract names %s, which is not here", name)
		}
	}
	for name := range have {
		if !named[name] {
			t.Errorf("%s stands for no statement of the contract", name)
		}
	}
}

func testsHere(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && testName.MatchString(fn.Name.Name) {
				have[fn.Name.Name] = true
			}
		}
	}
	return have
}
