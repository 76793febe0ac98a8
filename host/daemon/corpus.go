package daemon

import (
	"context"

	"ailang.dev/world/host/handlers/corpus"
)

// corpusHandler serves the corpora that stand beside the store. Without any it is there, and
// says which is missing.
func (d *Daemon) corpusHandler(ctx context.Context) (*corpus.Handler, error) {
	d.library = corpus.NewLibrary(corpus.Dir(d.core.Base))
	h := corpus.New(corpus.Config{Library: d.library, Objects: d.core.Store, Policy: d.cfg.Policy})
	return h, d.core.Store.PutObjects(ctx, h.Objects())
}
