package cli

import "testing"

func TestProgramIsWhatCanBeCopied(t *testing.T) {
	for exe, want := range map[string]string{
		"":                       "ailang-worldd",
		"/usr/bin/ailang-worldd": "ailang-worldd",
		"/tmp/go-build123/b001/exe/ailang-worldd": "go run ./cmd/ailang-worldd",
		"/opt/my tools/ailang-worldd":             "'/opt/my tools/ailang-worldd'",
		"/src/bin/ailang-worldd":                  "/src/bin/ailang-worldd",
	} {
		e := Env{Exe: exe, Environ: []string{"PATH=/bin:/usr/bin"}}
		if got := e.program(); got != want {
			t.Errorf("%q: %q, want %q", exe, got, want)
		}
	}
}
