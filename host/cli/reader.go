package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/daemon"
	"ailang.dev/world/host/store"
)

// readFlag adds --db to a verb that only reads: without it, it is the store of `up`.
func readFlag(cmd *cobra.Command, db *string) {
	cmd.Flags().StringVar(db, "db", "", "the store's `FILE`, or postgres://USER@HOST/DATABASE; without it, the one that up made")
}

// readPath is the store that a verb reads.
func (a *app) readPath(cmd *cobra.Command, db string) (string, error) {
	if db != "" {
		return a.dbPath(cmd, db)
	}
	home, err := a.dataHome("")
	if err != nil {
		return "", usage(cmd, "--db FILE is needed: which store?")
	}
	path := filepath.Join(home, "store", "world.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", usage(cmd, "--db FILE is needed: up has made no store at %s", path)
	}
	return path, nil
}

// withReader opens a store as it is now, also one that a daemon is writing, for one
// question.
func (a *app) withReader(cmd *cobra.Command, db string, ask func(ctx context.Context, s store.Store) error) error {
	path, err := a.readPath(cmd, db)
	if err != nil {
		return err
	}
	s, err := daemon.OpenReadOnly(cmd.Context(), a.coreConfig(path, ""))
	if err != nil {
		return err
	}
	defer s.Close()
	return ask(cmd.Context(), s)
}

// withEngines is withReader, with the engines that can run entries again.
func (a *app) withEngines(cmd *cobra.Command, db string, ask func(ctx context.Context, c *daemon.Core) error) error {
	path, err := a.readPath(cmd, db)
	if err != nil {
		return err
	}
	c, err := daemon.OpenReader(cmd.Context(), a.coreConfig(path, ""))
	if err != nil {
		return err
	}
	defer c.Close()
	return ask(cmd.Context(), c)
}
