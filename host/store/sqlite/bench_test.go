package sqlite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

// BenchmarkAppend is the durable half of a pure call: three small objects, an entry with
// its world, a journal row, and the references of the record.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := benchOpen(b, filepath.Join(b.TempDir(), "world.db"))
			defer s.Close()
			if _, err := s.Commit(context.Background(), benchGenesis()); err != nil {
				b.Fatal(err)
			}
			benchAppend(b, s, callers, 0)
		})
	}
}

func benchOpen(b *testing.B, path string) *Store {
	b.Helper()
	s, err := Open(context.Background(), Options{Path: path, Logf: b.Logf})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// benchAppend appends b.N calls, numbered from first on, and tells how many bytes the
// process wrote for each.
func benchAppend(b *testing.B, s *Store, callers int, first int64) {
	wrote := written(b)
	b.ReportAllocs()
	b.ResetTimer()
	appendMany(b, s, callers, first, int64(b.N))
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(written(b)-wrote)/1024/float64(b.N), "KB-written/op")
}

func appendMany(b *testing.B, s *Store, callers int, first, n int64) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				if _, err := s.Append(context.Background(), benchCall(first+i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// written is how many bytes this process had written to files.
func written(b *testing.B) (n int64) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Logf("bytes written are not known: %v", err)
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "wchar: "); ok {
			n, _ = strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		}
	}
	return n
}

var million = flag.Int64("million", 20_000, "entries of the large store of BenchmarkGrowth")

// BenchmarkGrowth does the same on a store of 1,000 entries and on a large one. What is on
// a call's path must not cost more on the large one.
func BenchmarkGrowth(b *testing.B) {
	for _, size := range []int64{1000, *million} {
		path := filepath.Join(b.TempDir(), "world.db")
		s := benchOpen(b, path)
		if _, err := s.Commit(context.Background(), benchGenesis()); err != nil {
			b.Fatal(err)
		}
		appendMany(b, s, 64, 0, size)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("entries=%d", size), func(b *testing.B) { benchStore(b, path, size) })
	}
}

func benchStore(b *testing.B, path string, size int64) {
	ctx := context.Background()
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if err := benchOpen(b, path).Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	s := benchOpen(b, path)
	defer s.Close()
	any := func() int64 { return 1 + rand.Int64N(size) }
	for _, c := range []struct {
		name string
		read func() error
	}{
		{"head", func() error { _, err := s.Head(ctx); return err }},
		{"entry", func() error { _, err := s.Entry(ctx, any()); return err }},
		{"object", func() error { _, err := s.Object(ctx, benchCall(any()).StateRoot); return err }},
		{"invocation absent", func() error { _, err := s.Invocation(ctx, benchCall(-any()).Invocation); return err }},
		{"invocation", func() error { _, err := s.Invocation(ctx, benchCall(any()).Invocation); return err }},
		{"semantic page", func() error {
			_, err := s.ObjectsBySemanticID(ctx, world.SemOutput, benchCall(any()).StateRoot, 100)
			return err
		}},
		{"referrers", func() error { _, err := s.Referrers(ctx, benchCall(any()).StateRoot, 0, 100); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	done := size
	b.Run("append callers=64", func(b *testing.B) {
		benchAppend(b, s, 64, done)
		done += int64(b.N)
	})
	b.Run("append callers=1", func(b *testing.B) {
		benchAppend(b, s, 1, done)
		done += int64(b.N)
	})
}

func benchGenesis() store.Commit {
	return store.Commit{
		NextWorld: world.World{Ref: hashref.SumString("world"), StateRoot: hashref.SumString("state"), LogHead: hashref.SumString("entry")},
		Entry: world.Entry{
			Header:        world.EntryHeader{PrevEntryHash: hashref.Zero, WrittenBy: "bench"},
			EntryHash:     hashref.SumString("entry"),
			TransitionRef: hashref.SumString("transition"),
		},
	}
}

func benchCall(i int64) store.Append {
	fn, engine := hashref.SumString("fn"), hashref.SumString("engine")
	writer := world.SurfaceMCP.Writer()
	in := world.NewObject(world.SemInput, writer, fmt.Appendf(nil, `{"text":"the %d. message"}`, i))
	out := world.NewObject(world.SemOutput, writer, fmt.Appendf(nil, `{"ok":true,"text":"the %d. message"}`, i))
	id := world.AgentInvocation("bench", hashref.SumString(fmt.Sprint(i)).Hex()[:32])
	rec := world.NewObject(world.SemRecordV1, writer, fmt.Appendf(nil,
		`{"episodeId":"bench","input":"%s","interpreter":"%s","invocationId":"%s","output":"%s","semanticsEpoch":1,"skillId":"tools.echo","transitionFn":"%s"}`,
		in.Hash, engine, id, out.Hash, fn))
	return store.Append{
		Invocation: id, Digest: in.Hash, Objects: []world.Object{in, out, rec}, TransitionFn: fn, Interpreter: engine,
		SemanticsEpoch: 1, WrittenBy: writer, TransitionRef: rec.Hash, StateRoot: out.Hash,
	}
}

// BenchmarkRead is the reads that every call does.
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	s, err := Open(ctx, Options{Path: filepath.Join(b.TempDir(), "world.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ses := world.Session{ID: hashref.SumString("session"), Episode: "bench", Grants: []world.Grant{{Effect: "Workspace.Read", Scope: "worktree", Budget: 10}}}
	call := benchCall(1)
	_, err = s.Commit(ctx, benchGenesis())
	err = errors.Join(err, s.PutSession(ctx, ses), s.PutObjects(ctx, call.Objects))
	if _, serr := s.SwapRegistry(ctx, "registry", hashref.None, ses.ID, nil); errors.Join(err, serr) != nil {
		b.Fatal(err, serr)
	}
	for _, c := range []struct {
		name string
		read func() error
	}{
		{"head", func() error { _, err := s.Head(ctx); return err }},
		{"session", func() error { _, err := s.Session(ctx, ses.ID); return err }},
		{"registry", func() error { _, err := s.RegistryHead(ctx, "registry"); return err }},
		{"object", func() error { _, err := s.Object(ctx, call.StateRoot); return err }},
		{"invocation", func() error { _, err := s.Invocation(ctx, "a2a:ep:none"); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := c.read(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
