package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "print JSON; errors too, on stderr as {\"error\":{…}}")
}

// writeJSON writes a value as one line.
func writeJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return failf("cannot write the answer as JSON: %v", err)
	}
	_, err = w.Write(append(inertJSON(text), '\n'))
	return err
}

// inertJSON is the same JSON, without a character that steers a terminal: JSON escapes the
// first 32 itself, and not those that come later.
func inertJSON(text []byte) []byte {
	i := bytes.IndexFunc(text, steers)
	if i < 0 {
		return text
	}
	out := slices.Clone(text[:i])
	for _, r := range string(text[i:]) {
		switch {
		case !steers(r) || r == '\n' || r == '\t':
			out = utf8.AppendRune(out, r)
		default:
			for _, u := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, "\\u%04x", u)
			}
		}
	}
	return out
}

// steers tells of a character that is obeyed by a terminal, or not seen.
func steers(r rune) bool {
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// indented is a JSON text made readable; one that is none stays as it is.
func indented(text jsontext.Value) string {
	v := text.Clone()
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return string(text)
	}
	return string(v)
}

// table writes rows in columns.
func table(w io.Writer, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	tw.Flush()
}

// when is a moment as people read it.
func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// printable makes text of a daemon or a manifest harmless on a terminal: control
// characters, and those that are not seen or turn the direction of text, are shown and not
// obeyed. Line ends and tabs stay when lines is true.
func printable(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case lines && (r == '\n' || r == '\t'):
			return r
		case steers(r):
			return '\ufffd'
		}
		return r
	}, s)
}

// progressAfter is how long something may take without a word.
const progressAfter = time.Second

// progress tells on stderr what is being waited for, if it takes long. Call the answer
// when it is over.
func (a *app) progress(what string) (done func()) {
	t := time.AfterFunc(progressAfter, func() { fmt.Fprintf(a.stderr, "%s …\n", what) })
	return func() { t.Stop() }
}
