package workbench

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unseen tells whether a character does something instead of being seen: controls,
// escapes, marks that turn the direction of text, joiners, tags, line separators.
func unseen(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029':
		return true
	case r < 0x300:
		return r == '\u00ad'
	}
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || unicode.Is(unicode.Variation_Selector, r) && r != '\ufe0f' ||
		r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0'
}

// seen is how a character that is not seen is shown: by its name, or by its number.
func seen(r rune) string {
	switch r {
	case 0:
		return "‹NUL›"
	case 0x07:
		return "‹BEL›"
	case 0x08:
		return "‹BS›"
	case '\r':
		return "‹CR›"
	case 0x1b:
		return "‹ESC›"
	case 0x7f:
		return "‹DEL›"
	}
	return fmt.Sprintf("‹U+%04X›", r)
}

// inertPage is the last hand on every page: whatever character of it would act instead of
// being seen is shown by its number, wherever it came from. What the pages are made of has
// none, and the text that is put in has no character that HTML gives a meaning, so that this
// is safe in texts and in attributes alike.
func inertPage(b []byte) []byte {
	clean := true
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if unseen(r) || r == utf8.RuneError && n == 1 {
			clean = false
			break
		}
		i += n
	}
	if clean {
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/8)
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			out = append(out, "\uFFFD"...)
		case unseen(r):
			out = append(out, seen(r)...)
		default:
			out = append(out, b[i:i+n]...)
		}
		i += n
	}
	return out
}

// cut is a text of at most n characters, in one line.
func cut(s string, n int) string {
	if len(s) > 4*n+16 { // do not walk megabytes
		s = s[:4*n+16]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsAny(s, "\n\r\t") {
		s = strings.NewReplacer("\r\n", "⏎", "\n", "⏎", "\r", "⏎", "\t", " ").Replace(s)
	}
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return s
}

// clip is the beginning of a text: at most maxBytes and maxLines. left is how many bytes
// are not shown.
func clip(s string, maxBytes, maxLines int) (shown string, left int) {
	end := len(s)
	if end > maxBytes {
		for end = maxBytes; end > 0 && !utf8.RuneStart(s[end]); end-- {
		}
	}
	at := 0
	for range maxLines {
		i := strings.IndexByte(s[at:end], '\n')
		if i < 0 {
			return s[:end], len(s) - end
		}
		at += i + 1
	}
	return s[:at], len(s) - at
}

// markup is HTML being made by hand. Only its methods add to it, and all but raw, which is
// given constants of this package alone, escape.
type markup struct{ strings.Builder }

func (m *markup) raw(s string)  { m.WriteString(s) }
func (m *markup) text(s string) { m.WriteString(html.EscapeString(s)) }

// span is a text of a class.
func (m *markup) span(class, s string) {
	m.raw(`<span class="`)
	m.raw(class)
	m.raw(`">`)
	m.text(s)
	m.raw(`</span>`)
}

func (m *markup) html() template.HTML { return template.HTML(m.String()) }
