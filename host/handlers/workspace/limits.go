package workspace

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// answerGrace is what a glob or grep leaves of its time: it then answers with what it has
// found, marked as truncated, in place of failing.
const answerGrace = 2 * time.Second

// Bounds of one effect. Sizes are bytes of file content unless said otherwise.
const (
	MaxPath    = 4096 // bytes of a path argument
	MaxDepth   = 128  // directories below the worktree that a path or a walk may go
	MaxLinks   = 40   // symbolic links that one path may go through
	MaxPattern = 4096 // bytes of a glob or regular expression

	MaxRead      = 1 << 20 // content of one read, whole or range
	MaxRangeScan = 4 << 30 // how far a range read counts lines
	MaxEdit      = 8 << 20 // a file that can be edited, before and after
	SniffBytes   = 8 << 10 // head of a file in which a NUL makes it binary

	MaxListing    = 1 << 20   // bytes of JSON in the list of a list, glob or grep
	MaxDirEntries = 100_000   // names read of one directory
	MaxWalk       = 200_000   // names looked at by one glob or grep
	MaxScan       = 256 << 20 // bytes that one grep looks at
	MaxScanFile   = 64 << 20  // bytes that it looks at in one file
	MaxScanLine   = 4 << 20   // bytes of one line that it matches
	MaxLineText   = 2000      // bytes of one line that it gives back
	MaxContext    = 20        // lines before and after a match
	MaxMatches    = 1000      // matches of one grep
	MaxPaths      = 10_000    // paths of one glob, entries of one list
	dflMatches    = 200       // matches without a limit
	dflPaths      = 1000      // paths without a limit
	maxNameInText = 512       // bytes of a path as refusals repeat it
	maxTries      = 3         // times that a read begins anew when the tree changes under it
	copyChunk     = 64 << 10  // bytes of one read
	tempStale     = 3600      // seconds after which a temporary file is one that a crash left
	maxSweep      = 1000      // names looked at for such files in one write
	tempPrefix    = ".ailang-worldd-tmp-"
)

// jsonLen is the length of s as a canonical JSON string, with its quotes.
func jsonLen(s string) int {
	n := len(s) + 2
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < 0x20:
			n += 5
		}
	}
	return n
}

// escape makes a text of a name or line that is not UTF-8: each byte that is no part of a
// character becomes \xNN. escaped tells whether there was one.
func escape(s string) (text string, escaped bool) {
	if utf8.ValidString(s) {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteString(`\x`)
			b.WriteString(strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String(), true
}

// clip cuts s to at most max bytes, never inside a character.
func clip(s string, max int) (string, bool) {
	if len(s) <= max {
		return s, false
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max], true
}

// shown is a path as a refusal repeats it.
func shown(p string) string {
	text, _ := escape(p)
	text, cut := clip(text, maxNameInText)
	if cut {
		text += "…"
	}
	return text
}

// quoted is shown between quotes, with what does not print escaped.
func quoted(p string) string { return strconv.Quote(shown(p)) }
