package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/registry"
)

func (a *app) transitionsCheckCommand() *cobra.Command {
	var db, file, bin string
	var asJSON bool
	c := &cobra.Command{
		Use:   "check --manifest FILE [--db FILE] [--ailang-bin BINARY]",
		Short: "Tell whether a manifest could be published",
		Long: `Checks a manifest and its sources as publish would, and publishes nothing. With --db it is
checked against that store: its epochs, and sources that the manifest names by hash. Without
it this program's engines alone decide. .ail sources need --ailang-bin, unless a daemon
that has one serves the store.`,
		Example: `  ailang-worldd transitions check --manifest transitions/manifest.json`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := a.readManifest(cmd, file)
			if err != nil {
				return err
			}
			ids, err := a.check(cmd, db, bin, m)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, map[string][]string{"ok": ids})
			}
			fmt.Fprintf(a.stdout, "ok: %s\n", strings.Join(ids, " "))
			return nil
		},
	}
	dbFlag(c, &db)
	manifestFlag(c, &file)
	ailangFlag(c, &bin)
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) check(cmd *cobra.Command, db, bin string, m registry.Manifest) ([]string, error) {
	ctx := cmd.Context()
	if db == "" {
		return a.checkAlone(ctx, bin, m)
	}
	path, err := a.dbPath(cmd, db)
	if err != nil {
		return nil, err
	}
	ops, err := a.openOpsWith(ctx, path, false, bin)
	if err != nil {
		return nil, err
	}
	defer ops.Close()
	return ops.Check(ctx, m)
}

// checkAlone checks against a store that was just made, and is thrown away.
func (a *app) checkAlone(ctx context.Context, bin string, m registry.Manifest) ([]string, error) {
	tmp := a.env.Get("TMPDIR")
	dir, err := os.MkdirTemp(tmp, "ailang-world-check-*")
	if err != nil {
		return nil, failf("cannot make a folder to check in: %v", bareIO(err))
	}
	defer os.RemoveAll(dir)
	ops, err := a.openOpsWith(ctx, filepath.Join(dir, "check.db"), true, bin)
	if err != nil {
		return nil, err
	}
	defer ops.Close()
	return ops.Check(ctx, m)
}
