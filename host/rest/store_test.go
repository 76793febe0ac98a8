package rest_test

import (
	"path/filepath"
	"testing"

	"ailang.dev/world/host/store"
	"ailang.dev/world/host/store/sqlite"
	"ailang.dev/world/host/store/sqlstore"
)

// openStore is a new store in a file of its own.
func openStore(t testing.TB, hooks sqlstore.Hooks) store.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{
		Path: filepath.Join(t.TempDir(), "world.db"), Logf: t.Logf, Hooks: hooks,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return st
}
