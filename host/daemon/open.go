package daemon

import (
	"context"
	"os"
	"path/filepath"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/postgres"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/world"
)

// openStore opens the store that the configuration names, to be written.
func (c *Core) openStore(ctx context.Context, hooks sqlstore.Hooks) error {
	cfg := &c.Config
	if postgres.IsURL(cfg.DB) {
		s, err := postgres.Open(ctx, postgres.Options{URL: cfg.DB, Logf: cfg.Logf, Hooks: hooks})
		if err != nil {
			return err
		}
		return c.take(s, "")
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: cfg.DB, Logf: cfg.Logf, Hooks: hooks})
	if err != nil {
		return err
	}
	return c.take(s, s.Path())
}

// take makes an open store the core's, and finds what stands beside it. path is the file's; ""
// for a database.
func (c *Core) take(s store.Store, path string) (err error) {
	c.Store, c.Base = s, c.Config.DB
	if path == "" {
		if c.Base, err = Beside(c.Config.DataDir, s.ID()); err != nil {
			s.Close()
			return err
		}
		path = c.Base
	}
	c.archive = path + ArchiveSuffix
	return nil
}

// Beside is the path that what stands beside a database's world is named after, in a folder of
// this user alone, which is made.
func Beside(dataDir, storeID string) (string, error) {
	if dataDir == "" {
		return "", world.Errorf(world.KindBadRequest, "daemon.OpenCore", "a world in a database needs a folder on this machine, and none is named: set XDG_DATA_HOME or HOME")
	}
	dir := filepath.Join(dataDir, "postgres", storeID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(dir, "world"), nil
}

// OpenReadOnly opens a store to be read as it is at this moment, beside whoever writes it.
func OpenReadOnly(ctx context.Context, cfg CoreConfig) (store.Store, error) {
	s, _, err := openReadOnly(ctx, cfg)
	return s, err
}

// openReadOnly also gives the file's path; "" for a database.
func openReadOnly(ctx context.Context, cfg CoreConfig) (store.Store, string, error) {
	if postgres.IsURL(cfg.DB) {
		s, err := postgres.OpenReadOnly(ctx, postgres.Options{URL: cfg.DB, Logf: cfg.Logf})
		if err != nil {
			return nil, "", err
		}
		return s, "", nil
	}
	s, err := sqlite.OpenReadOnly(ctx, sqlite.Options{Path: cfg.DB, Logf: cfg.Logf})
	if err != nil {
		return nil, "", err
	}
	return s, s.Path(), nil
}
