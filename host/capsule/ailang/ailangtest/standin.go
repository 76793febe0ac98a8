// Package ailangtest builds the program that stands in for an AILANG release in tests, and
// makes releases that differ, or are broken. It is imported by tests only. Answers
// spec/04-capsule.md.
package ailangtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const source = "ailang.dev/world/host/capsule/ailang/testdata/standin"

// Build builds the stand-in into a folder, and gives its path.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "ailang")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the stand-in: %w: %s", err, out)
	}
	return path, nil
}

// Release makes another release of a stand-in: a file of its own, and so of another hash,
// that tells this version and has this fault, "" for none.
func Release(t testing.TB, standin, version, fault string) string {
	t.Helper()
	program, err := os.ReadFile(standin)
	if err != nil {
		t.Fatal(err)
	}
	about, err := json.Marshal(map[string]string{"version": version, "fault": fault})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ailang")
	if err := os.WriteFile(path, append(append(program, "\x00STANDIN"...), about...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Program is a source at a path of a worktree whose main takes "string", "json" or nothing,
// and is one statement of the stand-in's language.
func Program(path, takes, statement string) string {
	if takes != "" {
		takes = "input: " + takes
	}
	return "module " + strings.TrimSuffix(path, ".ail") + "\n\nexport func main(" + takes + ") -> string =\n  " + statement + "\n"
}

// Source is a source whose main is one statement of the stand-in's language.
func Source(statement string) []byte {
	return []byte("-- a comment\n\nmodule host/capsule/main\n\nexport func main(input: string) -> string =\n  " + statement + "\n")
}
