package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
			ctx := context.Background()
			s, err := Open(ctx, Options{Path: filepath.Join(b.TempDir(), "world.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			genesis := benchGenesis()
			if _, err := s.Commit(ctx, genesis); err != nil {
				b.Fatal(err)
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for {
						i := next.Add(1)
						if i > int64(b.N) {
							return
						}
						if _, err := s.Append(ctx, benchCall(i)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
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
