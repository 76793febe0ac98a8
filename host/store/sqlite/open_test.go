package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// made is the path of a closed store with a few entries, in a folder of its own.
func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "world.db")
	s := mustOpen(t, path, sqlstore.Hooks{})
	commit(t, s, storetest.Genesis())
	for i := range 20 {
		if _, err := s.Append(t.Context(), storetest.Call(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustOpen(t testing.TB, path string, hooks sqlstore.Hooks) *Store {
	t.Helper()
	s, err := Open(context.Background(), Options{Path: path, Hooks: hooks, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// script changes a database file through a connection that knows nothing of stores.
func script(t *testing.T, path, sql string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteScript(c, sql, nil), c.Close()); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	cases := []struct {
		name string
		kind world.Kind
		says string
		path func(t *testing.T) string
	}{
		{"no path", world.KindInternal, "needs a path", func(t *testing.T) string { return "" }},
		{"a folder", world.KindSchema, "is a folder", func(t *testing.T) string { return t.TempDir() }},
		{"a folder that is missing", world.KindInternal, "make the folder first", func(t *testing.T) string {
			return filepath.Join(t.TempDir(), "missing", "world.db")
		}},
		{"a file for a folder", world.KindInternal, "cannot be reached", func(t *testing.T) string {
			return filepath.Join(made(t), "world.db")
		}},
		{"a pipe", world.KindSchema, "regular file", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "pipe")
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"a link to nothing", world.KindInternal, "link to nothing", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink("nothing", path); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"an empty file", world.KindIntegrity, "empty file", func(t *testing.T) string {
			path := made(t)
			cut(t, path, 0)
			return path
		}},
		{"a text", world.KindSchema, "is not a store", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "text")
			write(t, path, strings.Repeat("a text\n", 1000))
			return path
		}},
		{"a header cut short", world.KindIntegrity, "cut short", func(t *testing.T) string {
			path := made(t)
			cut(t, path, 50)
			return path
		}},
		{"a file cut short", world.KindIntegrity, "damaged", func(t *testing.T) string {
			path := made(t)
			cut(t, path, 5000)
			return path
		}},
		{"another SQLite database", world.KindSchema, "not a store", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "other.db")
			script(t, path, "CREATE TABLE meta (id, store_id, version, sum);")
			return path
		}},
		{"a newer format in the header", world.KindSchema, "newer version", func(t *testing.T) string {
			path := made(t)
			script(t, path, fmt.Sprintf("PRAGMA user_version = %d;", Version+1))
			return path
		}},
		{"a newer format in the meta row", world.KindSchema, "newer version", func(t *testing.T) string {
			path := made(t)
			c := connection(t, path)
			var id string
			if _, err := c.one("SELECT store_id FROM meta", nil, func(k *cols) error { id = k.text(); return nil }); err != nil {
				t.Fatal(err)
			}
			if err := c.do("UPDATE meta SET version = ?, sum = ?", func(p *params) { p.int(Version+1, sqlstore.SumMeta(id, Version+1)) }); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"an older format", world.KindSchema, "before the first release", func(t *testing.T) string {
			path := made(t)
			script(t, path, "PRAGMA user_version = 1;")
			return path
		}},
		{"a damaged meta row", world.KindIntegrity, "meta row", func(t *testing.T) string {
			path := made(t)
			script(t, path, "UPDATE meta SET store_id = 'other';")
			return path
		}},
		{"no meta row", world.KindIntegrity, "meta row", func(t *testing.T) string {
			path := made(t)
			script(t, path, "DELETE FROM meta;")
			return path
		}},
		{"no meta table", world.KindSchema, "is not a store", func(t *testing.T) string {
			path := made(t)
			script(t, path, "DROP TABLE meta;")
			return path
		}},
		{"a table lost", world.KindIntegrity, "table journal is missing", func(t *testing.T) string {
			path := made(t)
			script(t, path, "DROP TABLE journal;")
			return path
		}},
		{"a log without its database", world.KindIntegrity, "-wal", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "world.db")
			write(t, path+"-wal", "left")
			return path
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := c.path(t)
			before := content(t, path)
			s, err := Open(context.Background(), Options{Path: path, Logf: t.Logf})
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if world.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Fatalf("error %q (kind %v), want kind %v, %q and the path", err, world.KindOf(err), c.kind, c.says)
			}
			if diff := cmp.Diff(before, content(t, path)); diff != "" {
				t.Fatalf("the file was changed:\n%s", diff)
			}
		})
	}
}

// content is what is in a file, or a word for what it is else.
func content(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if path == "" || err != nil || !info.Mode().IsRegular() {
		return fmt.Sprint(info != nil)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOpenWithoutRights(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"the file may not be written": func(path string) error { return os.Chmod(path, 0o444) },
		"the folder may not be written": func(path string) error {
			return errors.Join(os.Remove(path+LockSuffix), os.Chmod(filepath.Dir(path), 0o555))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := made(t)
			asNobody(t, filepath.Dir(path), func() {
				if err := change(path); err != nil {
					t.Fatal(err)
				}
				defer os.Chmod(filepath.Dir(path), 0o700)
				s, err := Open(context.Background(), Options{Path: path})
				if err == nil {
					s.Close()
					t.Fatal("opened")
				}
				if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "writable") {
					t.Fatalf("%v", err)
				}
			})
		})
	}
}

// asNobody runs f on a thread that has no more rights on files than their modes give.
func asNobody(t *testing.T, dir string, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(nobody); err != nil {
		t.Fatal(err)
	}
	defer unix.SetfsuidRetUid(0)
	f()
}

func TestWriterLock(t *testing.T) {
	path := made(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, sqlstore.Hooks{})
	for _, name := range []string{path, link} {
		_, err := Open(context.Background(), Options{Path: name})
		want := fmt.Sprintf("the store is open in process %d (%s)", os.Getpid(), filepath.Base(os.Args[0]))
		if world.KindOf(err) != world.KindLocked || world.Message(err) != want {
			t.Fatalf("%v, want %q", err, want)
		}
	}
	if _, err := s.Append(t.Context(), storetest.Call("still ours")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, link, sqlstore.Hooks{})
	defer s.Close()
	if s.Path() != path {
		t.Fatalf("path %q, want %q", s.Path(), path)
	}
	storetest.CheckWhole(t, s)
}

func TestFilesAreOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file:odd?name#%20.db")
	write(t, path+".creating", "left by a crash")
	s := mustOpen(t, path, sqlstore.Hooks{})
	commit(t, s, storetest.Genesis())
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
		names = append(names, strings.TrimPrefix(e.Name(), filepath.Base(path)))
	}
	if diff := cmp.Diff([]string{"", "-shm", "-wal", LockSuffix}, names); diff != "" {
		t.Errorf("files:\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path + LockSuffix); err != nil || len(b) != 0 {
		t.Errorf("the lock file of a closed store says %q, %v", b, err)
	}
}

// TestEverythingIsCommented reads what anybody who opens the file is told of it.
func TestEverythingIsCommented(t *testing.T) {
	tables := 0
	err := connection(t, made(t)).each("SELECT name, sql FROM sqlite_schema WHERE type = 'table'", nil, func(k *cols) error {
		tables++
		name, lines := k.text(), strings.Split(k.text(), "\n")
		for _, line := range lines[:len(lines)-1] {
			if !strings.Contains(line, "-- ") && !strings.Contains(line, "PRIMARY KEY (") {
				t.Errorf("%s: no comment: %s", name, line)
			}
		}
		return nil
	})
	if err != nil || tables != 13 {
		t.Fatalf("%d tables, %v", tables, err)
	}
}

func connection(t testing.TB, path string) *conn {
	t.Helper()
	c, err := newDatabase(path, Limits{}, t.Logf, nil).connectWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
