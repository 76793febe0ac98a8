package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) healthCommand() *cobra.Command {
	var f remoteFlags
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask a daemon how it is",
		Long:  `Asks a daemon for its version, its store and its engines.`,
		Example: `  ailang-worldd health
  ailang-worldd health --addr http://127.0.0.1:7650 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(f)
			if err != nil {
				return err
			}
			h, text, err := c.Health(cmd.Context())
			if err != nil {
				return err
			}
			rows := [][]string{{"status", h.Status}, {"version", h.DaemonVersion}, {"store", h.DBPath}, {"url", c.URL()}}
			if h.InterpreterRef != "" {
				rows = append(rows, []string{"ailang", h.InterpreterRef})
			}
			for _, e := range h.Engines {
				version, _, _ := strings.Cut(e.Version, "\n")
				rows = append(rows, []string{"engine", e.Name + " " + version + " " + e.Ref})
			}
			for _, r := range rows {
				r[1] = printable(r[1], false)
			}
			return a.showRows(f.json, text, rows)
		},
	}
	f.add(c)
	return c
}
