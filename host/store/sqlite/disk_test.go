package sqlite

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ailang.dev/world/host/store/sqlstore"
	"ailang.dev/world/host/store/storetest"
	"ailang.dev/world/host/world"
)

// limitFiles bounds, in bytes, how far this process may extend any file.
func limitFiles(t *testing.T, bytes uint64) {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
		t.Fatal(err)
	}
	l.Cur = min(bytes, l.Max)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
		t.Fatal(err)
	}
}

// TestWriteErrorAtCommit lets the operating system refuse what a commit writes, at every
// length of it, and then expects the store to know what is durable, or to say that it
// does not, and to go on once files may be written again.
func TestWriteErrorAtCommit(t *testing.T) {
	signal.Ignore(unix.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(unix.SIGXFSZ) })
	path := filepath.Join(t.TempDir(), "world.db")
	room := uint64(math.MaxUint64)
	hooks := sqlstore.Hooks{BeforeCommit: func() {
		if room == math.MaxUint64 {
			return
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Error(err)
			return
		}
		limitFiles(t, uint64(info.Size())+room)
	}}
	s := mustOpen(t, path, hooks)
	t.Cleanup(func() { limitFiles(t, math.MaxUint64) })
	commit(t, s, storetest.Genesis())
	const frame = 4096 + 24
	kinds := make(map[world.Kind]int)
	for i := range uint64(40) {
		room = i * frame / 2
		before := head(t, s).Next
		a := storetest.Call(fmt.Sprint(i))
		_, err := s.Append(t.Context(), a)
		if err != nil {
			kinds[world.KindOf(err)]++
		}
		if next := head(t, s).Next; (next > before) != (err == nil) {
			t.Fatalf("room %d: next %d after %d, %v", room, next, before, err)
		}
		room = math.MaxUint64
		limitFiles(t, math.MaxUint64)
		// An answer that was uncertain is certain now, and this one stands on it.
		if _, err := s.Append(t.Context(), storetest.Call(fmt.Sprint("after ", i))); err != nil {
			t.Fatalf("room %d: %v", room, err)
		}
		if i%10 == 0 {
			storetest.CheckWhole(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, path, hooks)
		}
	}
	t.Logf("answers: %v", kinds)
	if kinds[world.KindUncertain]+kinds[world.KindInternal] == 0 {
		t.Fatal("no commit failed")
	}
	storetest.CheckWhole(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull is TestFull on a real, small file system.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1500k,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, filler := filepath.Join(dir, "world.db"), filepath.Join(dir, "filler")
	write(t, filler, strings.Repeat("x", 400<<10))
	s := mustOpen(t, path, sqlstore.Hooks{})
	commit(t, s, storetest.Genesis())
	acked, refused := 0, 0
	fill := func() {
		t.Helper()
		for refused = 0; refused < 5; {
			a := storetest.Call(fmt.Sprint("call ", acked, refused))
			a.Objects = append(a.Objects, world.NewObject("test", "", []byte(strings.Repeat(fmt.Sprint(acked), 2000))))
			_, err := s.Append(t.Context(), a)
			switch {
			case err == nil:
				acked++
			case world.KindOf(err) == world.KindStoreFull:
				refused++
			default:
				t.Fatalf("after %d: %v (kind %v)", acked, err, world.KindOf(err))
			}
			if acked > 10_000 {
				t.Fatal("the disk does not fill")
			}
		}
		if all := storetest.CheckWhole(t, s); len(all) != acked+1 {
			t.Fatalf("%d entries, acknowledged %d", len(all), acked+1)
		}
	}
	fill()
	t.Logf("%d calls until it was full", acked)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	had := acked
	fill()
	t.Logf("%d calls more after room was made", acked-had)
	if acked == had {
		t.Fatal("it does not go on")
	}
	if err := s.Close(); err != nil {
		t.Logf("close on a full disk: %v", err)
	}
	s = mustOpen(t, path, sqlstore.Hooks{})
	if all := storetest.CheckWhole(t, s); len(all) != acked+1 {
		t.Fatalf("%d entries after reopening, acknowledged %d", len(all), acked+1)
	}
	if err := s.Close(); err != nil {
		t.Logf("close on a full disk: %v", err)
	}
}
