package corpus

import "strings"

// Lengths of passages, in bytes.
const (
	passageAim = 1200 // paragraphs are joined up to this
	passageMax = 1800 // a longer paragraph is parted
)

// piece is a passage: part of a section's text, from a byte on.
type piece struct {
	start int
	text  string
}

// chunk parts a section's text into passages: whole paragraphs, joined up to passageAim;
// one that is longer than passageMax is parted at the end of a sentence, a line or a word.
func chunk(text string) []piece {
	var all []piece
	start, end := -1, 0 // of the passage that is being gathered
	flush := func() {
		if start >= 0 {
			all = append(all, piece{start, text[start:end]})
			start = -1
		}
	}
	for at := 0; at < len(text); {
		stop, next := len(text), len(text)
		if i := strings.Index(text[at:], "\n\n"); i >= 0 {
			stop = at + i
			for next = stop; next < len(text) && text[next] == '\n'; next++ {
			}
		}
		if start >= 0 && stop-start > passageAim {
			flush()
		}
		for stop-at > passageMax {
			n := breakAt(text[at:stop])
			flush()
			all = append(all, piece{at, strings.TrimRight(text[at:at+n], " \n")})
			for at += n; at < stop && (text[at] == ' ' || text[at] == '\n'); at++ {
			}
		}
		if start < 0 {
			start = at
		}
		end, at = stop, next
	}
	flush()
	kept := all[:0]
	for _, p := range all {
		if strings.TrimSpace(p.text) != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

// breakAt is where a long text is parted, near passageAim.
func breakAt(s string) int {
	window := s[:passageAim]
	for _, sep := range []string{". ", ".\n", "? ", "! ", "; ", "\n", " "} {
		if i := strings.LastIndex(window, sep); i > passageAim/2 {
			return i + len(sep)
		}
	}
	return len(cut(s, passageAim))
}
