package supply

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type obj = map[string]any

// database writes a vulnerability database of one module, or of none, and gives its URL.
func database(t *testing.T, module string) string {
	t.Helper()
	const id, when = "GO-2020-0001", "2020-01-01T00:00:00Z"
	dir := t.TempDir()
	write := func(name string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	modules, vulns := []obj{}, []obj{}
	if module != "" {
		modules = append(modules, obj{"path": module, "vulns": []obj{{"id": id, "modified": when}}})
		vulns = append(vulns, obj{"id": id, "modified": when})
		write("ID/"+id+".json", obj{
			"schema_version": "1.3.1", "id": id, "modified": when, "published": when, "summary": "made up for a test", "details": "made up for a test",
			"affected": []obj{{
				"package":            obj{"name": module, "ecosystem": "Go"},
				"ranges":             []obj{{"type": "SEMVER", "events": []obj{{"introduced": "0"}}}},
				"ecosystem_specific": obj{"imports": []obj{{"path": module}}},
			}},
		})
	}
	write("index/db.json", obj{"modified": when})
	write("index/modules.json", modules)
	write("index/vulns.json", vulns)
	return "file://" + filepath.ToSlash(dir)
}

// TestVulnerabilities: a finding fails; a database that cannot be reached is said, and fails nothing; and nothing is said
// where nothing was found.
func TestVulnerabilities(t *testing.T) {
	const loud = "*** NOT CHECKED"
	for _, c := range []struct {
		name, db string
		fails    bool
		says     string
		loud     bool
	}{
		{"finding", database(t, "github.com/go-json-experiment/json"), true, "GO-2020-0001", false},
		{"none", database(t, ""), false, "No vulnerabilities found", false},
		{"unreachable", "", false, "fetching vulnerabilities", true},
		{"not a database", "file:///", true, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "vulns.log")
			args := []string{"-s", "vulns", "VULNPKGS=./host/hashref", "VULNLOG=" + log}
			var env []string
			if c.db != "" {
				args = append(args, "VULNDB="+c.db)
			} else {
				env = []string{"HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY="} // nobody listens there
			}
			out, errs, code := run(t, root(t), env, "make", args...)
			kept, err := os.ReadFile(log)
			if err != nil || (code != 0) != c.fails || !strings.Contains(out, c.says) || strings.Contains(out, loud) != c.loud || string(kept) != out {
				t.Errorf("exit %d (%v): %s%s", code, err, out, errs)
			}
		})
	}
}
