// Package house holds the rules of the tree as tests, each with its reason.
package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "ailang.dev/world/"

// root is the repository's top, from this folder.
const root = "../.."

// may lists, for each package, what of this module it may import. Arrows run down:
// daemon -> surfaces -> coordinator -> {registry, authority, capsule, broker} -> store ->
// {world, hashref}. What is not listed is forbidden.
var may = map[string]string{
	"host/hashref":             "",
	"host/world":               "host/hashref",
	"host/store":               "host/world host/hashref",
	"host/store/storetest":     "host/store host/store/sqlstore host/world host/hashref",
	"host/store/sqlstore":      "host/store host/world host/hashref",
	"host/store/sqlite":        "host/store host/store/sqlstore host/world host/hashref",
	"host/store/postgres":      "host/store host/store/sqlstore host/world host/hashref",
	"host/archive":             "host/world host/hashref",
	"host/capsule":             "host/world host/hashref",
	"host/capsule/capsuletest": "host/capsule host/world host/hashref",
	"host/capsule/worker":      "host/capsule host/world host/hashref",
	"host/capsule/starlark":    "host/capsule host/capsule/worker host/world host/hashref",
	"host/capsule/wasm":        "host/capsule host/capsule/worker host/world host/hashref",
	"host/capsule/ailang":      "host/archive host/capsule host/world host/hashref",
	"host/authority":           "host/store host/world host/hashref",
	"host/approvals":           "host/store host/world host/hashref",
	"host/registry":            "host/capsule host/store host/world host/hashref",
	"host/broker":              "host/approvals host/store host/world host/hashref",
	"host/handlers/calendar":   "host/broker host/policy host/world host/hashref host/handlers/calendar/roman host/handlers/calendar/lectionary host/handlers/calendar/when",
	"host/handlers/corpus":     "host/broker host/policy host/world host/hashref",
	"host/handlers/human":      "host/approvals host/broker host/policy host/world host/hashref",
	"host/handlers/model":      "host/broker host/policy host/world host/hashref",
	"host/policy":              "host/world host/hashref",
	"host/sandbox":             "host/world",
	"host/config":              "host/authority host/policy host/handlers/exec host/handlers/model host/world host/hashref",
	"host/handlers/ailang":     "host/archive host/broker host/capsule host/policy host/sandbox host/world host/hashref",
	"host/handlers/exec":       "host/broker host/capsule host/policy host/sandbox host/world host/hashref",
	"host/handlers/git":        "host/broker host/policy host/world host/hashref",
	"host/handlers/workspace":  "host/broker host/policy host/world host/hashref",
	"host/coordinator":         "host/broker host/capsule host/store host/world host/hashref",
	"host/surface":             "host/world host/hashref",
	"host/mcp":                 "host/surface host/registry host/coordinator host/world host/hashref",
	"host/a2a":                 "host/surface host/coordinator host/world host/hashref",
	"host/tasks":               "host/surface host/coordinator host/store host/world host/hashref",
	"host/rest":                "host/store host/world host/hashref",
	"host/workbench":           "host/approvals host/provenance host/registry host/store host/world host/hashref",
	"host/metrics":             "host/world",
	"host/tracing":             "host/world",
	"host/provenance":          "host/capsule host/store host/world host/hashref",
	"host/admin":               "host/approvals host/authority host/registry host/store host/world host/hashref",
	"host/client":              "host/admin host/approvals host/authority host/registry host/store host/world host/hashref",
	"packs":                    "host/world host/hashref",
	"packs/packtest":           "*",
	"host/daemon":              "*",
	"host/cli":                 "*",
	"host/cli/shell":           "",
	"host/cli/worktree":        "*",
	"host/worldtest":           "*",
	"host/worldtest/wire":      "*",
	"cmd/ailang-worldd":        "host/cli",
	"test/e2e":                 "*",
	"test/lectionary":          "host/handlers/calendar/lectionary",
	"test/romcal":              "host/handlers/calendar/roman",
	"test/escape":              "",
	"test/workbench":           "",
	"bench":                    "*",
	"bench/load":               "*",

	"host/capsule/ailang/ailangtest":    "",
	"host/store/postgres/pgtest":        "",
	"host/handlers/calendar/roman":      "",
	"host/handlers/calendar/lectionary": "host/handlers/calendar/roman",
	"host/handlers/calendar/when":       "host/handlers/calendar/roman",
	"host/handlers/corpus/ingest":       "host/handlers/corpus host/world host/hashref",
}

// environment is what only main may read: a package is told everything by its caller.
var environment = regexp.MustCompile(`(?m)^[^/]*\b(os\.(Getenv|LookupEnv|Environ|Args)|flag\.(Parse|String|Int|Bool))\b`)

// productFiles walks the Go files that are not tests, with their package's folder.
func productFiles(t *testing.T, visit func(dir, file string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == ".git" || name == "node_modules" || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(rel), path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestArrowsRunDown(t *testing.T) {
	productFiles(t, func(dir, file string) {
		allowed, known := may[dir]
		if !known {
			t.Errorf("%s: its package has no row in this test: say what it may import", dir)
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			inner, ours := strings.CutPrefix(path, module)
			if ours && allowed != "*" && !strings.Contains(" "+allowed+" ", " "+inner+" ") {
				t.Errorf("%s imports %s: %s may import only %q", file, inner, dir, allowed)
			}
			// bench serves with them to have something to compare with.
			sdk := strings.Contains(path, "modelcontextprotocol") || strings.Contains(path, "a2aproject") || strings.Contains(path, "zitadel")
			if sdk && dir != "test/e2e" && dir != "bench" {
				t.Errorf("%s imports %s: the official SDKs are clients in tests, never the server", file, path)
			}
		}
	})
}

func TestOnlyMainReadsTheEnvironment(t *testing.T) {
	productFiles(t, func(dir, file string) {
		if strings.HasPrefix(dir, "cmd/") || strings.HasPrefix(dir, "test/") || strings.HasPrefix(dir, "host/worldtest") || dir == "packs/packtest" || strings.HasPrefix(dir, "bench") {
			return // main, and what only tests import
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := environment.Find(text); m != nil {
			t.Errorf("%s reads %s: main hands everything in", file, m)
		}
	})
}

func TestEveryPackageHasOneComment(t *testing.T) {
	docs := map[string]int{}
	productFiles(t, func(dir, file string) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		docs[dir] += 0
		if f.Doc != nil {
			docs[dir]++
		}
	})
	for dir, n := range docs {
		if n != 1 {
			t.Errorf("%s has %d package comments, want one", dir, n)
		}
	}
}
