package workspace

import (
	"context"
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"ailang.dev/world/host/hashref"
)

func TestGrep(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{
		"a.go": "one\nTwo\r\nthree\nfour two\nfive\n", "d/b.txt": "two", "d/c.go": "x\ntwo\n", ".git/x": "two", "bin": "two\x00",
		"latin": "caf\xe9 two", "a/b/c.go": "two", "wide": strings.Repeat("w", MaxLineText) + "éé two\n",
		"late": strings.Repeat("-\n", SniffBytes) + "two \xff\n", "empty": "",
	})
	r.link("a.go", "link")
	m := func(path string, line int, text string, before, after []string) obj {
		if before == nil {
			before = []string{}
		}
		if after == nil {
			after = []string{}
		}
		return obj{"path": path, "line": line, "text": text, "before": before, "after": after}
	}
	grep := func(pattern string, more obj) obj {
		o := obj{"op": "grep", "pattern": pattern}
		for k, v := range more {
			o[k] = v
		}
		return o
	}
	cut, esc := m("wide", 1, strings.Repeat("w", MaxLineText), nil, nil), m("late", SniffBytes+1, `two \xff`, nil, nil)
	cut["cut"], esc["escaped"] = true, true
	for _, c := range []struct {
		ask  obj
		want []obj
		cut  bool
	}{
		{grep("two", nil), []obj{m("a.go", 4, "four two", nil, nil), m("a/b/c.go", 1, "two", nil, nil), m("d/b.txt", 1, "two", nil, nil),
			m("d/c.go", 2, "two", nil, nil), esc, cut}, false},
		{grep("^two$", obj{"ignore_case": true, "path": "a.go"}), []obj{m("a.go", 2, "Two", nil, nil)}, false},
		{grep("two", obj{"path": "link"}), []obj{m("link", 4, "four two", nil, nil)}, false},
		{grep("two", obj{"path": "d"}), []obj{m("d/b.txt", 1, "two", nil, nil), m("d/c.go", 2, "two", nil, nil)}, false},
		{grep("two", obj{"glob": "*.go"}), []obj{m("a.go", 4, "four two", nil, nil), m("a/b/c.go", 1, "two", nil, nil), m("d/c.go", 2, "two", nil, nil)}, false},
		{grep("two", obj{"glob": "d/*.go"}), []obj{m("d/c.go", 2, "two", nil, nil)}, false},
		{grep("two", obj{"path": ".git"}), []obj{m(".git/x", 1, "two", nil, nil)}, false},
		{grep("(?i)two", obj{"path": "a.go", "context": 1}), []obj{m("a.go", 2, "Two", []string{"one"}, []string{"three"}), m("a.go", 4, "four two", []string{"three"}, []string{"five"})}, false},
		{grep("(?i)two", obj{"path": "a.go", "context": 5}), []obj{m("a.go", 2, "Two", []string{"one"}, []string{"three", "four two", "five"}),
			m("a.go", 4, "four two", []string{"one", "Two", "three"}, []string{"five"})}, false},
		{grep("(?i)two", obj{"path": "a.go", "context": 2, "limit": 1}), []obj{m("a.go", 2, "Two", []string{"one"}, []string{"three", "four two"})}, true},
		{grep("two", obj{"path": "d", "limit": 2}), []obj{m("d/b.txt", 1, "two", nil, nil), m("d/c.go", 2, "two", nil, nil)}, false},
		{grep("two", obj{"path": "d", "limit": 1}), []obj{m("d/b.txt", 1, "two", nil, nil)}, true},
		{grep("nothing", nil), []obj{}, false},
		{grep("two", obj{"path": "bin"}), []obj{}, false},
		{grep("^$", obj{"path": "empty"}), []obj{}, false},
	} {
		r.want(c.ask, obj{"ok": true, "matches": c.want, "truncated": c.cut})
	}
	r.refused(grep("a(", nil), "pattern is not a valid RE2 regular expression: missing closing ): `a(`")
	r.refused(grep("a)(b", obj{"ignore_case": true}), "pattern is not a valid RE2 regular expression: unexpected ): `a)(b`")
	r.refused(grep(`(a)\1`, nil), "pattern is not a valid RE2 regular expression: invalid escape sequence: `\\1`")
	r.refused(grep("", nil), "pattern is empty")
	r.refused(grep(strings.Repeat("a", MaxPattern+1), nil), "pattern is longer than 4096 bytes")
	r.refused(grep("(?:abcdefghijk){1000}", nil), "pattern is too large: with its repetitions written out it has 11000 steps, at most 10000 are searched for")
	r.refused(grep("a", obj{"glob": "["}), `glob "[" is not a valid glob`)
	r.refused(grep("a", obj{"glob": "../x"}), `glob "../x" escapes the worktree`)
	r.refused(grep("a", obj{"context": -1}), "context must be from 0 to 20")
	r.refused(grep("a", obj{"context": MaxContext + 1}), "context must be from 0 to 20")
	r.refused(grep("a", obj{"limit": -5}), "limit must be at least 1")
	r.refused(grep("a", obj{"path": "gone"}), `path "gone" does not exist`)
}

// Every bound of a grep ends it with what was found so far, and says so.
func TestGrepBounds(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("x", MaxScanLine) + "needle\n"
	line := strings.Repeat("y", MaxLineText-20) + " hit\n"
	r.put(map[string]string{"long": long + "needle\n", "many": strings.Repeat(line, 2*MaxListing/len(line)), "zz": "needle\n"})
	r.want(obj{"op": "grep", "pattern": "needle"}, obj{"ok": true, "truncated": true, "matches": []obj{
		{"path": "long", "line": 2, "text": "needle", "before": []any{}, "after": []any{}},
		{"path": "zz", "line": 1, "text": "needle", "before": []any{}, "after": []any{}}}})
	got, err := r.perform(obj{"op": "grep", "pattern": "hit", "limit": 1000, "context": 3})
	must(t, err)
	if n := len(got["matches"].([]any)); got["truncated"] != true || n < 50 || n > MaxListing/len(line) {
		t.Errorf("truncated %v after %d matches", got["truncated"], n)
	}
	big := strings.Repeat(strings.Repeat("z", 1023)+"\n", MaxScanFile/1024)
	r.put(map[string]string{"huge": big + "needle\n", "huge2": big})
	got, err = r.perform(obj{"op": "grep", "pattern": "needle", "path": "huge"})
	must(t, err)
	if len(got["matches"].([]any)) != 0 || got["truncated"] != true {
		t.Errorf("past the bound of a file: %v", got)
	}
	got, err = r.perform(obj{"op": "grep", "pattern": "needle", "path": "huge2"})
	must(t, err)
	if got["truncated"] != false {
		t.Error("a file of exactly the bound is told as cut")
	}
}

// The answer does not depend on the order in which a directory was filled.
func TestOrderIsBytewise(t *testing.T) {
	r := newRig(t)
	for _, n := range []string{"z", "a/z", "a.b", "a-", "a0", "a/A", "B", "é"} {
		r.put(map[string]string{n: "hit"})
	}
	got, err := r.perform(obj{"op": "grep", "pattern": "hit"})
	must(t, err)
	var order []string
	for _, m := range got["matches"].([]any) {
		order = append(order, fmt.Sprint(m.(obj)["path"]))
	}
	if s := strings.Join(order, " "); s != "B a- a.b a/A a/z a0 z é" {
		t.Errorf("order: %s", s)
	}
}

// An expression as large as they may be, over a line as long as they are matched, ends when the
// time of the effect does, with what was found before.
func TestGrepThatWouldNotEnd(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"a": strings.Repeat("a", 2000) + "b\n", "b": strings.Repeat("a", MaxScanLine) + "\nb\n"})
	for name, pattern := range map[string]string{"hard": "(a?){1000}(a?){1000}b", "folded": "(?i)(a?){1000}([aA]?){1000}b"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), answerGrace+time.Second)
			defer cancel()
			out, err := r.raw(ctx, EffectRead, string(hashref.MustMarshal(obj{"op": "grep", "pattern": pattern})))
			if err != nil || out["truncated"] != true {
				t.Fatalf("%.200v, %v", out, err)
			}
			for _, m := range out["matches"].([]any) {
				if m.(map[string]any)["path"] != "a" {
					t.Errorf("%.200v", m)
				}
			}
		})
	}
}

// steps is never below what the library makes of an expression but for its ends, and never far
// above.
func TestSteps(t *testing.T) {
	for _, pattern := range []string{"", "a", "abc", "[a-z]", "a*", "a+?", "a?", "(a)", "(?:a|bc|d)", "a{3}", "a{3,}", "a{3,7}", "a{0}", "(a{10}b?){20,30}", "^x$", `\pL{5}|\bq\b`, "(a?){100}"} {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		must(t, err)
		n := steps(tree)
		prog, err := syntax.Compile(tree.Simplify())
		must(t, err)
		if made := len(prog.Inst) - 2; n < made-1 || n > made+4 {
			t.Errorf("%s: %d steps, made into %d", pattern, n, made)
		}
	}
}
