package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ailang.dev/world/host/handlers/corpus"
)

func (a *app) corpusSearchCommand() *cobra.Command {
	var db string
	var q corpus.Query
	var asJSON bool
	c := &cobra.Command{
		Use:   "search NAME QUERY [--db FILE] [--limit N]",
		Short: "Search a corpus as agents do",
		Long: `Finds passages, best first: words in any form and order, "phrases" in quotation marks,
beginnings of words with a star (euchar*). Anything else is taken for words. Of words that
a passage lacks the rare ones count most.`,
		Example: `  ailang-worldd corpus search library '"real presence"'
  ailang-worldd corpus search library 'what is grace?' --kind doctrine --limit 5`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(cmd, "NAME and QUERY are needed")
			}
			for _, w := range args[1:] {
				q.Query += w + " "
			}
			return a.withLibrary(cmd, db, func(ctx context.Context, _ string, lib *corpus.Library) error {
				found, err := lib.Search(ctx, args[0], q)
				if err != nil {
					return err
				}
				return a.showPassages(found, asJSON)
			})
		},
	}
	readFlag(c, &db)
	c.Flags().IntVar(&q.Limit, "limit", corpus.DefaultLimit, fmt.Sprintf("`N` passages at most, 1 to %d", corpus.MaxLimit))
	c.Flags().StringVar(&q.Cursor, "cursor", "", "where the page before ended: its `NEXT`")
	for name, into := range map[string]*string{"author": &q.Filters.Author, "title": &q.Filters.Title, "kind": &q.Filters.Kind, "document": &q.Filters.Document,
		"from": &q.Filters.From, "to": &q.Filters.To} {
		c.Flags().StringVar(into, name, "", "only passages of this `"+map[bool]string{true: "DATE", false: "TEXT"}[name == "from" || name == "to"]+"` of their document")
	}
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) showPassages(found *corpus.Found, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, found)
	}
	for i, p := range found.Passages {
		fmt.Fprintf(a.stdout, "[%d] %s, %s %s (%s)\n    %s\n\n", i+1, printable(p.Title, false), p.Section, printable(p.Heading, false), p.Document,
			printable(shortened(strings.Join(strings.Fields(p.Text), " ")), false))
	}
	switch {
	case len(found.Passages) == 0:
		fmt.Fprintln(a.stderr, "nothing was found")
	case found.Next != "":
		fmt.Fprintf(a.stderr, "%d and more were found; the next page: --cursor %s\n", found.Total, found.Next)
	}
	return nil
}

// shownText is how much of a passage a listing shows, in characters.
const shownText = 280

func shortened(s string) string {
	if r := []rune(s); len(r) > shownText {
		return string(r[:shownText]) + " …"
	}
	return s
}
