package corpus

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func keys(q string) []string {
	all := []string{}
	for _, u := range parseQuery(newStemmer(), q) {
		all = append(all, u.key())
	}
	return all
}

func TestAnyQueryIsRead(t *testing.T) {
	for q, want := range map[string][]string{
		`grace`:           {"grace"},
		`"real presence"`: {"real presenc"},
		`euchar*`:         {"euchar*"},
		`What does the Church teach about the Trinity?`: {"church", "teach", "triniti"},
		`"unclosed phrase`:                       {"unclos", "phrase"},
		`say "of the" loud`:                      {"of the", "loud"},
		`“curly” «marks»`:                        {"cur", "mark"},
		`THÉRÈSE Übung Œuvre`:                    {"theres", "ubung", "oeuvr"},
		`grace NOT sin AND (mercy OR`:            {"grace", "sin", "merci"},
		`title:grace col-filter ^a NEAR(b c, 2)`: {"titl", "grace", "col", "filter", "near", "b", "c", "2"},
		`* "" "*" ** -`:                          {},
		`AND OR NOT`:                             {},
		`what is the`:                            {},
		`sin sin sins`:                           {"sin"},
		`CCC 1374`:                               {"ccc", "1374"},
		`'; DROP TABLE words; --`:                {"drop", "tabl", "word"},
		"a\x00b \xff grace":                      {"b", "grace"},
		`anti-euch* the*`:                        {"anti", "euch*", "the*"},
	} {
		if d := cmp.Diff(want, keys(q)); d != "" {
			t.Errorf("%q: %s", q, d)
		}
	}
	if n := len(keys(strings.Repeat("word1 x2 y3 z4 ", 100) + "a1 b2 c3 d4 e5 f6 g7 h8 i9 j0 k1 l2 m3 n4 o5 p6 q7 r8 s9 t0 u1")); n != maxUnits {
		t.Errorf("%d units, want %d", n, maxUnits)
	}
	if n := len(parseQuery(newStemmer(), `"`+strings.Repeat("one two ", 40)+`"`)[0].stems); n != maxPhrase {
		t.Errorf("a phrase of %d words", n)
	}
}

// FuzzQuery: what is made of a query is in the language of FTS5 nothing but words.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{`"a b" c*`, `AND OR`, `")(*`, "é\u0301*", `"x`, "\xff\"", `NEAR("a" b)`} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		if len(q) > MaxQuery {
			q = q[:MaxQuery]
		}
		units := parseQuery(newStemmer(), q)
		if len(units) > maxUnits {
			t.Errorf("%d units", len(units))
		}
		for _, u := range units {
			if len(u.stems) == 0 || len(u.stems) > maxPhrase {
				t.Errorf("%q: a unit of %d stems", q, len(u.stems))
			}
			for _, st := range u.stems {
				if st == "" || len(st) > maxWord || !utf8.ValidString(st) || strings.ContainsFunc(st, func(r rune) bool { return !inWord(r, true) }) {
					t.Errorf("%q: stem %q", q, st)
				}
			}
		}
	})
}

// FuzzChunk: passages are parts of the text, in order, bounded, and nothing between them is
// lost but white space.
func FuzzChunk(f *testing.F) {
	f.Add("one\n\ntwo", 1)
	f.Add("long. ", 400)
	f.Add("ä\n", 900)
	f.Add("\n\n\n \n\nx", 3)
	f.Fuzz(func(t *testing.T, text string, times int) {
		text = Clean(strings.Repeat(text, max(0, min(times, 2000))))
		at := 0
		for _, p := range chunk(text) {
			if p.start < at || p.start+len(p.text) > len(text) || text[p.start:p.start+len(p.text)] != p.text {
				t.Fatalf("a passage at %d is no part of the text", p.start)
			}
			if strings.TrimSpace(text[at:p.start]) != "" {
				t.Fatalf("%q is lost", text[at:p.start])
			}
			if len(p.text) > passageMax || strings.TrimSpace(p.text) == "" || !utf8.ValidString(p.text) {
				t.Fatalf("a passage of %d bytes", len(p.text))
			}
			at = p.start + len(p.text)
		}
		if strings.TrimSpace(text[at:]) != "" {
			t.Fatalf("%q is lost at the end", text[at:])
		}
	})
}
