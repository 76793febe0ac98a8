package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func (a *app) exportCommand() *cobra.Command {
	var db, episode, format, out string
	var force, asJSON bool
	c := &cobra.Command{
		Use:   "export [--db FILE] --episode NAME [--format bundle|in-toto|otlp] [--out FILE]",
		Short: "Write an episode's record to a file that proves itself alone",
		Long: `Writes what an episode did, to stdout or a file:

  bundle   lines of JSON: its entries and those between them, and every object that its own
           stand on; verify --bundle proves it without the store
  in-toto  an in-toto statement a line, one for each call: what it made, and its chain
  otlp     OpenTelemetry spans, as OTLP JSON: one a call, and below it one an effect. The log
           has order and no time; spans stand at their index in milliseconds

Credentials are in none of them.`,
		Example: `  ailang-worldd export --episode ep1 --out ep1.bundle
  ailang-worldd verify --bundle ep1.bundle`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if episode == "" {
				return usage(cmd, "--episode NAME is needed: whose record?")
			}
			if err := world.CheckEpisode(episode); err != nil {
				return usage(cmd, "%v", err)
			}
			broken := 0
			write, ok := map[string]func(context.Context, store.Store, io.Writer) error{
				"bundle": func(ctx context.Context, s store.Store, w io.Writer) error {
					var err error
					broken, err = provenance.Export(ctx, s, s.ID(), episode, w, a.ticker("exported", "entries"))
					return err
				},
				"in-toto": func(ctx context.Context, s store.Store, w io.Writer) (err error) {
					broken, err = provenance.ExportStatements(ctx, s, episode, w)
					return err
				},
				"otlp": func(ctx context.Context, s store.Store, w io.Writer) (err error) {
					broken, err = provenance.ExportSpans(ctx, s, s.ID(), episode, w)
					return err
				},
			}[format]
			if !ok {
				return usage(cmd, "--format is bundle, in-toto or otlp")
			}
			return a.withReader(cmd, db, func(ctx context.Context, s store.Store) (err error) {
				defer func() {
					if err == nil && broken > 0 {
						a.tell("%s in the store: what they lead to is not in the %s export; `ailang-worldd verify` names them", plainCount(broken, "broken link"), format)
						err = exitError(ExitIntegrity)
					}
				}()
				if out == "" {
					return write(ctx, s, a.stdout)
				}
				if err := a.toFile(out, force, func(w io.Writer) error { return write(ctx, s, w) }); err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.stdout, map[string]string{"file": a.path(out), "format": format})
				}
				a.tell("written to %s", a.path(out))
				if format == "bundle" {
					a.tell("next: ailang-worldd verify --bundle %s", a.path(out))
				}
				return nil
			})
		},
	}
	readFlag(c, &db)
	c.Flags().StringVar(&episode, "episode", "", "whose record, `NAME`")
	c.Flags().StringVar(&format, "format", "bundle", "bundle, in-toto or otlp")
	c.Flags().StringVar(&out, "out", "", "`FILE` to write to, whole or not at all; without it, stdout")
	c.Flags().BoolVar(&force, "force", false, "let --out replace a file")
	jsonFlag(c, &asJSON)
	return c
}

// toFile has a file written whole, or not at all.
func (a *app) toFile(name string, over bool, write func(io.Writer) error) error {
	path := a.path(name)
	if _, err := os.Lstat(path); err == nil && !over {
		return failf("%s is there already", path).hinted("name another file, or add --force")
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return failf("cannot write %s: %v", path, bareIO(err))
	}
	defer os.Remove(f.Name()) // it is gone once it was renamed
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
