package ingest

import (
	"context"
	"io/fs"
	"path"
	"strings"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// Bounds of what is put at once.
const (
	batchBytes     = 4 << 20 // bytes of objects, beyond which a batch ends
	batchDocuments = 500
	maxFailures    = 1000 // failures that are told one by one
	maxOption      = 256  // bytes of a kind or an author that is given
)

// Store is where documents' objects go.
type Store interface {
	// PutDocuments stores documents' objects, durably.
	PutDocuments(ctx context.Context, objects []world.Object) error
}

// Request says what is added to a corpus.
type Request struct {
	Dir    string // of the indexes
	Corpus string
	Paths  []string // absolute
	// Starter, unless nil, is a file system of documents that is added beside the paths.
	Starter fs.FS
	// LeaveOut has what was removed from the corpus stay out of it.
	LeaveOut bool
	// Kind and Author are those of documents that do not say their own.
	Kind, Author string
	Store        Store
	// Tell, unless nil, is told how far it is, often.
	Tell func(Progress)
}

// Progress is how far an add is.
type Progress struct {
	Files, Of int
	Bytes     int64
	Path      string // of the file that is being read
}

// Result is what an add did.
type Result struct {
	Corpus    string    `json:"corpus"`
	Added     int       `json:"added"`
	Replaced  int       `json:"replaced"`
	Unchanged int       `json:"unchanged"`
	Removed   int       `json:"removed"` // lines that a file does not have any more
	Skipped   int       `json:"skipped"` // files in folders that are of no kind that is taken
	Failed    []Failure `json:"failed"`  // at most maxFailures
	Failures  int       `json:"failures"`
	Bytes     int64     `json:"bytes"`
}

// adder is one add on its way.
type adder struct {
	r       Request
	w       *corpus.Writer
	dec     decoder
	res     Result
	batch   []corpus.Entry
	size    int
	changed bool
}

// Add puts documents into a corpus, and makes it if it is not there. What is there
// unchanged stays, what changed takes the place of what it was. A file that cannot be taken
// is told in the result and keeps no other out. An add that is stopped leaves whole documents
// alone, and another one completes it.
func Add(ctx context.Context, r Request) (Result, error) {
	a := &adder{r: r, res: Result{Corpus: r.Corpus, Failed: []Failure{}}}
	if err := corpus.CheckName(r.Corpus); err != nil {
		return a.res, err
	}
	if len(r.Kind) > maxOption || len(r.Author) > maxOption {
		return a.res, world.Errorf(world.KindBadRequest, "ingest.Add", "kind and author must be at most %d bytes", maxOption)
	}
	r.Kind, r.Author = strings.ToValidUTF8(r.Kind, "\ufffd"), strings.ToValidUTF8(r.Author, "\ufffd")
	a.r = r
	w := &walker{}
	for _, p := range r.Paths {
		if err := w.walk(ctx, p); err != nil {
			return a.res, world.Errorf(world.KindBadRequest, "ingest.Add", "%s: %s", p, whyNot(err))
		}
	}
	if r.Starter != nil {
		if err := w.walkFS(r.Starter, starterPrefix); err != nil {
			return a.res, world.Wrap(world.KindInternal, "ingest.Add", err)
		}
	}
	a.res.Skipped = w.skipped
	for _, f := range w.failed {
		a.fail(f.Path, reasonError(f.Reason))
	}
	if len(w.files) == 0 {
		return a.res, nil // and no corpus is made for nothing
	}
	return a.res, a.run(ctx, w.files)
}

// starterPrefix stands for the place of the documents that ship.
const starterPrefix = "starter:"

func (a *adder) fail(path string, err error) {
	a.res.Failures++
	if len(a.res.Failed) < maxFailures {
		a.res.Failed = append(a.res.Failed, failure(path, err))
	}
}

func (a *adder) run(ctx context.Context, files []file) (err error) {
	if a.w, err = corpus.OpenWriter(ctx, a.r.Dir, a.r.Corpus); err != nil {
		return err
	}
	defer a.w.Close()
	defer a.dec.pdf.close()
	removed := map[string]bool{}
	if a.r.LeaveOut {
		if removed, err = a.w.Removed(); err != nil {
			return err
		}
	}
	for i, f := range files {
		if removed[f.path] {
			continue
		}
		if ctx.Err() != nil {
			return &world.Error{Op: "ingest.Add", Kind: world.KindCanceled, Err: ctx.Err(), Msg: "stopped; the same command again goes on with it"}
		}
		if a.r.Tell != nil {
			a.r.Tell(Progress{Files: i, Of: len(files), Bytes: a.res.Bytes, Path: f.rel})
		}
		if err := a.file(ctx, f); err != nil {
			return err
		}
	}
	if err := a.flush(ctx); err != nil || !a.changed {
		return err
	}
	return a.w.Finish(ctx)
}

// file adds one file. Its own faults are no error.
func (a *adder) file(ctx context.Context, f file) error {
	src, err := f.read()
	if err != nil {
		a.fail(f.path, err)
		return nil
	}
	a.res.Bytes += int64(len(src))
	have, err := a.w.Origins(f.path)
	if err != nil {
		return err
	}
	original, options := hashref.Sum(src), a.options()
	if old, ok := have[f.path]; ok && old.Original == original && old.Options == options {
		a.res.Unchanged++
		return nil
	}
	before := a.res.Failures
	docs, err := a.dec.decode(ctx, f.path, src, func(part string, err error) { a.fail(f.path+part, err) })
	if err != nil {
		if ctx.Err() == nil {
			a.fail(f.path, err)
		}
		return nil
	}
	whole := a.res.Failures == before
	for _, m := range docs {
		origin := f.path + m.fragment
		if err := a.document(ctx, f, m, original, options, origin, have[origin]); err != nil {
			return err
		}
		delete(have, origin)
	}
	if !whole {
		return nil // what could not be read may be what is still there
	}
	for origin := range have {
		a.res.Removed++
		if err := a.put(ctx, corpus.Entry{Origin: origin, Path: f.path, Gone: true}, 0); err != nil {
			return err
		}
	}
	return nil
}

func (a *adder) options() string { return "kind=" + a.r.Kind + "\nauthor=" + a.r.Author }

// document adds one document, unless it is there as it is.
func (a *adder) document(ctx context.Context, f file, m made, original world.Ref, options, origin string, old corpus.Origin) error {
	if m.original != nil {
		original = hashref.Sum(m.original)
	}
	known := !old.Ref.IsNone()
	if known && old.Original == original && old.Options == options {
		a.res.Unchanged++
		return nil
	}
	d, name := m.doc, strings.TrimSuffix(path.Base(f.rel), path.Ext(f.rel))
	if d.Kind == "" {
		d.Kind = a.r.Kind
	}
	if d.Author == "" {
		d.Author = a.r.Author
	}
	if d.Title == "" {
		d.Title = name
	}
	d.Source, d.Original = f.rel+m.fragment, original
	if m.fragment != "" {
		name += "-" + strings.TrimPrefix(m.fragment, "#")
	}
	if m.name != "" {
		name = m.name
	}
	d.Tidy()
	if !hasText(d) {
		a.fail(origin, reason("it holds no text"))
		return nil
	}
	o, err := d.Object()
	if err != nil {
		a.fail(origin, reason("%s", world.Message(err)))
		return nil
	}
	if known {
		a.res.Replaced++
	} else {
		a.res.Added++
	}
	return a.put(ctx, corpus.Entry{Name: name, Origin: origin, Path: f.path, Original: original, Options: options, Doc: d, Object: o}, len(o.Payload))
}

func (a *adder) put(ctx context.Context, e corpus.Entry, size int) error {
	for i := range a.batch {
		if a.batch[i].Origin == e.Origin { // two lines of one name: the last one counts
			if err := a.flush(ctx); err != nil {
				return err
			}
			break
		}
	}
	if a.size+size > batchBytes && len(a.batch) > 0 {
		if err := a.flush(ctx); err != nil {
			return err
		}
	}
	a.batch, a.size, a.changed = append(a.batch, e), a.size+size, true
	if len(a.batch) >= batchDocuments {
		return a.flush(ctx)
	}
	return nil
}

// flush stores the batch's objects, and then puts it into the index.
func (a *adder) flush(ctx context.Context) error {
	if len(a.batch) == 0 {
		return nil
	}
	var objects []world.Object
	for _, e := range a.batch {
		if !e.Gone {
			objects = append(objects, e.Object)
		}
	}
	if len(objects) > 0 {
		if err := a.r.Store.PutDocuments(ctx, objects); err != nil {
			return err
		}
	}
	err := a.w.Apply(ctx, a.batch)
	a.batch, a.size = nil, 0
	return err
}
