package supply

import (
	"encoding/csv"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// allowed are the licences, by their SPDX names, under which a module may be linked: they ask for no more than their text
// and, of MPL's files, their source, both of which a release holds.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense", "Zlib"}

// chosen names, of what may be had under one licence or another, the one that is taken.
var chosen = map[string]string{
	"kernel.org/pub/linux/libs/security/libcap/psx": "BSD-3-Clause", // or GPL-2.0, as its file says in its first line
}

// judge gives what is wrong with a report of (module, where, licence) rows.
func judge(rows [][]string) []string {
	var wrong []string
	have := map[string][]string{}
	for _, r := range rows {
		have[r[0]] = append(have[r[0]], r[2])
	}
	for name, licences := range have {
		if one := chosen[name]; one != "" {
			if !slices.Contains(licences, one) || !slices.Contains(allowed, one) {
				wrong = append(wrong, fmt.Sprintf("%s: %s was chosen, and it is under %v", name, one, licences))
			}
			continue
		}
		for _, l := range licences {
			if !slices.Contains(allowed, l) {
				wrong = append(wrong, fmt.Sprintf("%s: %s is not allowed", name, l))
			}
		}
	}
	for name := range chosen {
		if have[name] == nil {
			wrong = append(wrong, name+": a licence was chosen for it, and it is not linked")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// TestLicences: every module that the daemon links is under a licence that is allowed.
func TestLicences(t *testing.T) {
	dir := root(t)
	must(t, dir, nil, "make", "-s", "tools")
	goroot := strings.TrimSpace(must(t, dir, nil, "go", "env", "GOROOT"))
	report := must(t, dir, []string{"GOROOT=" + goroot}, filepath.Join(dir, "bin", "tools", "go-licenses"), "report", "./cmd/ailang-worldd")
	rows, err := csv.NewReader(strings.NewReader(report)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range judge(rows) {
		t.Error(w)
	}
	// Each module that is linked is in the report, under its own name or that of a part of it.
	linked := must(t, dir, nil, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/ailang-worldd")
	for _, m := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(linked)))) {
		if !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == m || strings.HasPrefix(r[0], m+"/") }) {
			t.Errorf("%s is linked, and its licence was not found", m)
		}
	}
}

// TestLicenceJudgement: what is not allowed, not known or not what was chosen is told.
func TestLicenceJudgement(t *testing.T) {
	const psx = "kernel.org/pub/linux/libs/security/libcap/psx"
	dual := [][]string{{psx, "", "GPL-2.0"}, {psx, "", "BSD-3-Clause"}}
	for _, c := range []struct {
		name string
		rows [][]string
		tell string
	}{
		{"allowed", append([][]string{{"a", "", "MIT"}, {"b", "", "MPL-2.0"}}, dual...), ""},
		{"copyleft", append([][]string{{"a", "", "AGPL-3.0"}}, dual...), "a: AGPL-3.0 is not allowed"},
		{"unknown", append([][]string{{"a", "", "Unknown"}}, dual...), "a: Unknown is not allowed"},
		{"one of two", append([][]string{{"a", "", "MIT"}, {"a", "", "GPL-3.0"}}, dual...), "a: GPL-3.0 is not allowed"},
		{"no longer to be chosen", [][]string{{psx, "", "GPL-2.0"}}, psx + ": BSD-3-Clause was chosen, and it is under [GPL-2.0]"},
		{"chosen and not linked", [][]string{{"a", "", "MIT"}}, psx + ": a licence was chosen for it, and it is not linked"},
	} {
		if got := strings.Join(judge(c.rows), "; "); got != c.tell {
			t.Errorf("%s: %q, want %q", c.name, got, c.tell)
		}
	}
}
