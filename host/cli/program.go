package cli

import (
	"path/filepath"
	"strings"

	"ailang.dev/world/host/cli/shell"
)

// program is how a person started this program, for the commands that up tells to copy:
// the name where it is on the path, its path elsewhere, and `go run` while the Go command
// runs it out of a folder that is gone afterwards.
func (e Env) program() string {
	switch {
	case e.Exe == "" || e.onPath():
		return "ailang-worldd"
	case strings.Contains(e.Exe, string(filepath.Separator)+"go-build"):
		return "go run ./cmd/ailang-worldd"
	}
	return shell.Word(e.Exe)
}

// onPath tells whether a folder of $PATH holds this very program under its own name.
func (e Env) onPath() bool {
	for _, dir := range filepath.SplitList(e.Get("PATH")) {
		if dir != "" && filepath.Join(dir, "ailang-worldd") == e.Exe {
			return true
		}
	}
	return false
}
