package policy

import (
	"strings"
	"unicode"
)

// Fold is the one spelling that all spellings of a name share: each letter stands for
// the smallest of those that simple case folding makes equal, characters that file systems
// ignore are left out, and so are dots and spaces at the end.
func Fold(name string) string {
	if ascii(name) { // of equal letters the capital is the smallest
		return strings.TrimRight(strings.ToUpper(name), ". ")
	}
	out := strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		least := r
		for q := unicode.SimpleFold(r); q != r; q = unicode.SimpleFold(q) {
			least = min(least, q)
		}
		return least
	}, name)
	return strings.TrimRight(out, ". ")
}

func ascii(name string) bool {
	for i := 0; i < len(name); i++ {
		if name[i] >= 0x80 {
			return false
		}
	}
	return true
}

// invisible tells whether some file systems pass over a character when they compare
// names.
func invisible(r rune) bool {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return true
	}
	return false
}
