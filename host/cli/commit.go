package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/client"
	"ailang.dev/world/host/world"
)

func (a *app) commitCommand() *cobra.Command {
	var f remoteFlags
	var file string
	c := &cobra.Command{
		Use:   "commit --file FILE --session FILE",
		Short: "Commit a world transition of your own making",
		Long: `Posts the JSON text of a world transition to /v1/commit as it stands; "-" reads it from
stdin. It is at most 8 MiB. With an invocationId in it, sending it again is safe.`,
		Example: `  ailang-worldd commit --file transition.json --session ~/.world-ep1`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usage(cmd, "--file FILE is needed")
			}
			c, err := a.sessionClient(f)
			if err != nil {
				return err
			}
			body, err := a.readInput(file, client.MaxCommit)
			if err != nil {
				return err
			}
			ref, err := c.Commit(cmd.Context(), body)
			if err != nil {
				return err
			}
			if f.json {
				return writeJSON(a.stdout, map[string]world.Ref{"selectedHead": ref})
			}
			fmt.Fprintln(a.stdout, ref)
			return nil
		},
	}
	f.add(c)
	c.Flags().StringVar(&file, "file", "", "`FILE` with the transition's JSON")
	return c
}

// readInput reads a file whole, or stdin for "-". More than max bytes are refused.
func (a *app) readInput(file string, max int64) ([]byte, error) {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(a.path(file))
		if err != nil {
			return nil, failf("cannot read %s: %v", file, bareIO(err))
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, max+1))
	if err != nil {
		return nil, failf("cannot read %s: %v", file, bareIO(err))
	}
	if int64(len(body)) > max {
		return nil, failf("%s is larger than %d bytes", file, max)
	}
	return body, nil
}
