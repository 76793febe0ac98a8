package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goTest is a command of a page that runs tests, with its folder and, quoted or not, its names.
var goTest = regexp.MustCompile("go test(?: -\\S+(?: \\d\\w*)?)* (?:-run (?:'([^']*)'|(\\S+)) )?\\./(\\S+?)`?(?: -(?:run|bench) (?:'([^']*)'|([^\\s`]+)))?(?:[\\s`]|$)")

// TestCommandsOfPagesRunSomething: what a page has a reader run names tests or benchmarks of that folder.
func TestCommandsOfPagesRunSomething(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "bench/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	commands := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range goTest.FindAllStringSubmatch(string(text), -1) {
			commands++
			names := m[1] + m[2] + m[4] + m[5]
			if names == "" || names == "^$" {
				continue
			}
			for name := range strings.SplitSeq(names, "|") {
				if !hasFunc(t, m[3], name) {
					t.Errorf("%s: %q: no test or benchmark of %s is named %s", filepath.Base(file), strings.TrimSpace(m[0]), m[3], name)
				}
			}
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands were found: is the pattern still theirs?", commands)
	}
}

// hasFunc tells whether a folder has a test or a benchmark whose name an expression matches.
func hasFunc(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\nfunc (?:Test|Benchmark|Fuzz)\w*` + strings.TrimPrefix(strings.TrimPrefix(name, "Test"), "Benchmark") + `\w*\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if named.Match(text) {
			return true
		}
	}
	return false
}
