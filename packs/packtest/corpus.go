package packtest

import (
	"context"
	"os"
	"path/filepath"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/corpus/ingest"
	"ailang.dev/world/host/world"
)

// shelf keeps documents' objects in memory.
type shelf map[world.Ref]world.Object

func (s shelf) PutDocuments(_ context.Context, objects []world.Object) error {
	for _, o := range objects {
		s[o.Hash] = o
	}
	return nil
}

func (s shelf) Object(_ context.Context, ref world.Ref) (world.Object, error) {
	if o, ok := s[ref]; ok {
		return o, nil
	}
	return world.Object{}, world.Errorf(world.KindInternal, "packtest.Object", "no object %s", ref)
}

// ServeCorpus lets the tools of the bench search a corpus of these files, by their names.
func (b *Bench) ServeCorpus(name string, files map[string]string) {
	b.T.Helper()
	dir, from, objects := b.T.TempDir(), b.T.TempDir(), shelf{}
	for file, text := range files {
		Must(b.T, os.WriteFile(filepath.Join(from, file), []byte(text), 0o644))
	}
	_, err := ingest.Add(b.T.Context(), ingest.Request{Dir: dir, Corpus: name, Paths: []string{from}, Store: objects})
	Must(b.T, err)
	lib := corpus.NewLibrary(dir)
	b.T.Cleanup(func() { Must(b.T, lib.Close()) })
	h := corpus.New(corpus.Config{Library: lib, Objects: objects})
	b.handlers[corpus.EffectSearch], b.handlers[corpus.EffectFetch] = h, h
}
