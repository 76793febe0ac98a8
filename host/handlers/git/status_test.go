package git

import (
	"strings"
	"testing"
)

// FuzzStatus: whatever stands where git's status should, however it comes in parts, is refused or
// becomes at most so many changes, each with a path of the text.
func FuzzStatus(f *testing.F) {
	for _, s := range []string{"", "? a\x00", "1 .M N... 100644 100644 100644 0 0 a b\x00", "u UU N... 1 2 3 4 5 6 7 x\x00", "1 MM  0 0 0 0 0 x\x00", "2 R. x\x00y\x00", "1", "? \x00"} {
		f.Add(s, 3)
	}
	const most = 4
	f.Fuzz(func(t *testing.T, text string, at int) {
		out := &records{max: most}
		at = min(max(at, 0), len(text))
		for _, part := range []string{text[:at], text[at:]} {
			if _, err := out.Write([]byte(part)); err != nil {
				break
			}
		}
		if len(out.all) > most || out.more && len(out.all) < most {
			t.Fatalf("%d records, more: %v", len(out.all), out.more)
		}
		for _, rec := range out.all {
			ch, err := parseChange(rec)
			if err == nil && (ch.path == "" || !strings.HasSuffix(rec, ch.path)) {
				t.Fatalf("%q is of path %q", rec, ch.path)
			}
		}
	})
}
