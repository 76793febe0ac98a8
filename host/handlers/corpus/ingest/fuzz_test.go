package ingest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/hashref"
)

// sound demands of a decoded document what an index and a reader rely on.
func sound(t *testing.T, d *corpus.Document) {
	t.Helper()
	d.Original = hashref.SumString("x")
	d.Tidy()
	o, err := d.Object()
	if err != nil {
		return // too large: told, and not taken
	}
	back, err := corpus.ParseDocument(o.Payload)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range back.Sections {
		if s.Section == "" || seen[s.Section] {
			t.Errorf("section %q twice, or without a number", s.Section)
		}
		seen[s.Section] = true
		for _, text := range []string{s.Text, s.Heading} {
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x07\x1b\r\u202e\u2066") {
				t.Errorf("a text that steers: %.80q", text)
			}
		}
	}
	if strings.HasPrefix(strings.ToLower(back.Link), "javascript") {
		t.Errorf("link %q", back.Link)
	}
}

// FuzzMarkdown: whatever the text, it is refused or becomes a sound document.
func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"---\ntitle: a\n---\n# b\n\n## 1. c\n\nd\n", "# \x1b\n\n- [x](y)\n\n| a |\n|-|\n| b |", "a[^1]\n\n[^1]: note", "<div>\n\n*x*"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if !utf8.Valid(src) || len(src) > 1<<14 {
			return
		}
		if d, err := decodeMarkdown(src); err == nil {
			sound(t, d)
		}
	})
}

// FuzzHTML: whatever the page, it is refused or becomes a sound document.
func FuzzHTML(f *testing.F) {
	for _, s := range []string{"<html><title>t</title><h1>a</h1><p>b<script>c</script>", "<h2>1. x</h2><ul><li>y", "<table><td><p>x", "<link rel=canonical href='javascript:x'>y"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if !utf8.Valid(src) || len(src) > 1<<14 {
			return
		}
		if d, err := decodeHTML(src); err == nil {
			sound(t, d)
		}
	})
}

// FuzzText: whatever the text, it is refused or becomes a sound document.
func FuzzText(f *testing.F) {
	for _, s := range []string{"Title\n\n1. Heading\n\ntext", "1.1 A\n\n1.1 A\n\nx", "\f\n\n\x0b", "---\ndate: 2020-01-01\n---\nx"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if !utf8.Valid(src) {
			return
		}
		if d, err := decodeText(src); err == nil {
			sound(t, d)
		}
	})
}

// FuzzLines: whatever the lines, each is refused or becomes a sound document.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"title":"a","text":"b"}` + "\n" + `{"sections":[{"section":"1","text":"x"}]}`))
	f.Add([]byte(`{"text":7}` + "\n\n[]"))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, m := range decodeLines(src, func(int, error) {}) {
			sound(t, m.doc)
		}
	})
}

// stopsInTime: a PDF that takes too long is stopped, and the next one is read all the same.
func stopsInTime(t testing.TB, r *pdfReader, src []byte) {
	t.Helper()
	if _, err := r.decode(context.Background(), src, time.Nanosecond, func(error) {}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("%v", err)
	}
	if d, err := r.decode(context.Background(), src, PDFTimeout, func(err error) { t.Error(err) }); err != nil || len(d.Sections) != 2 {
		t.Errorf("%v", err)
	}
}

// FuzzPDF: whatever bytes stand in a PDF, it is read or told to be broken, in time.
func FuzzPDF(f *testing.F) {
	src, err := os.ReadFile("testdata/two-pages.pdf")
	if err != nil {
		f.Fatal(err)
	}
	r := &pdfReader{}
	f.Cleanup(r.close)
	stopsInTime(f, r, src)
	for _, at := range []int{20, 120, 300, 500, 700, len(src) - 40} {
		changed := append([]byte{}, src...)
		changed[at] ^= 0x15
		f.Add(changed)
		f.Add(src[:at])
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if d, err := r.decode(context.Background(), src, 20*time.Second, func(error) {}); err == nil {
			sound(t, d)
		} else if strings.Contains(err.Error(), "longer than") {
			t.Error(err)
		}
	})
}
