package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/world"
)

// versionInfo is what this program is.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitzero"` // of the source tree, if it was built in one
	Modified bool   `json:"modified,omitzero"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		Long:    `Shows the version of this program; that of a running daemon is told by "ailang-worldd health".`,
		Example: `  ailang-worldd version --json`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: world.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					switch s.Key {
					case "vcs.revision":
						v.Revision = s.Value
					case "vcs.modified":
						v.Modified = s.Value == "true"
					}
				}
			}
			if asJSON {
				return writeJSON(a.stdout, v)
			}
			fmt.Fprintf(a.stdout, "ailang-worldd %s (%s, %s)\n", v.Version, v.Go, v.Platform)
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}
