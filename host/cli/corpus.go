package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/corpus/ingest"
	"ailang.dev/world/packs"
)

// LibraryCorpus is the corpus that the skills which ship search.
const LibraryCorpus = "library"

func (a *app) corpusCommand() *cobra.Command {
	return group("corpus", "Add, list, search and remove documents that skills search", `A corpus is a named collection of documents with a full-text index beside the store. Agents
search it with the effect Corpus.Search and read its documents with Corpus.Fetch, in the
scope of its name; the skills that ship search the corpus library. Each document is an
object of the store, so that what an answer cites can be looked up by its hash for ever.`,
		a.corpusAddCommand(), a.corpusListCommand(), a.corpusSearchCommand(), a.corpusRemoveCommand(), a.corpusRebuildCommand())
}

type corpusAddFlags struct {
	db, kind, author string
	starter, json    bool
}

func (a *app) corpusAddCommand() *cobra.Command {
	var f corpusAddFlags
	c := &cobra.Command{
		Use:   "add NAME PATH… [--db FILE] [--kind K] [--author A] [--starter]",
		Short: "Add documents, and take over what changed in those that are there",
		Long: `Adds files, and all Markdown, HTML, text, JSON Lines and PDF files of folders, to a corpus,
which is made if it is not there. A file that was added before and has changed takes the
place of what it was; one that has not stays. Front matter, meta elements, a PDF's
information, or members of a line of JSON, give title, author, date, kind and link;
--kind and --author are for documents that do not say theirs. A line of JSON Lines is
{"title": …, "text": …}, with "id", "author", "date", "kind", "link" or "sections".

What cannot be read is named with the reason, and keeps nothing else out; the exit code is
then 1. An add that was stopped is completed by the same command again. --starter adds the
documents that ship with this program, for the skills of the pack magisterium.`,
		Example: `  ailang-worldd corpus add library --starter
  ailang-worldd corpus add library ~/texts notes.md --kind notes --author 'Ada'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(cmd, "NAME is needed: which corpus? The skills that ship search %s", LibraryCorpus)
			}
			if len(args) == 1 && !f.starter {
				return usage(cmd, "PATH is needed: which files or folders? --starter adds the documents that ship")
			}
			path, err := a.readPath(cmd, f.db)
			if err != nil {
				return err
			}
			r := ingest.Request{Corpus: args[0], Kind: f.kind, Author: f.author}
			for _, p := range args[1:] {
				r.Paths = append(r.Paths, filepath.Clean(a.path(p)))
			}
			if f.starter {
				r.Starter = packs.Starter()
			}
			res, err := a.addToCorpus(cmd.Context(), path, r)
			if err != nil {
				return err
			}
			return a.showAdded(res, path, f.json)
		},
	}
	readFlag(c, &f.db)
	c.Flags().StringVar(&f.kind, "kind", "", "the `KIND` of documents that do not say theirs")
	c.Flags().StringVar(&f.author, "author", "", "the `AUTHOR` of documents that do not say theirs")
	c.Flags().BoolVar(&f.starter, "starter", false, "add the documents that ship with this program")
	jsonFlag(c, &f.json)
	return c
}

// addToCorpus adds to a corpus of a store, whether its daemon runs or not.
func (a *app) addToCorpus(ctx context.Context, db string, r ingest.Request) (ingest.Result, error) {
	if err := corpus.CheckName(r.Corpus); err != nil {
		return ingest.Result{}, err
	}
	ops, err := a.openOps(ctx, db, false)
	if err != nil {
		return ingest.Result{}, err
	}
	defer ops.Close()
	base, err := a.beside(ctx, db)
	if err != nil {
		return ingest.Result{}, err
	}
	tell, stop := a.addProgress(r.Corpus)
	defer stop()
	r.Dir, r.Store, r.Tell = corpus.Dir(base), ops, tell
	return ingest.Add(ctx, r)
}

// AddStarter fills the corpus library with the documents that ship, or completes it: for a
// store that this process has open, or whose daemon is asked. What was removed stays out. What
// stands beside the store is named after base.
func AddStarter(ctx context.Context, base string, store ingest.Store) (ingest.Result, error) {
	return ingest.Add(ctx, ingest.Request{Corpus: LibraryCorpus, Starter: packs.Starter(), LeaveOut: true, Dir: corpus.Dir(base), Store: store})
}

// addProgress tells on stderr how far an add is: once a second while it gets on, every tenth
// while one file takes long.
func (a *app) addProgress(name string) (tell func(ingest.Progress), stop func()) {
	var at atomic.Pointer[ingest.Progress]
	at.Store(&ingest.Progress{Path: "…"})
	done := make(chan struct{})
	tick := time.NewTicker(progressAfter)
	go func() {
		told, quiet := -1, 0
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p := at.Load()
				if quiet++; p.Files == told && quiet < 10 {
					continue
				}
				told, quiet = p.Files, 0
				fmt.Fprintf(a.stderr, "%s: %d of %d files, %d MB; reading %s\n", name, p.Files, p.Of, p.Bytes>>20, printable(p.Path, false))
			}
		}
	}()
	return func(p ingest.Progress) { at.Store(&p) }, func() { tick.Stop(); close(done) }
}

// showAdded tells what an add did. Files that failed make the exit code 1.
func (a *app) showAdded(r ingest.Result, db string, asJSON bool) error {
	if asJSON {
		if err := writeJSON(a.stdout, r); err != nil {
			return err
		}
	} else {
		for _, f := range r.Failed {
			fmt.Fprintf(a.stderr, "not added: %s: %s\n", printable(f.Path, false), printable(f.Reason, false))
		}
		if more := r.Failures - len(r.Failed); more > 0 {
			fmt.Fprintf(a.stderr, "and %d more\n", more)
		}
		fmt.Fprintf(a.stdout, "corpus %s: %d added, %d replaced, %d unchanged, %d removed, %d failed\n", r.Corpus, r.Added, r.Replaced, r.Unchanged, r.Removed, r.Failures)
		if r.Skipped > 0 {
			fmt.Fprintf(a.stderr, "%d file%s of other kinds left out\n", r.Skipped, plural(r.Skipped))
		}
		if r.Added+r.Replaced+r.Unchanged == 0 && r.Failures == 0 {
			fmt.Fprintln(a.stderr, "there was nothing to add: no Markdown, HTML, text, JSON Lines or PDF files")
		} else if r.Added > 0 {
			fmt.Fprintf(a.stderr, "next: ailang-worldd corpus search %s%s QUERY\n", r.Corpus, withDB(db))
		}
	}
	if r.Failures > 0 {
		return exitError(ExitError)
	}
	return nil
}

func (a *app) corpusListCommand() *cobra.Command {
	var db string
	var asJSON bool
	c := &cobra.Command{
		Use:     "list [NAME] [--db FILE]",
		Short:   "List corpora, or the documents of one",
		Long:    `Lists the corpora of a store with how much they hold; with NAME the documents of one, by id.`,
		Example: `  ailang-worldd corpus list library`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLibrary(cmd, db, func(ctx context.Context, dir string, lib *corpus.Library) error {
				if len(args) == 1 {
					return a.listDocuments(ctx, lib, args[0], asJSON)
				}
				return a.listCorpora(ctx, dir, lib, asJSON)
			})
		},
	}
	readFlag(c, &db)
	jsonFlag(c, &asJSON)
	return c
}

// withLibrary reads the corpora of a store.
func (a *app) withLibrary(cmd *cobra.Command, db string, f func(ctx context.Context, dir string, lib *corpus.Library) error) error {
	path, err := a.readPath(cmd, db)
	if err != nil {
		return err
	}
	if err := checkStore(path, false); err != nil {
		return err
	}
	base, err := a.beside(cmd.Context(), path)
	if err != nil {
		return err
	}
	dir := corpus.Dir(base)
	lib := corpus.NewLibrary(dir)
	defer lib.Close()
	return f(cmd.Context(), dir, lib)
}

func (a *app) listCorpora(ctx context.Context, dir string, lib *corpus.Library, asJSON bool) error {
	names, err := corpus.Names(dir)
	if err != nil {
		return err
	}
	all := []corpus.Status{}
	var bad error // one that cannot be read keeps no other from being shown
	for _, name := range names {
		st, err := lib.Status(ctx, name)
		if err != nil {
			bad = cmp.Or(bad, err)
			continue
		}
		all = append(all, st)
	}
	if asJSON {
		return cmp.Or(writeJSON(a.stdout, map[string]any{"corpora": all}), bad)
	}
	if len(names) == 0 {
		fmt.Fprintln(a.stderr, "no corpora; `ailang-worldd corpus add NAME PATH…` makes one")
		return nil
	}
	rows := [][]string{{"CORPUS", "DOCUMENTS", "PASSAGES", "INDEX"}}
	for _, st := range all {
		rows = append(rows, []string{st.Name, fmt.Sprint(st.Documents), fmt.Sprint(st.Passages), fmt.Sprintf("%.1f MB", float64(st.Bytes)/1e6)})
	}
	if len(all) > 0 {
		table(a.stdout, rows)
	}
	return bad
}

func (a *app) listDocuments(ctx context.Context, lib *corpus.Library, name string, asJSON bool) error {
	all := []corpus.Listed{}
	for after := ""; ; {
		page, err := lib.Documents(ctx, name, after, corpus.MaxListed)
		if err != nil {
			return err
		}
		if all = append(all, page...); len(page) < corpus.MaxListed {
			break
		}
		after = page[len(page)-1].ID
	}
	if asJSON {
		return writeJSON(a.stdout, map[string]any{"corpus": name, "documents": all})
	}
	rows := [][]string{{"DOCUMENT", "TITLE", "AUTHOR", "DATE", "KIND", "PASSAGES"}}
	for _, d := range all {
		rows = append(rows, []string{d.ID, printable(d.Title, false), printable(d.Author, false), printable(d.Date, false), printable(d.Kind, false), fmt.Sprint(d.Passages)})
	}
	table(a.stdout, rows)
	return nil
}
