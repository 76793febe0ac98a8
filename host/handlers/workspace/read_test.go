package workspace

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"ailang.dev/world/host/broker"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

func TestReadWhole(t *testing.T) {
	r := newRig(t)
	full := strings.Repeat("0123456789abcde\n", MaxRead/16)
	cutRune := strings.Repeat("a", SniffBytes-1) + "é tail" // é lies across the end of the head
	r.put(map[string]string{"empty": "", "crlf": "a\r\nb\r\n", "odd": "\u2028\u0001\"\\é😀", "full": full,
		"over": full + "x", "cutrune": cutRune, "nul": "a\x00b", "latin": "caf\xe9", "late": strings.Repeat("a", SniffBytes) + "\xff",
		"trunc": "abc\xc3", "ctl": strings.Repeat("\x01", 900_000)})
	for name, content := range map[string]string{"empty": "", "crlf": "a\r\nb\r\n", "odd": "\u2028\u0001\"\\é😀", "full": full, "cutrune": cutRune} {
		r.want(read(name), obj{"ok": true, "content": content})
	}
	r.refused(read("over"), `path "over" is too large to be read whole: 1048577 bytes, at most 1048576; read a range of its lines with from and to`)
	r.refused(read("nul"), `path "nul" is a binary file of 3 bytes; its content is not shown`)
	r.refused(read("latin"), `path "latin" is a binary file of 4 bytes; its content is not shown`)
	r.refused(read("trunc"), `path "trunc" is a binary file of 4 bytes; its content is not shown`)
	r.refused(read("late"), `path "late" is a binary file of 8193 bytes; its content is not shown`)
	r.refused(read("ctl"), `the answer would be 5400188 bytes; at most 4194304 can be given: ask for less`)
}

// A whole read has exactly the four members that the contract names.
func TestReadMembers(t *testing.T) {
	r := newRig(t)
	r.put(map[string]string{"a": "x"})
	out, err := r.h.Perform(t.Context(), broker.Request{Episode: episode, Need: world.Need{Effect: EffectRead, Scope: Scope, Cost: 1},
		Payload: []byte(`{"op":"read","path":"a"}`)})
	must(t, err)
	want := `{"content":"x","ok":true,"policy_digest":"` + r.h.Objects()[1].Hash.Hex() + `","tool":"` + r.h.Objects()[0].Hash.String() + `"}`
	if string(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
}

func TestReadRange(t *testing.T) {
	r := newRig(t)
	wide := strings.Repeat("é", MaxRead) // one line of twice what can be read
	r.put(map[string]string{"five": "1\n2\r\n3\n4\n5", "ended": "1\n2\n", "empty": "", "nl": "\n", "wide": wide,
		"many": strings.Repeat("0123456789abcde\n", MaxRead/16) + "tail\n", "late": strings.Repeat("a\n", SniffBytes) + "\xff\nz\n"})
	rng := func(p string, from, to int) obj {
		o := read(p)
		if from != 0 {
			o["from"] = from
		}
		if to != 0 {
			o["to"] = to
		}
		return o
	}
	ok := func(content string, from, to, total int) obj {
		return obj{"ok": true, "content": content, "from": from, "to": to, "total_lines": total}
	}
	cut := func(o obj) obj { o["truncated"] = true; return o }
	for _, c := range []struct{ ask, want obj }{
		{rng("five", 2, 3), ok("2\r\n3\n", 2, 3, 5)},
		{rng("five", 4, 0), ok("4\n5", 4, 5, 5)},
		{rng("five", 0, 2), ok("1\n2\r\n", 1, 2, 5)},
		{rng("five", 5, 99), ok("5", 5, 5, 5)},
		{rng("five", 1, 5), ok("1\n2\r\n3\n4\n5", 1, 5, 5)},
		{rng("ended", 2, 2), ok("2\n", 2, 2, 2)},
		{rng("empty", 1, 9), ok("", 1, 0, 0)},
		{rng("nl", 1, 1), ok("\n", 1, 1, 1)},
		{rng("wide", 1, 1), cut(ok(strings.Repeat("é", MaxRead/2), 1, 1, 1))},
		{rng("many", 1, 0), ok(strings.Repeat("0123456789abcde\n", MaxRead/16), 1, MaxRead/16, MaxRead/16+1)},
		{rng("late", SniffBytes+2, 0), ok("z\n", SniffBytes+2, SniffBytes+2, SniffBytes+2)},
	} {
		if c.ask["path"] == "many" {
			cut(c.want)
		}
		r.want(c.ask, c.want)
	}
	r.refused(rng("five", 6, 0), "from 6 is past the end of five, which has 5 lines")
	r.refused(rng("empty", 2, 0), "from 2 is past the end of empty, which has 0 lines")
	r.refused(rng("five", 3, 2), "to must not be less than from")
	r.refused(obj{"op": "read", "path": "five", "from": 0}, "from must be at least 1: lines are counted from 1")
	r.refused(obj{"op": "read", "path": "five", "from": -1}, "from must be at least 1: lines are counted from 1")
	r.refused(obj{"op": "read", "path": "five", "to": 0}, "to must not be less than from")
	r.refused(rng("late", SniffBytes+1, 0), `path "late" is a binary file of 16388 bytes; its content is not shown`)
}

// A gigabyte of text is refused whole, and read by lines without being held.
func TestHugeText(t *testing.T) {
	r := newRig(t)
	f, err := os.Create(filepath.Join(r.tree, "huge"))
	must(t, err)
	line := strings.Repeat("x", 1023) + "\n"
	block := []byte(strings.Repeat(line, 1024))
	const blocks = 64 // text, then a hole: a NUL is only looked for at the head
	for range blocks {
		_, err := f.Write(block)
		must(t, err)
	}
	must(t, f.Truncate(1<<30))
	must(t, f.Close())
	r.refused(read("huge"), `path "huge" is too large to be read whole: 1073741824 bytes, at most 1048576; read a range of its lines with from and to`)
	r.refused(edit("huge", "x", "y"), `path "huge" is too large to be edited: 1073741824 bytes, at most 8388608`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.want(obj{"op": "read", "path": "huge", "from": blocks * 1024, "to": blocks * 1024},
		obj{"ok": true, "content": line, "from": blocks * 1024, "to": blocks * 1024, "total_lines": blocks*1024 + 1})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("a range read of a huge file takes %d bytes of memory", took)
	}
	sparse, err := os.Create(filepath.Join(r.tree, "sparse"))
	must(t, err)
	must(t, sparse.Truncate(1<<30))
	must(t, sparse.Close())
	r.refused(read("sparse"), `path "sparse" is a binary file of 1073741824 bytes; its content is not shown`)
	r.refused(obj{"op": "read", "path": "sparse", "from": 1}, `path "sparse" is a binary file of 1073741824 bytes; its content is not shown`)
	r.want(obj{"op": "grep", "pattern": "x", "path": "sparse"}, obj{"ok": true, "matches": []any{}, "truncated": false})
}

// Whatever the bounds let through stays under what the broker accepts.
func TestAnswersFitTheBroker(t *testing.T) {
	if worst := MaxListing + 64<<10; worst > broker.MaxEffectOutput {
		t.Errorf("a listing may take %d bytes", worst)
	}
	for _, s := range []string{"", "plain", "\"\\\b\f\n\r\t\x00\x1f\x7f", "é😀\u2028"} {
		if got, want := jsonLen(s), len(hashref.MustMarshal(s)); got != want {
			t.Errorf("jsonLen(%q) = %d, want %d", s, got, want)
		}
	}
}
