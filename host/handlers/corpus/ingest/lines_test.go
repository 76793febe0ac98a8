package ingest

import "testing"

// TestLinesThatAreNone: what is wrong with a line is said without the decoder's own words.
func TestLinesThatAreNone(t *testing.T) {
	for line, want := range map[string]string{
		`{"text":"a" "b"}`:              "it is no JSON object: byte 13 of the line is wrong",
		`{"text":"a"`:                   "it is no JSON object: byte 12 of the line is wrong",
		`["a"]`:                         "it is no JSON object, or has a member twice",
		`{"text":"a","text":"b"}`:       "it is no JSON object, or has a member twice",
		`{"title":"a"}`:                 `it has no "text"`,
		`{"sections":["a"]}`:            "sections[0] is no object",
		"{\"text\":\"\xff\"}":           "it is no JSON object: byte 10 of the line is wrong",
		`{"text":"a","id":{"a":["b"]}}`: "",
	} {
		got := ""
		if _, err := decodeLine([]byte(line)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
