package repos

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// npmFolder holds the lock of the npm package and of its test runner.
const npmFolder = "npm"

// need skips a test where a program is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIP: the program %s is not installed, and the repository cannot be built without it", p)
		}
	}
}

// module fills a folder with a Go module's files at a version, whose sum must be the one
// that is told; the module proxy serves what is no Go as well.
func module(path, version, sum string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		r := outside(t, t.TempDir(), os.Environ(), []string{"go", "mod", "download", "-json", path + "@" + version})
		var m struct{ Dir, Sum, Error string }
		must(t, json.Unmarshal([]byte(r.stdout), &m))
		if m.Sum != sum || r.exit != 0 {
			t.Fatalf("%s@%s: sum %q, want %q; %s%s", path, version, m.Sum, sum, m.Error, r.stderr)
		}
		copyTree(t, m.Dir, dir)
	}
}

// npmPackage fills a folder with the files of a package of npmFolder's lock.
func npmPackage(name string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		copyTree(t, filepath.Join(npmModules(t), name), dir)
	}
}

// npmModules is the node_modules of npmFolder, installed by its lock if they are not there.
func npmModules(t *testing.T) string {
	t.Helper()
	top, err := filepath.Abs(npmFolder)
	must(t, err)
	if _, err := os.Stat(filepath.Join(top, "node_modules")); err != nil {
		r := outside(t, top, os.Environ(), []string{"npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"})
		if r.exit != 0 {
			t.Fatalf("npm ci: %s%s", r.stdout, r.stderr)
		}
	}
	return filepath.Join(top, "node_modules")
}

// copyTree copies regular files, and makes the copies writable.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, text, 0o644)
	}))
}

// add writes files that the owner of a repository adds to it.
func add(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		must(t, err)
		_, err = f.WriteString(text)
		must(t, err)
		must(t, f.Close())
	}
}

// programPath is a PATH that has these programs, and the folders beside the system's own
// that a command must see for them.
func programPath(t *testing.T, programs ...string) (path string, readOnly []string) {
	t.Helper()
	dirs := []string{"/usr/local/bin", "/usr/bin", "/bin"}
	for _, p := range programs {
		at, err := exec.LookPath(p)
		must(t, err)
		real, err := filepath.EvalSymlinks(at)
		must(t, err)
		if strings.HasPrefix(real, "/usr/bin/") || strings.HasPrefix(real, "/bin/") {
			continue
		}
		dirs = append([]string{filepath.Dir(real)}, dirs...)
		readOnly = append(readOnly, filepath.Dir(filepath.Dir(real)))
	}
	return strings.Join(dirs, ":"), readOnly
}
