package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// A text of the engine holds neither a zero byte nor what is not UTF-8. \xHH stands for such
// a byte, and for the backslash, so that every text reads back as it was.

func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsAny(s, "\\\x00")
}

func encodeText(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || r == 0 || r == '\\' {
			fmt.Fprintf(&b, `\x%02x`, s[0])
			n = 1
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func decodeText(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if len(after) < 3 || after[0] != 'x' {
			return "", fmt.Errorf("a backslash stands for no byte in %q", s)
		}
		c, err := hex.DecodeString(after[1:3])
		if err != nil {
			return "", err
		}
		b.Write(c)
		s = after[3:]
	}
}

// textKey is what a text is found by.
func textKey(s string) []byte {
	k := sha256.Sum256([]byte(s))
	return k[:]
}

// textsKey is what several texts together are found by; their lengths keep them apart.
func textsKey(texts ...string) []byte {
	h := sha256.New()
	for _, s := range texts {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return h.Sum(nil)
}

// refBytes is a reference as it is kept.
func refBytes(r world.Ref) []byte {
	if r.IsNone() {
		return nil
	}
	return r.AppendDigest(make([]byte, 0, hashref.Size))
}

func refsBytes(refs []world.Ref) [][]byte {
	out := make([][]byte, len(refs))
	for i, r := range refs {
		out[i] = refBytes(r)
	}
	return out
}
