package supply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/world"
)

var fresh = flag.Bool("fresh", false, "compile the second release of TestReleaseIsReproducible anew, with an empty build cache")

// copyTree copies the files of the repository, as they are, into a folder that is no repository.
func copyTree(t *testing.T, to string) {
	t.Helper()
	from := root(t)
	for _, name := range strings.Split(strings.TrimSuffix(must(t, from, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		if err != nil || !info.Mode().IsRegular() {
			t.Fatalf("%s: %v %v", name, info, err)
		}
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

// release makes a release in a folder of its own, under a umask, and gives that of its files.
func release(t *testing.T, dir, umask string, env ...string) string {
	t.Helper()
	copyTree(t, dir)
	must(t, dir, env, "sh", "-c", "umask "+umask+" && exec make -s release")
	return filepath.Join(dir, "bin", "release")
}

// sums gives the hash of each file of a folder.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		rel, err := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReleaseIsReproducible makes a release in two folders, one of them deeper, with another umask, time zone and language, and build flags
// in the environment: each file has the same bytes. Then it looks at what a release holds.
func TestReleaseIsReproducible(t *testing.T) {
	one := release(t, filepath.Join(t.TempDir(), "a"), "022")
	env := []string{"TZ=Asia/Tokyo", "LANG=de_DE.UTF-8", "GOFLAGS=-ldflags=-X=main.x=1", "CGO_ENABLED=1", "SOURCE_DATE_EPOCH=1"}
	if *fresh {
		env = append(env, "GOCACHE="+t.TempDir())
	}
	two := release(t, filepath.Join(t.TempDir(), "other", "b"), "077", env...)
	first := sums(t, one)
	if d := cmp.Diff(first, sums(t, two)); d != "" {
		t.Errorf("two releases differ: %s", d)
	}
	goos, goarch := strings.TrimSpace(must(t, one, nil, "go", "env", "GOOS")), strings.TrimSpace(must(t, one, nil, "go", "env", "GOARCH"))
	name := "ailang-worldd-" + world.Version + "-" + goos + "-" + goarch
	unpacked := t.TempDir()
	must(t, unpacked, nil, "tar", "-xzf", filepath.Join(one, name+".tar.gz"))
	top := filepath.Join(unpacked, name)
	must(t, one, nil, "sha256sum", "--quiet", "-c", name+".tar.gz.sha256")
	must(t, top, nil, "sha256sum", "--quiet", "-c", "SHA256SUMS")
	inside := sums(t, top)
	for path, sum := range inside {
		if first[name+"/"+path] != sum {
			t.Errorf("%s of the archive is not the one beside it", path)
		}
	}
	bin := filepath.Join(top, "ailang-worldd")
	if out := must(t, top, nil, bin, "--version"); out != "ailang-worldd "+world.Version+"\n" {
		t.Errorf("--version: %q", out)
	}
	text, err := os.ReadFile(bin)
	if err != nil || strings.Contains(string(text), filepath.Dir(filepath.Dir(one))) || strings.Contains(string(text), root(t)) {
		t.Errorf("the program tells where it was made (%v)", err)
	}
	linked := modules(t, bin)
	if d := cmp.Diff(linked, components(t, filepath.Join(top, "sbom.cdx.json"))); d != "" {
		t.Errorf("the SBOM is not what is linked: %s", d)
	}
	for _, m := range linked {
		path, _, _ := strings.Cut(m, "@")
		if path == "std" {
			path = "go"
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(inside)), func(f string) bool { return strings.HasPrefix(f, "licences/"+path+"/") }) {
			t.Errorf("the archive has no licence of %s", m)
		}
	}
	for _, f := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "docs/operator.md", "licences/pdfium.txt", "licences/go/LICENSE"} {
		if inside[f] == "" {
			t.Errorf("the archive has no %s", f)
		}
	}
}

// modules are the modules in a program, by what the linker wrote into it, and the standard library.
func modules(t *testing.T, bin string) []string {
	t.Helper()
	var all []string
	for i, line := range strings.Split(must(t, filepath.Dir(bin), nil, "go", "version", "-m", bin), "\n") {
		f := strings.Fields(line)
		if i == 0 {
			all = append(all, "std@"+f[len(f)-1])
		} else if len(f) > 2 && f[0] == "dep" {
			all = append(all, f[1]+"@"+f[2])
		} else if len(f) > 0 && f[0] == "=>" {
			t.Errorf("a module was replaced: %s", line)
		}
	}
	slices.Sort(all)
	return all
}

// components are the modules that an SBOM names. It has no time and no number of its own.
func components(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat, SpecVersion string
		SerialNumber           *string
		Metadata               struct {
			Timestamp *string
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.SpecVersion == "" || bom.SerialNumber != nil || bom.Metadata.Timestamp != nil ||
		bom.Metadata.Component.Name != "ailang.dev/world" || bom.Metadata.Component.Version != "v"+world.Version {
		t.Errorf("the SBOM begins %+v", bom.Metadata)
	}
	var all []string
	for _, c := range bom.Components {
		all = append(all, c.Name+"@"+c.Version)
	}
	slices.Sort(all)
	return all
}
