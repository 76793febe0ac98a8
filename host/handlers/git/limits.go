package git

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of one effect. Sizes are bytes.
const (
	MaxPath     = 4096 // a path argument
	MaxPaths    = 1000 // paths of one commit
	MaxRevision = 256  // a revision argument
	MaxMessage  = 64 << 10
	MaxContext  = 20 // lines before and after a change

	MaxEntries = 5000      // of one status, and files of one diff or commit
	MaxLog     = 200       // commits of one log
	MaxSkip    = 1_000_000 // commits that a log may pass over
	MaxLogText = 4 << 10   // of a message in a log
	MaxDiff    = 512 << 10 // of a patch
	MaxList    = 1 << 20   // JSON of the list of a status, diff, log or commit
	MaxShow    = 1 << 20   // a file of a commit

	MaxChanged    = 20_000    // paths that one commit or diff of the worktree takes
	MaxFile       = 64 << 20  // a file that is committed
	MaxSnapshot   = 256 << 20 // all files of one commit
	MaxDiffFile   = 8 << 20   // a file of the worktree in a diff
	MaxDiffFiles  = 64 << 20  // all of them
	MaxAttributes = 1 << 20   // one .gitattributes, exclude or attributes file
	MaxIndex      = 1 << 30   // the index

	dflLog     = 20
	dflContext = 3

	maxInternal   = 64 << 20 // what one run of git prints for our own use
	maxSaid       = 4 << 10  // what is kept of its complaints
	maxSmallFile  = 4 << 10  // .git, HEAD, commondir, gitdir
	maxConfig     = 4 << 20  // the repository's configuration, of which a few values are asked
	maxLinked     = 64       // parts of a split index
	maxLeftOut    = 1000     // paths that are told as left out
	maxTrailers   = 200      // commits looked at for the last trailer
	maxNameInText = 512      // a path as refusals repeat it
	maxSweep      = 1000     // names looked at for folders that a crash left
	maxMemory     = 1 << 30  // heap of one git
	copyChunk     = 64 << 10

	moveTimeout = 5 * time.Second // writing the index and moving the branch, once begun
	killAfter   = 300 * time.Millisecond
	askTimeout  = 5 * time.Second // git version, at the start
)

// refusal is what the repository, git or the policy says no to: an answer, not a failure.
type refusal string

func (r refusal) Error() string { return string(r) }

// escape makes a text of bytes that are not UTF-8: each byte that is no part of a character
// becomes \xNN. escaped tells whether there was one.
func escape(s string) (text string, escaped bool) {
	if utf8.ValidString(s) {
		return s, false
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			b.WriteString(`\x` + strconv.FormatUint(0x100|uint64(s[0]), 16)[1:])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
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

// quoted is a path as a refusal repeats it: between quotes, with what does not print
// escaped.
func quoted(p string) string {
	text, _ := escape(p)
	text, cut := clip(text, maxNameInText)
	if cut {
		text += "…"
	}
	return strconv.Quote(text)
}

// jsonSize is a bound of what s takes as a JSON string.
func jsonSize(s string) int {
	n := len(s) + 2
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			n += 5
		}
	}
	return n
}
