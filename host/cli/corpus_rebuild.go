package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/store"
)

func (a *app) rebuildCorpus(cmd *cobra.Command, db, name string, asJSON bool) error {
	base, err := a.beside(cmd.Context(), db)
	if err != nil {
		return err
	}
	return a.withReader(cmd, db, func(ctx context.Context, s store.Store) error {
		defer a.progress("making the index of " + name + " anew")()
		missing := []string{}
		n, err := corpus.Rebuild(ctx, corpus.Dir(base), name, s, func(id string, err error) {
			missing = append(missing, id)
			fmt.Fprintf(a.stderr, "left out: %s: %s\n", printable(id, false), describe(err).Message)
		})
		if err != nil {
			return err
		}
		if asJSON {
			err = writeJSON(a.stdout, map[string]any{"corpus": name, "documents": n, "left_out": missing})
		} else {
			fmt.Fprintf(a.stdout, "corpus %s is made anew: %d document%s\n", name, n, plural(n))
		}
		if err == nil && len(missing) > 0 {
			err = exitError(ExitError)
		}
		return err
	})
}

func (a *app) corpusRebuildCommand() *cobra.Command {
	var db string
	var asJSON bool
	c := &cobra.Command{
		Use:   "rebuild NAME [--db FILE]",
		Short: "Make the index of a corpus anew out of its documents",
		Long: `Makes the index of a corpus anew, out of the list that stands beside it and the documents'
objects in the store: for one that is damaged, lost, or of another version. Searches see
the old one until the new one is whole. A document whose object cannot be read is named
and left out; the exit code is then 1.`,
		Example: `  ailang-worldd corpus rebuild library`,
		Args:    exactly(1, "the NAME of a corpus"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.readPath(cmd, db)
			if err != nil {
				return err
			}
			return a.rebuildCorpus(cmd, path, args[0], asJSON)
		},
	}
	readFlag(c, &db)
	jsonFlag(c, &asJSON)
	return c
}
