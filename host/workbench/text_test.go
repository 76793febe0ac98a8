package workbench

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"ailang.dev/world/host/hashref"
)

func TestInertPage(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext":        "plain\n\ttext",
		"\x1b[31m\x00\x07\r":   "‹ESC›[31m‹NUL›‹BEL›‹CR›",
		"\u202eabc\u202c":      "‹U+202E›abc‹U+202C›",
		"a\u200bb\u200d":       "a‹U+200B›b‹U+200D›",
		"\u009b31m":            "‹U+009B›31m",
		"\U000e0041":           "‹U+E0041›",
		"\xff\xc3(":            "\uFFFD\uFFFD(",
		"\u05d0 é 日本 ✓ ✗ – “”": "\u05d0 é 日本 ✓ ✗ – “”",
	} {
		if got := string(inertPage([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzInertPage: what comes out is UTF-8, holds nothing unseen, and stays as it is.
func FuzzInertPage(f *testing.F) {
	f.Add([]byte("a\x1b\u202e\xff<b>"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := inertPage(in)
		if !utf8.Valid(out) || strings.IndexFunc(string(out), unseen) >= 0 || string(inertPage(out)) != string(out) {
			t.Fatalf("%q: %q", in, out)
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"äöüß", 3, "äöü…"}, {"", 3, ""}, {"a\nb\tc", 9, "a⏎b c"}, {strings.Repeat("x", 1<<20), 4, "xxxx…"}, {"a\xffb", 9, "a\uFFFDb"},
	} {
		if got := cut(c.in, c.n); got != c.want {
			t.Errorf("cut(%.9q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
	for _, c := range []struct {
		in           string
		bytes, lines int
		want         string
		left         int
	}{
		{"ab\ncd\n", 99, 9, "ab\ncd\n", 0}, {"ab\ncd\n", 99, 1, "ab\n", 3}, {"abcdef", 4, 9, "abcd", 2}, {"aä", 2, 9, "a", 2}, {"", 1, 1, "", 0},
	} {
		if got, left := clip(c.in, c.bytes, c.lines); got != c.want || left != c.left {
			t.Errorf("clip(%q, %d, %d) = %q, %d; want %q, %d", c.in, c.bytes, c.lines, got, left, c.want, c.left)
		}
	}
}

func TestPretty(t *testing.T) {
	ref := hashref.SumString("x").String()
	for in, want := range map[string]string{
		`{}`:                 `<pre class="json" tabindex="0">{}</pre>`,
		`[]`:                 `<pre class="json" tabindex="0">[]</pre>`,
		`{"a":[1,{}]}`:       "<pre class=\"json\" tabindex=\"0\">{\n  <span class=\"m\">&#34;a&#34;</span>: [\n    <span class=\"n\">1</span>,\n    {}\n  ]\n}</pre>",
		`["` + ref + `"]`:    "<pre class=\"json\" tabindex=\"0\">[\n  <a class=\"ref\" href=\"/workbench?object=" + ref + "&amp;payload=1\">&#34;" + ref + "&#34;</a>\n]</pre>",
		`{"<b>":null}`:       "<pre class=\"json\" tabindex=\"0\">{\n  <span class=\"m\">&#34;&lt;b&gt;&#34;</span>: <span class=\"k\">null</span>\n}</pre>",
		`{"a":`:              `<pre class="text" tabindex="0">{&#34;a&#34;:</pre>`,
		"def main(): pass\n": "<pre class=\"text\" tabindex=\"0\">def main(): pass\n</pre>",
		"\x00\x01":           `<p class="none">These 2 bytes are no text.</p><p class="cut"><a href="/whole">Show the whole</a></p>`,
		"":                   `<p class="none">It is empty.</p>`,
	} {
		if got := string(pretty([]byte(in), MaxBlock, "/whole")); got != want {
			t.Errorf("%s:\n got  %s\n want %s", in, got, want)
		}
	}
	// What does not fit is cut, and leads to the whole.
	wide := `{"a":"` + strings.Repeat("x", 5000) + `"}`
	if got := string(pretty([]byte(wide), MaxBlock, "/whole")); len(got) > 2000 || !strings.Contains(got, `<a href="/whole">`) || !strings.Contains(got, "4400 more bytes") {
		t.Errorf("a long string: %d bytes", len(got))
	}
	if got := string(pretty([]byte(wide), MaxBlock, "")); !strings.Contains(got, strings.Repeat("x", 5000)) {
		t.Error("the whole is cut too")
	}
	long := "[" + strings.Repeat("1,", 100_000) + "1]"
	if got := string(pretty([]byte(long), MaxBlock, "/whole")); len(got) > 4*MaxBlock || !strings.Contains(got, `<a href="/whole">`) || !strings.HasSuffix(strings.Split(got, "</pre>")[0], "…\n]") {
		t.Errorf("a long list: %d bytes", len(got))
	}
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	if got := string(pretty([]byte(deep), MaxBlock, "")); strings.Count(got, "[") != 64 || strings.Count(got, "]") != 64 {
		t.Error("deep nesting is not shown whole")
	}
}

func TestDiffs(t *testing.T) {
	rows := func(html string) string { // sign, before, after, text
		var all []string
		for _, r := range strings.Split(html, "<tr class=")[1:] {
			cells := strings.Split(r, "<td class=")
			var row []string
			for _, c := range cells[1:] {
				row = append(row, c[strings.Index(c, ">")+1:strings.Index(c, "</td>")])
			}
			all = append(all, fmt.Sprint(row[2], row[0], "/", row[1], " ", row[3]))
		}
		return strings.Join(all, "|")
	}
	for name, c := range map[string]struct{ req, res, effect, want string }{
		"edit": {`{"op":"edit","path":"a","old_text":"one\ntwo\n","new_text":"one\nTWO\nthree\n"}`, `{"ok":true,"line":7}`, "Workspace.Write",
			" 7/7 one|-8/ two|+/8 TWO|+/9 three"},
		"edit within a line":       {`{"op":"edit","path":"a","old_text":"x","new_text":"y"}`, `{"ok":true,"line":3}`, "Workspace.Write", "-3/ x|+/3 y"},
		"edit that ends in a line": {`{"op":"edit","path":"a","old_text":"x\n","new_text":"y"}`, `{"ok":true,"line":3}`, "Workspace.Write", "-3/ x|-4/ |+/3 y"},
		"write":                    {`{"op":"write","path":"a","content":"p\nq\n"}`, `{"ok":true,"created":true}`, "Workspace.Write", "+/1 p|+/2 q"},
		"git diff": {`{"op":"diff"}`, `{"ok":true,"diff":"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n--- old\n+<new>\n same\n"}`, "Git.Read",
			"/ diff --git a/f b/f|/ --- a/f|/ +++ b/f|/ @@ -1 +1 @@|-/ -- old|+/ &lt;new&gt;| / same"},
		"read": {`{"op":"read","path":"a","from":9}`, `{"ok":true,"content":"p\nq\n","from":9}`, "Workspace.Read", " /9 p| /10 q"},
	} {
		if got := rows(string(inside(c.effect, []byte(c.req), []byte(c.res), ""))); got != c.want {
			t.Errorf("%s:\n got  %s\n want %s", name, got, c.want)
		}
	}
}

func TestTerminal(t *testing.T) {
	got := string(inside("Workspace.Exec", []byte(`{"profile":"go-test","args":["./..."]}`),
		[]byte(`{"ok":false,"exit_code":1,"stdout":"\u001b[31mFAIL\u001b[0m \u001b]0;t\u0007\n","stderr":"bad\n","duration_ms":12,"truncated":true,"limit":"wall"}`), ""))
	for _, want := range []string{`<span class="cmd">go-test ./...</span>`, "<span class=\"out\">FAIL \x1b]0;t\x07\n</span>", `<span class="err">bad`, "exit code 1", "12 ms",
		"ended by the limit of wall", "was not kept"} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%q", want, got)
		}
	}
	got = string(inside("Workspace.Exec", []byte(`{"op":"job","action":"poll","job":"0a"}`), []byte(`{"ok":true,"running":true,"stdout":"","stderr":""}`), ""))
	if !strings.Contains(got, "poll job 0a") || !strings.Contains(got, "still running then") {
		t.Errorf("a job: %s", got)
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		spent, granted int64
		width          string
	}{{0, 0, "0"}, {0, 9, "0"}, {1, 1_000_000, "1"}, {1, 2, "50"}, {9, 9, "100"}, {12, 9, "100"}, {hashref.MaxInt, hashref.MaxInt, "100"}, {5, 0, "100"}} {
		if got := string(bar(c.spent, c.granted)); !strings.Contains(got, `width="`+c.width+`" height="8"/></svg>`) || !strings.Contains(got, fmt.Sprintf("%d of %d spent", c.spent, c.granted)) {
			t.Errorf("%d of %d: %s", c.spent, c.granted, got)
		}
	}
}
