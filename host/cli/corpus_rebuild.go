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
