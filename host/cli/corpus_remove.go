package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/handlers/corpus"
)

func (a *app) corpusRemoveCommand() *cobra.Command {
	var db string
	var yes, asJSON bool
	c := &cobra.Command{
		Use:   "remove NAME [DOCUMENT…] [--db FILE] [--yes]",
		Short: "Take documents out of a corpus, or remove it whole",
		Long: `Takes documents out of a corpus by their ids, all of them or none; without an id it removes
the whole corpus. They are not found any more. Their objects stay in the store, since
entries of the log may cite them. It is asked about on the terminal; without a terminal
it needs --yes.`,
		Example: `  ailang-worldd corpus remove library old-notes --yes`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(cmd, "NAME is needed: which corpus?")
			}
			return a.withLibrary(cmd, db, func(ctx context.Context, dir string, lib *corpus.Library) error {
				if err := a.removeFrom(ctx, dir, lib, args[0], args[1:], yes); err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.stdout, map[string]any{"corpus": args[0], "removed": cmp.Or(len(args)-1, -1)})
				}
				if len(args) == 1 {
					fmt.Fprintf(a.stdout, "corpus %s is removed\n", args[0])
				} else {
					fmt.Fprintf(a.stdout, "removed %d document%s of corpus %s\n", len(args)-1, plural(len(args)-1), args[0])
				}
				return nil
			})
		},
	}
	readFlag(c, &db)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) removeFrom(ctx context.Context, dir string, lib *corpus.Library, name string, ids []string, yes bool) error {
	what := fmt.Sprintf("%d document%s of corpus %s", len(ids), plural(len(ids)), name)
	if len(ids) == 0 {
		what = "The whole corpus " + name
	}
	if err := corpus.CheckName(name); err != nil {
		return err
	}
	if len(ids) > 0 {
		if err := lib.Has(name); err != nil {
			return err
		}
	}
	if err := a.confirm(ctx, yes, what+" will not be found any more.\n", "Remove?"); err != nil {
		return err
	}
	if len(ids) == 0 {
		return corpus.Drop(ctx, dir, name)
	}
	w, err := corpus.OpenWriter(ctx, dir, name)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Remove(ctx, ids); err != nil {
		return err
	}
	return w.Finish(ctx)
}
